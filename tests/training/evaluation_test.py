import asyncio
import itertools
import math

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_textpriv.datasets import batching, clients
from tff_textpriv.models import language_models
from tff_textpriv.text import subword, tokenizers
from tff_textpriv.training import evaluation

_EOS, _UNKNOWN = tokenizers.EOS_ID, tokenizers.UNKNOWN_ID
# Ids 10 and 11 begin words, 12 continues them, the unknown token is a word.
_STARTS = np.zeros(13, bool)
_STARTS[[10, 11, _UNKNOWN]] = True


def test_word_metrics_follow_their_definition():
  targets = np.array([10, 12, 11, _EOS, 10, _UNKNOWN, 11, 12, 12, _EOS])
  correct = np.array([1, 1, 0, 0, 1, 1, 1, 1, 0, 1], bool)
  log_likelihood = np.log(np.full(10, 0.5))
  metrics = evaluation.word_metrics(targets, log_likelihood, correct, _STARTS)
  # Words: (10 12) right; (11) wrong; (10) right; unknown never right; (11 12 12) not
  # all right. The wrong EOS after the second word does not count against it.
  assert metrics['num_words'] == 5
  assert metrics['word_accuracy'] == 2 / 5
  assert metrics['word_perplexity'] == pytest.approx(math.exp(10 * math.log(2) / 5))
  assert metrics['tokens_per_word'] == 8 / 5
  assert metrics['oov_share'] == 1 / 5


def test_a_model_that_has_diverged_has_an_infinite_perplexity_that_can_be_released(
  tmp_path,
):
  targets = np.array([10, _EOS])
  metrics = evaluation.word_metrics(
    targets, np.array([-100.0, -1.0]), np.zeros(2, bool), _STARTS
  )
  # exp(101) fits a float64 but not the float32 of TensorBoard.
  assert metrics['word_perplexity'] == math.inf
  release = tff.program.TensorBoardReleaseManager(tmp_path).release(metrics, 1)
  asyncio.run(release)


def test_no_words_give_no_figure():
  empty = np.zeros(0, int)
  metrics = evaluation.word_metrics(empty, empty, empty.astype(bool), _STARTS)
  assert metrics['num_words'] == 0 and math.isnan(metrics['word_perplexity'])


@pytest.fixture(scope='module')
def text():
  words = ['alpha', 'beta', 'gamma', 'delta', 'epsilon']
  rng = np.random.default_rng(0)
  posts = {
    f'user_{i}': [' '.join(rng.choice(words, rng.integers(1, 30))) for _ in range(3)]
    for i in range(4)
  }
  return clients.InMemoryClientText(posts)


def _evaluator(model, tokenizer, max_words=20):
  rule = batching.WindowRule(max_words, tokenizer.starts_word)
  return evaluation.LanguageModelEvaluator(model, tokenizer, rule)


def test_a_uniform_model_has_the_perplexity_that_arithmetic_gives(text):
  texts = [t for user in text.client_ids for t in text.read(user)]
  tokenizer = subword.train(texts, 290)
  model = language_models.LstmLanguageModel(290, 4, 4, 1, tied=True)
  zeros = [np.zeros(shape, np.float32) for shape in model.weight_shapes]
  posts = tokenizer.encode(texts)
  num_predictions = sum(len(ids) - 1 for ids in posts)
  num_words = sum(len(t.split()) for t in texts)
  # Windows of any length predict every token once, so the figure is the same.
  for max_words in (4, 1000):
    evaluator = _evaluator(model, tokenizer, max_words)
    metrics = evaluator.evaluate(zeros, posts)
    assert metrics['num_words'] == num_words
    assert metrics['word_perplexity'] == pytest.approx(
      290 ** (num_predictions / num_words), rel=1e-4
    )
    # Every logit is equal and argmax takes the first id, which is padding.
    assert metrics['word_accuracy'] == 0


def test_batching_does_not_change_the_scores(text, monkeypatch):
  texts = [t for user in text.client_ids for t in text.read(user)]
  tokenizer = subword.train(texts, 290)
  model = language_models.LstmLanguageModel(290, 4, 4, 1, tied=True)
  weights = [10 * weight for weight in model.initial_weights(0)]
  posts = tokenizer.encode(texts)
  results = []
  for batch_size in (1, 64):
    monkeypatch.setattr(evaluation, '_BATCH_SIZE', batch_size)
    evaluator = _evaluator(model, tokenizer)
    results.append(evaluator.evaluate(weights, posts))
  assert results[0] == pytest.approx(results[1], rel=1e-5)


def test_users_with_models_of_their_own_are_scored_together(text):
  """All words count alike, whoever wrote them: not the mean of users' perplexities."""
  texts = [t for user in text.client_ids for t in text.read(user)]
  tokenizer = subword.train(texts, 290)
  model = language_models.LstmLanguageModel(290, 4, 4, 1, tied=True)
  evaluator = _evaluator(model, tokenizer)
  weights = model.initial_weights(0)
  posts = tokenizer.encode(texts)
  parts = [evaluator.score(weights, part) for part in (posts[:1], posts[1:])]
  together = evaluator.of_users(parts)
  assert together == pytest.approx(evaluator.evaluate(weights, posts))


def _log_softmax(logits):
  logits = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
  return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def _lstm_by_hand(weights, read, predicted=None):
  """Reads tokens with an LSTM of one layer, one by one, in float64.

  By default what is predicted is what is read next.
  """
  predicted = read[1:] if predicted is None else predicted
  embedding, kernel, recurrent, bias, output_bias = (
    np.asarray(weight, np.float64) for weight in weights
  )
  units = recurrent.shape[0]
  hidden, cell = np.zeros(units), np.zeros(units)
  scores = []
  for token, target in zip(read, predicted, strict=False):
    gates = embedding[token] @ kernel + hidden @ recurrent + bias
    enter, forget, candidate, leave = np.split(gates, 4)
    cell = _sigmoid(forget) * cell + _sigmoid(enter) * np.tanh(candidate)
    hidden = _sigmoid(leave) * np.tanh(cell)
    scores.append(_log_softmax(embedding @ hidden + output_bias)[target])
  return np.array(scores)


def _sigmoid(value):
  return 1 / (1 + np.exp(-value))


def _posts_of_all_lengths(rng, number=20):
  lengths = rng.integers(1, 150, number)
  return [tokenizers.surround(rng.integers(4, 13, length)) for length in lengths]


class _Ids:
  """A tokenizer as far as the evaluation needs one."""

  starts_word = _STARTS


def test_a_recurrent_model_carries_its_state_through_a_post(monkeypatch):
  rng = np.random.default_rng(0)
  posts = _posts_of_all_lengths(rng)
  model = language_models.LstmLanguageModel(13, 4, 4, 1, tied=True)
  weights = [3 * rng.normal(size=s).astype(np.float32) for s in model.weight_shapes]
  expected = np.concatenate([_lstm_by_hand(weights, post) for post in posts])
  # Rows of one batch end in different calls.
  monkeypatch.setattr(evaluation, '_BATCH_SIZE', 7)
  scores = _evaluator(model, _Ids(), max_words=2).score(weights, posts)
  np.testing.assert_allclose(scores.log_likelihood, expected, rtol=1e-3, atol=1e-3)
  np.testing.assert_array_equal(
    scores.targets, np.concatenate([post[1:] for post in posts])
  )
  # A model that starts anew in every window finds something else.
  rule = batching.WindowRule(2, _STARTS)
  cold = np.concatenate([_lstm_by_hand(weights, window) for window in rule.cut(posts)])
  assert np.abs(cold - expected).max() > 0.1


def test_a_stream_is_read_over_the_ends_of_its_lines_blank_ones_too():
  """What is predicted, and from what, is as the perplexities of the literature have it."""
  rng = np.random.default_rng(0)
  words = np.arange(4, 13)
  lines = [rng.choice([*words, _UNKNOWN], size=n) for n in (5, 0, 0, 40, 1, 0, 90)]
  posts = [tokenizers.surround(line) for line in lines]
  model = language_models.LstmLanguageModel(13, 4, 4, 1, tied=True)
  weights = [3 * rng.normal(size=s).astype(np.float32) for s in model.weight_shapes]
  evaluator = _evaluator(model, _Ids())
  found = evaluator.evaluate(weights, [evaluation.stream(posts)])
  # One state from the first token to the last; before a line stands BOS, as in training.
  predicted = np.concatenate([[*line, _EOS] for line in lines])
  read = np.where(predicted == _EOS, tokenizers.BOS_ID, predicted)
  read = np.concatenate([[tokenizers.BOS_ID], read])
  expected = _lstm_by_hand(weights, read, predicted)
  assert len(expected) == 136 + len(lines)
  assert found['token_perplexity'] == pytest.approx(np.exp(-expected.mean()), rel=1e-4)
  # Lines that are read each by itself have another one.
  apart = evaluator.evaluate(weights, posts)
  assert abs(apart['token_perplexity'] / found['token_perplexity'] - 1) > 0.01


def test_a_transformer_sees_half_a_window_before_every_token_but_the_first():
  rng = np.random.default_rng(0)
  posts = _posts_of_all_lengths(rng)
  model = language_models.TransformerLanguageModel(13, 8, 8, 2, 1, tied=True)
  weights = [rng.normal(size=shape).astype(np.float32) for shape in model.weight_shapes]
  max_words = 4
  scores = _evaluator(model, _Ids(), max_words).score(weights, posts)
  expected = []
  for post in posts:
    # The text before a token goes back to the first window's beginning, or to the last
    # half window before the token's own: two words, or eight tokens of long ones.
    for target, start in zip(
      range(1, len(post)), _context_starts(post, 2, 8), strict=True
    ):
      logits = model.logits(weights, post[np.newaxis, start:target]).numpy()[0, -1]
      expected.append(_log_softmax(logits)[post[target]])
  np.testing.assert_allclose(scores.log_likelihood, expected, rtol=1e-3, atol=1e-3)


def _context_starts(post, half_words, half_tokens):
  """Finds where what a model reads before each token begins."""
  halves, words = [[]], 0
  for place, target in enumerate(post[1:]):
    if _STARTS[target] and words == half_words:
      halves.append([])
      words = 0
    words += _STARTS[target]
    halves[-1].append(place)
  parts = []
  for half in halves:
    number = -(-len(half) // half_tokens)
    bounds = [len(half) * i // number for i in range(number + 1)]
    parts += [half[start:end] for start, end in itertools.pairwise(bounds)]
  return [
    parts[number - 1][0] if number > 1 else 0
    for number, part in enumerate(parts)
    for _ in part
  ]
