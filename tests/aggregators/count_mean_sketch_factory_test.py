"""The sketch as an aggregation: what leaves a device, its noise, and the sums."""

import collections
import itertools
import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import tree_analysis

from tff_textpriv import randomness
from tff_textpriv.aggregators import count_mean_sketch as aggregator
from tff_textpriv.privacy.count_mean_sketch import SketchParameters
from tff_textpriv.runtime.execution import execution

_PARAMETERS = SketchParameters(
  num_hashes=4,
  width=64,
  epsilon_per_word=8 / 3,
  words_per_user=3,
  stream=randomness.Stream.of_seed(1),
)


def _process(parameters=_PARAMETERS):
  factory = aggregator.CountMeanSketchFactory(parameters)
  return factory.create(aggregator.client_value_type(parameters.words_per_user))


def _clients(words, seed=0):
  """Clients who hold `words`, [clients, words per user], each with its own seed."""
  words = np.asarray(words, np.int32)
  seeds = np.random.default_rng(seed).integers(2**31, size=[len(words), 2])
  return [
    collections.OrderedDict(words=client_words, seed=client_seed)
    for client_words, client_seed in zip(words, seeds.astype(np.int64), strict=True)
  ]


def _run(process, clients):
  sketch = process.next(process.initialize(), clients).result
  return sketch['bit_sums'], sketch['row_counts']


def _no_words(count: int) -> np.ndarray:
  return np.full([count, 3], aggregator.NO_WORD)


def test_a_row_and_packed_bits_for_each_word_are_all_that_leaves_a_client():
  process = _process()
  (aggregation,) = tree_analysis.find_unsecure_aggregation_in_tree(
    process.next.to_building_block()
  )
  sent = aggregation.argument.type_signature[0]
  assert sent.placement is tff.CLIENTS
  assert str(sent.member) == '<rows=int32[3],bits=uint8[3,8]>'
  assert str(process.next.type_signature.result.result) == (
    '<bit_sums=int32[4,64],row_counts=int32[4]>@SERVER'
  )
  assert not process.is_weighted


def test_other_values_are_refused():
  factory = aggregator.CountMeanSketchFactory(_PARAMETERS)
  # Four words would spend more than the budget of three.
  with pytest.raises(TypeError, match=r'words=int32\[4\].*expected.*words=int32\[3\]'):
    factory.create(aggregator.client_value_type(4))


def _frequencies(word: int, flip_epsilon: float, seed: int) -> tuple[np.ndarray, int]:
  """How often each of the 256 reports of 8 cells comes up, and the word's cell."""
  parameters = SketchParameters(
    num_hashes=1, width=8, epsilon_per_word=flip_epsilon, words_per_user=1
  )
  report = aggregator.randomize(
    parameters, tf.fill([200_000], word), tf.constant([seed, 0])
  )
  counts = np.bincount(report['bits'].numpy()[:, 0], minlength=256)
  return counts, int(parameters.hashes(word + 1)[0, word]) if word >= 0 else -1


def _follows_the_mechanism(frequencies: np.ndarray, cell: int, epsilon: float) -> bool:
  """Pearson's test against the exact distribution, at 5 standard deviations."""
  flip = 1 / (1 + math.exp(epsilon / 2))
  # Cell c is bit c of the byte.
  outputs = np.array(list(itertools.product([0, 1], repeat=8)))[:, ::-1]
  marked = np.eye(8, dtype=int) if cell < 0 else np.eye(8, dtype=int)[cell : cell + 1]
  unchanged = (outputs[np.newaxis] == marked[:, np.newaxis]).sum(-1)
  probabilities = ((1 - flip) ** unchanged * flip ** (8 - unchanged)).mean(0)
  expected = frequencies.sum() * probabilities
  statistic = ((frequencies - expected) ** 2 / expected).sum()
  return bool(abs(statistic - 255) < 5 * math.sqrt(2 * 255))


@pytest.mark.parametrize('word', [0, 7, aggregator.NO_WORD])
def test_reports_have_the_distribution_whose_privacy_was_proved(word):
  epsilon = 8 / 3
  assert _follows_the_mechanism(*_frequencies(word, epsilon, seed=1), epsilon)
  # The broken twin flips with probability 1 / (1 + e^epsilon).
  assert not _follows_the_mechanism(*_frequencies(word, 2 * epsilon, seed=1), epsilon)


def test_rows_are_uniform_and_do_not_depend_on_the_word():
  for word in (3, aggregator.NO_WORD):
    report = aggregator.randomize(
      _PARAMETERS, tf.fill([40_000], word), tf.constant([5, 6])
    )
    rows = np.bincount(report['rows'].numpy(), minlength=4)
    assert np.abs(rows - 10_000).max() < 5 * math.sqrt(40_000 * 0.25 * 0.75)


def test_the_sketch_is_the_sum_of_all_clients_reports(tff_runtime):
  clients = _clients(np.random.default_rng(0).integers(-1, 50, size=[7, 3]))
  bit_sums, row_counts = _run(_process(), clients)
  expected = np.zeros([4, 64], np.int64)
  rows = []
  for client in clients:
    report = aggregator.randomize(_PARAMETERS, client['words'], client['seed'])
    bits = np.unpackbits(report['bits'].numpy(), axis=1, bitorder='little')
    np.add.at(expected, report['rows'].numpy(), bits)
    rows.extend(report['rows'].numpy())
  np.testing.assert_array_equal(bit_sums, expected)
  np.testing.assert_array_equal(row_counts, np.bincount(rows, minlength=4))
  assert bit_sums.dtype == row_counts.dtype == np.int32


def _zipfian_words(num_clients: int, num_words: int, seed: int) -> np.ndarray:
  frequencies = 1 / np.arange(1, num_words + 1)
  rng = np.random.default_rng(seed)
  words = rng.choice(num_words, [num_clients, 3], p=frequencies / frequencies.sum())
  # Some clients have fewer words, some none.
  words[rng.random(words.shape) < 0.2] = aggregator.NO_WORD
  return words


def _counts_are_right(estimates, true_counts, num_reports, parameters) -> bool:
  """Each count, and the mean of their squared errors, within 5 standard errors."""
  squares = (true_counts.astype(float) ** 2).sum() + num_reports - true_counts.sum()
  scaled = (estimates - true_counts) / np.array(
    [
      math.sqrt(parameters.variance(num_reports, count, squares - count**2))
      for count in true_counts
    ]
  )
  bound = 5 * math.sqrt(2 / scaled.size)
  return bool(np.abs(scaled).max() < 5 and abs((scaled**2).mean() - 1) < bound)


def test_counts_of_thousands_of_clients_are_unbiased(tff_runtime):
  parameters = SketchParameters(
    num_hashes=64, width=512, epsilon_per_word=8 / 3, words_per_user=3
  )
  words = _zipfian_words(2000, 300, seed=2)
  sketch = _run(_process(parameters), _clients(words))
  estimates = parameters.estimate(*sketch, parameters.hashes(300))
  true_counts = np.bincount(words[words >= 0], minlength=300)
  assert _counts_are_right(estimates, true_counts, 6000, parameters)
  # The broken twin: a server with the hash functions of another seed.
  other = SketchParameters(64, 512, 8 / 3, 3, randomness.Stream.of_seed(1))
  wrong = other.estimate(*sketch, other.hashes(300))
  assert not _counts_are_right(wrong, true_counts, 6000, parameters)


def test_clients_without_words_add_nothing_to_any_count():
  parameters = SketchParameters(
    num_hashes=4, width=64, epsilon_per_word=8.0, words_per_user=3
  )
  num_reports = 120_000
  report = aggregator.randomize(
    parameters, tf.fill([num_reports], aggregator.NO_WORD), tf.constant([1, 2])
  )
  sketch = aggregator.add_report(aggregator.empty_sketch(parameters), report)
  row_counts = sketch['row_counts'].numpy()
  error = math.sqrt(parameters.variance(num_reports, 0, num_reports))

  def are_zero(bit_sums):
    counts = parameters.estimate(bit_sums, row_counts, parameters.hashes(200))
    return np.abs(counts).max() < 5 * error

  assert are_zero(sketch['bit_sums'].numpy())
  # The broken twin sends flips alone: the server then subtracts collisions that
  # never were.
  flip = parameters.flip_probability
  unmarked = np.random.default_rng(0).binomial(row_counts[:, None], flip, size=[4, 64])
  assert not are_zero(unmarked)


def _noise_is_independent(bit_sums: np.ndarray, row_counts: np.ndarray) -> bool:
  """Whether sums over clients without words vary as independent bits do."""
  flip = _PARAMETERS.flip_probability
  one = flip + (1 - 2 * flip) / _PARAMETERS.width
  used = row_counts > 0
  reports = row_counts[used, np.newaxis]
  scaled = (bit_sums[used] - reports * one) / np.sqrt(reports * one * (1 - one))
  return bool(abs((scaled**2).mean() - 1) < 5 * math.sqrt(2 / scaled.size))


def test_each_client_has_its_own_noise_and_a_shared_seed_is_caught(tff_runtime):
  process, clients = _process(), _clients(_no_words(200))
  assert _noise_is_independent(*_run(process, clients))
  for client in clients:
    client['seed'] = np.array([1, 2], np.int64)
  assert not _noise_is_independent(*_run(process, clients))


def test_noise_is_a_function_of_the_clients_seeds(tff_runtime):
  process = _process()
  first = _run(process, _clients(_no_words(5), seed=1))
  again = _run(process, _clients(_no_words(5), seed=1))
  other = _run(process, _clients(_no_words(5), seed=2))
  np.testing.assert_array_equal(first[0], again[0])
  assert not np.array_equal(first[0], other[0])


def test_an_empty_cohort_gives_an_empty_sketch(tff_runtime):
  bit_sums, row_counts = _run(_process(), [])
  assert bit_sums.shape == (4, 64)
  assert not bit_sums.any() and not row_counts.any()


def test_two_workers_make_the_sketch_of_one(tff_runtime, tmp_path):
  process, clients = _process(), _clients(_zipfian_words(25, 30, seed=3))
  expected = _run(process, clients)
  with execution(num_workers=2, log_dir=tmp_path):
    for ours, theirs in zip(_run(process, clients), expected, strict=True):
      np.testing.assert_array_equal(ours, theirs)
