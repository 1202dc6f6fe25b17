"""Next words are those of the model that was trained, whatever finds them."""

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv.datasets import batching
from tff_textpriv.models import sampling
from tff_textpriv.tasks import stackoverflow
from tff_textpriv.text import normalize, subword, tokenizers
from tff_textpriv.training import evaluation

_SMALL = ('--algo=fed_avg', '--num_users=20', '--max_eval_users=3')
_BPE = (*_SMALL, '--vocab_size=350')
_RUNS = {
  'lstm': (*_BPE, '--model=lstm_tiny'),
  'gru untied': (*_BPE, '--model=gru_tiny', '--tied_embeddings=false'),
  'transformer': (*_BPE, '--model=transformer_tiny'),
  'words': (*_SMALL, '--tokenizer=word', '--vocab_size=200'),
}
_TEXTS = ['', 'how do i', ' wo  ist\tﬁx Ω 日本 a b c d e f g h i j k l m n o p']


@pytest.fixture(
  params=[
    pytest.param(name, marks=() if name in ('lstm', 'words') else pytest.mark.slow)
    for name in _RUNS
  ],
  scope='module',
)
def made(request, make_run):
  """A run of each kind of model and tokenizer."""
  return make_run(stackoverflow.TASK, *_RUNS[request.param])


@pytest.fixture(scope='module')
def model(made):
  """The model of it that reads text."""
  return made.run.text_model(5)


@pytest.fixture(scope='module')
def log_probabilities(made):
  """What the sampler draws the token after some ids from."""
  logits_of = tf.function(
    lambda ids: made.bench.model.logits(made.weights, ids)[0, -1],
    input_signature=[tf.TensorSpec([1, None], tf.int32)],
  )

  def compute(ids):
    logits = logits_of(tf.constant([ids])).numpy().astype(np.float64)
    logits[list(sampling.NEVER_SAMPLED)] = -np.inf
    return logits - np.log(np.exp(logits).sum())

  return compute


def _next_words(made, log_probabilities, text, least, start=b''):
  """Looks at all beginnings of words that have a probability of `least` or more."""
  tokenizer = made.bench.tokenizer
  is_bpe = tokenizer.kind == 'bpe'
  pieces = [subword.piece_bytes(p) if is_bpe else p.encode() for p in tokenizer.pieces]
  is_text = np.arange(tokenizer.size) >= tokenizers.NUM_CONTROL_IDS
  begins, goes_on = (
    tokenizer.starts_word & is_text,
    ~tokenizer.starts_word & is_text,
  )
  ends = begins | (np.arange(tokenizer.size) == tokenizers.EOS_ID)
  context = tokenizer.encode([normalize.normalize(text)])[0][:-1].tolist()
  words: dict[bytes, float] = {}
  beginnings = [([], b'', 1.0)]
  while beginnings:
    ids, word, share = beginnings.pop()
    following = share * np.exp(log_probabilities(context + ids))
    if word.startswith(start) and word.decode(errors='ignore').encode() == word != b'':
      words[word] = words.get(word, 0) + following[ends].sum()
    allowed = (goes_on if ids else begins) & (following >= least)
    for token in np.flatnonzero(allowed):
      longer = word + pieces[token]
      if longer.startswith(start) or start.startswith(longer):
        beginnings.append(([*ids, int(token)], longer, following[token]))
  return sorted(words.items(), key=lambda pair: -pair[1])


@pytest.mark.parametrize('text', _TEXTS)
def test_suggestions_are_the_most_likely_words_of_the_trained_model(
  made, model, log_probabilities, text
):
  found = model.suggest([text])
  shares = found['probabilities'][0].numpy()
  assert shares[-1] > 1e-4
  # With less likely ways to write a word, too, which may put it ahead of another one.
  expected = _next_words(made, log_probabilities, text, least=0.05 * shares[-1])
  assert found['words'][0].numpy().tolist() == [word for word, _ in expected[:5]]
  # Beams may find a further, less likely way to write a word.
  np.testing.assert_allclose(shares, [share for _, share in expected[:5]], rtol=0.01)


def test_rows_of_a_batch_do_not_disturb_each_other(model):
  together = model.suggest(_TEXTS)
  for row, text in enumerate(_TEXTS):
    alone = model.suggest([text])
    assert together['words'][row].numpy().tolist() == alone['words'][0].numpy().tolist()
    np.testing.assert_allclose(
      together['probabilities'][row], alone['probabilities'][0], rtol=1e-3
    )


def test_a_begun_word_is_completed(made, model, log_probabilities):
  first = model.suggest(['how do i'])['words'][0, 0].numpy()
  for length in range(1, len(first) + 1):
    begun = first[:length]
    found = model.complete([b'how do i ' + begun])
    assert all(word.startswith(begun) for word in found['words'][0].numpy() if word)
    assert found['words'][0, 0].numpy() == first
  found = model.complete([b'how do i ' + first[:1]])
  least = 0.9 * found['probabilities'][0, 1].numpy()
  expected = _next_words(made, log_probabilities, 'how do i', least, start=first[:1])
  assert found['words'][0, :2].numpy().tolist() == [word for word, _ in expected[:2]]


def test_after_white_space_a_new_word_begins(model):
  ours = model.complete(['how do i\u00a0', 'how do i'])['words'].numpy()
  assert ours[0].tolist() == model.suggest(['how do i'])['words'][0].numpy().tolist()
  assert all(word.startswith(b'i') for word in ours[1] if word)


def test_no_word_begins_with_what_no_text_can(model):
  found = model.complete(['how do \ufffe\ufffe\ufffe\ufffe\ufffe\ufffe'])
  assert found['words'].numpy()[0].tolist() == [b''] * 5
  assert found['probabilities'].numpy()[0].tolist() == [0.0] * 5


def test_scores_are_those_of_the_evaluation(made, model):
  texts = ['how do i', 'Ω 日本 ﬁx', 'one two three four five six']
  tokenizer = made.bench.tokenizer
  plain = [normalize.normalize(text) for text in texts]
  ids = tokenizer.encode(plain)
  rule = batching.WindowRule(1000, tokenizer.starts_word)
  evaluator = evaluation.LanguageModelEvaluator(made.bench.model, tokenizer, rule)
  found = model.score(texts)
  for row in range(len(texts)):
    expected = evaluator.evaluate(made.weights, [ids[row]])
    assert found['num_words'][row].numpy() == expected['num_words']
    np.testing.assert_allclose(
      found['perplexity'][row], expected['word_perplexity'], rtol=1e-3
    )


def test_weights_come_back_from_the_keras_model(made):
  model, weights = made.run.language_model()
  assert model == made.bench.model
  for ours, theirs in zip(weights, made.weights, strict=True):
    np.testing.assert_array_equal(ours, theirs)
