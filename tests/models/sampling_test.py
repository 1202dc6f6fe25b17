import collections
import dataclasses
import itertools

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tff_textpriv.models import interface, recurrent_lm, sampling, transformer_lm
from tff_textpriv.text import tokenizers

_EOS = tokenizers.EOS_ID
_FORBIDDEN = (tokenizers.PAD_ID, tokenizers.UNKNOWN_ID, tokenizers.BOS_ID)
_VOCAB = 7
_NUM_TEXTS = 20_000
# A right sampler fails one seed in a million; the seeds are fixed.
_SURE = 1e-6


@dataclasses.dataclass(frozen=True)
class _TableModel(interface.LanguageModel):
  """The next token depends on the last one and, through the state, the one before.

  Its weight is the table of logits [vocab, vocab, vocab]: one before, last, next.
  Before the first token there was padding.
  """

  carried: bool = True

  @property
  def weight_shapes(self):
    return [(self.vocab_size,) * 3]

  def initial_weights(self, seed):
    return [np.random.default_rng(seed).normal(size=(_VOCAB,) * 3).astype(np.float32)]

  def initial_state(self, batch_size, max_length):
    del max_length
    return (tf.zeros([batch_size], tf.int32),)

  def step(self, weights, tokens, state):
    before = tf.concat([state[0][:, tf.newaxis], tokens[:, :-1]], axis=1)
    logits = tf.gather_nd(weights[0], tf.stack([before, tokens], axis=2))
    return logits, (tokens[:, -1],) if self.carried else state

  def hidden(self, weights, tokens, dropout_seed=None):
    raise AssertionError('not used')

  def logits(self, weights, tokens):
    return self.step(weights, tokens, self.initial_state(tf.shape(tokens)[0], 0))[0]

  def to_keras(self, weights=None):
    raise AssertionError('not used')

  def from_keras(self, twin):
    raise AssertionError('not used')


_TABLE = _TableModel(_VOCAB, tied=True)
_BROKEN = _TableModel(_VOCAB, tied=True, carried=False)
_WEIGHTS = _TABLE.initial_weights(0)


def _draw(model=_TABLE, weights=_WEIGHTS, *, seed=0, num_texts=_NUM_TEXTS, **options):
  options = {'max_length': 3, 'batch_size': 1000} | options
  sampler = sampling.Sampler(model, **options)
  num_batches = -(-num_texts // options['batch_size'])
  batches = itertools.islice(sampler.batches(weights, seed), num_batches)
  return np.concatenate(list(batches))[:num_texts]


def _next_probabilities(model, weights, prefix, temperature=1.0):
  """The distribution of the token after BOS and a prefix, read in one go."""
  tokens = np.array([[tokenizers.BOS_ID, *prefix]], np.int32)
  logits = model.logits(weights, tokens)[0, -1].numpy().astype(float) / temperature
  logits[list(_FORBIDDEN)] = -np.inf
  return np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()


def _text_probabilities(model, weights, length, temperature=1.0):
  """The probability of every text of at most so many tokens, by the chain rule."""
  known = {}
  unfinished = {(): 1.0}
  for _ in range(length):
    longer = {}
    for prefix, probability in unfinished.items():
      following = _next_probabilities(model, weights, prefix, temperature)
      for token in range(_EOS, _VOCAB):
        target = known if token == _EOS else longer
        target[(*prefix, token)] = probability * following[token]
    unfinished = longer
  return known | unfinished


def _p_value(drawn, probabilities):
  """Pearson's chi-square test of drawn rows against probabilities of texts."""
  counts = collections.Counter(tuple(row[row != 0]) for row in drawn)
  assert counts.keys() <= probabilities.keys()
  observed = np.array([counts[text] for text in probabilities])
  expected = np.array(list(probabilities.values())) * len(drawn)
  # Texts too rare for the chi-square approximation are counted as one.
  rare = expected < 5
  observed = np.append(observed[~rare], observed[rare].sum())
  expected = np.append(expected[~rare], expected[rare].sum())
  keep = expected > 0
  return scipy.stats.chisquare(observed[keep], expected[keep]).pvalue


def _sharp(model, eagerness_to_end):
  """Weights of a model of short texts that depends strongly on the past."""
  rng = np.random.default_rng(2)
  weights = [rng.normal(size=s).astype(np.float32) for s in model.weight_shapes]
  # The last weight is the bias, or the table, and its last axis the next token.
  weights[-1][..., _EOS] += eagerness_to_end
  return weights


_LSTM = recurrent_lm.LstmLanguageModel(_VOCAB, 4, 6, 2, tied=False)
_GRU = recurrent_lm.GruLanguageModel(_VOCAB, 4, 6, 2, tied=False)
_TRANSFORMER = transformer_lm.TransformerLanguageModel(_VOCAB, 4, 6, 2, 2, tied=True)


@pytest.mark.parametrize(
  ('model', 'eagerness_to_end'),
  [(_TABLE, 1.5), (_LSTM, 1.5), (_GRU, 0.0), (_TRANSFORMER, 4.0)],
)
def test_texts_are_as_frequent_as_the_model_says(model, eagerness_to_end):
  weights = _sharp(model, eagerness_to_end)
  drawn = _draw(model, weights, max_length=4)
  # Half of the rows end before the last tokens, so the others' states were picked.
  assert 0.2 < (drawn[:, 2] > 0).mean() < 0.5
  assert _p_value(drawn, _text_probabilities(model, weights, 4)) > _SURE


def _second_token_p_value(model, batch_size=1000, seed=0):
  """Tests the second tokens after the most frequent first one."""
  drawn = _draw(model, seed=seed, batch_size=batch_size, max_length=2)
  first = np.bincount(drawn[drawn[:, 0] != _EOS, 0]).argmax()
  second = drawn[drawn[:, 0] == first, 1]
  observed = np.bincount(second, minlength=_VOCAB)[_EOS:]
  probabilities = _next_probabilities(_TABLE, _WEIGHTS, [first])[_EOS:]
  assert len(second) > 1000
  return scipy.stats.chisquare(observed, probabilities * len(second)).pvalue


@pytest.mark.parametrize('batch_size', [64, 1000, 4096])
def test_the_second_token_depends_on_the_first_and_on_the_state(batch_size):
  assert _second_token_p_value(_TABLE, batch_size) > _SURE


def test_a_state_that_is_not_carried_is_caught():
  assert _second_token_p_value(_BROKEN) < _SURE
  drawn = _draw(_BROKEN)
  assert _p_value(drawn, _text_probabilities(_TABLE, _WEIGHTS, 3)) < _SURE


@pytest.mark.parametrize('temperature', [0.5, 2.0])
def test_temperature_divides_the_logits(temperature):
  drawn = _draw(temperature=temperature)
  right = _text_probabilities(_TABLE, _WEIGHTS, 3, temperature)
  assert _p_value(drawn, right) > _SURE
  assert _p_value(drawn, _text_probabilities(_TABLE, _WEIGHTS, 3)) < _SURE


def _constant(probability_of_end):
  """Weights of a table model that ends with the same probability at each token."""
  table = np.zeros((_VOCAB,) * 3, np.float32)
  others = (1 - probability_of_end) / (_VOCAB - _EOS - 1)
  table[..., _EOS] = np.log(probability_of_end) - np.log(others)
  return [table]


def test_lengths_are_those_of_the_model_however_many_rows_are_left():
  end = 0.1
  drawn = _draw(weights=_constant(end), max_length=40)
  lengths = (drawn != 0).sum(axis=1)
  observed = np.bincount(lengths, minlength=41)[1:]
  expected = end * (1 - end) ** np.arange(40.0)
  expected[-1] = (1 - end) ** 39  # Those that were cut off are among the longest.
  assert scipy.stats.chisquare(observed, expected * len(drawn)).pvalue > _SURE


def test_after_the_end_there_is_only_padding_and_before_it_none():
  drawn = _draw(weights=_constant(0.1), max_length=40, batch_size=512)
  assert not np.isin(drawn, _FORBIDDEN[1:]).any()
  lengths = (drawn != 0).sum(axis=1)
  places = np.arange(40)
  assert ((drawn != 0) == (places < lengths[:, None])).all()
  last = drawn[np.arange(len(drawn)), lengths - 1]
  assert ((last == _EOS) | (lengths == 40)).all()
  assert ((drawn == _EOS).sum(axis=1) <= 1).all()
  assert (lengths == 40).any() and (lengths == 1).any()


def test_padding_bos_and_the_unknown_token_are_never_drawn():
  table = _WEIGHTS[0].copy()
  table[..., list(_FORBIDDEN)] = 30.0
  drawn = _draw(weights=[table])
  right = _text_probabilities(_TABLE, _WEIGHTS, 3)
  assert _p_value(drawn, right) > _SURE


def test_a_batch_is_a_function_of_the_seed_and_its_number():
  first, again, other = (_draw(seed=seed, num_texts=2000) for seed in (1, 1, 2))
  np.testing.assert_array_equal(first, again)
  assert (first != other).any()
  assert (first[:1000] != first[1000:]).any()


def _decode(ids):
  return ' '.join(str(i) for i in ids if i >= tokenizers.NUM_CONTROL_IDS)


def _sample(weights=_WEIGHTS, **options):
  options = {'max_length': 5, 'seed': 0, 'batch_size': 64} | options
  return sampling.sample_texts(_TABLE, weights, _decode, **options)


def test_so_many_texts_are_drawn_and_the_empty_ones_counted():
  sample = _sample(num_texts=500)
  drawn = _draw(max_length=5, batch_size=64, num_texts=500)
  expected = [_decode(row) for row in drawn]
  assert sample.texts == [text for text in expected if text]
  assert sample.num_empty == expected.count('') > 0
  assert sample.num_tokens == (drawn != 0).sum()
  assert sample.num_cut == ((drawn[:, -1] != 0) & (drawn[:, -1] != _EOS)).sum() > 0
  assert sample.tokens_per_second == sample.num_tokens / sample.seconds


def test_no_text_is_begun_after_so_many_tokens():
  sample = _sample(num_tokens=500)
  assert 500 <= sample.num_tokens < 505


def test_a_model_of_empty_texts_is_refused():
  with pytest.raises(sampling.SamplingError, match='100 texts, all of them empty'):
    _sample(_constant(1 - 1e-9), num_texts=100)


@pytest.mark.parametrize(
  'options',
  [
    {},
    {'num_tokens': 5, 'num_texts': 5},
    {'num_texts': 0},
    {'num_texts': 5, 'temperature': 0.0},
    {'num_texts': 5, 'temperature': float('nan')},
    {'num_texts': 5, 'max_length': 0},
    {'num_texts': 5, 'batch_size': -1},
  ],
)
def test_numbers_that_make_no_sense_are_refused(options):
  with pytest.raises(sampling.SamplingError):
    _sample(**options)
