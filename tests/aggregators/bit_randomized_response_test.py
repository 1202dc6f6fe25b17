"""The mean of randomized bits: unbiased, of the stated variance, and really bits."""

import collections
import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest
import small_models
import tensorflow as tf
import tensorflow_federated as tff
from scipy import stats
from tensorflow_federated.python.core.impl.compiler import tree_analysis

from tff_textpriv.aggregators import bit_reports, coordinates, messages
from tff_textpriv.aggregators.bit_randomized_response import (
  BitMeanFactory,
  UnweightedBitMeanFactory,
)
from tff_textpriv.privacy import randomized_bits
from tff_textpriv.runtime.execution import execution

_D = 4_005
_BOUND = 0.5
_UPDATE_TYPE = tff.to_type(
  collections.OrderedDict(a=(np.float32, [_D - 6]), b=(np.float32, [2, 3]))
)
_VALUE_TYPE = tff.to_type(
  collections.OrderedDict(delta=_UPDATE_TYPE, seed=(np.int64, [2]))
)
_WEIGHT_TYPE = tff.TensorType(np.float32)
_EPSILONS = (0.1, 1.0, 10.0)


def _plan(epsilon=1.0, **changes) -> randomized_bits.RandomizedBits:
  plan = randomized_bits.RandomizedBits(epsilon, _D, bound=_BOUND)
  return dataclasses.replace(plan, **changes)


def _update(vector):
  vector = np.asarray(vector, np.float32)
  return collections.OrderedDict(a=vector[:-6], b=vector[-6:].reshape(2, 3))


def _flat(update) -> np.ndarray:
  return np.concatenate([np.ravel(update['a']), np.ravel(update['b'])])


def _vectors(count: int, seed: int = 0) -> np.ndarray:
  """Updates of which some coordinates lie outside of [-q, q]."""
  return np.random.default_rng(seed).uniform(-0.7, 0.7, size=(count, _D))


def _values(vectors, seed: int = 0):
  seeds = np.random.default_rng([seed, 1]).integers(
    -(2**31), 2**31, size=(len(vectors), 2), dtype=np.int32
  )
  return [
    collections.OrderedDict(delta=_update(vector), seed=each)
    for vector, each in zip(vectors, seeds, strict=True)
  ]


def _unweighted(plan, values, **arguments):
  factory = UnweightedBitMeanFactory(plan, **arguments)
  process = factory.create(_VALUE_TYPE)
  return process.next(process.initialize(), values)


def _weighted(plan, values, weights, **arguments):
  process = BitMeanFactory(plan, **arguments).create(_VALUE_TYPE, _WEIGHT_TYPE)
  return process.next(process.initialize(), values, list(weights))


def _bits(plan, vector, seed) -> np.ndarray:
  report = bit_reports.randomize(plan, tf.constant(vector), tf.constant(seed))
  return bit_reports.signs(plan, report).numpy()


def _is_unbiased(estimate, truth, variances) -> bool:
  """The mean error, and the squared errors, within 4 standard errors.

  Coordinates are independent, each of a known variance, and so near to normal that the
  mean square has variance 2 / n.
  """
  scaled = (estimate - truth) / np.sqrt(variances)
  n = scaled.size
  return bool(
    abs(scaled.mean()) < 4 / math.sqrt(n)
    and abs((scaled**2).mean() - 1) < 4 * math.sqrt(2 / n)
    # A bias that follows the value, such as a wrong factor.
    and abs((scaled * truth).sum()) <= 4 * np.linalg.norm(truth)
  )


@pytest.mark.parametrize('epsilon', _EPSILONS)
def test_the_mean_is_unbiased_with_the_stated_variance_and_equation_5_is_not(
  tff_runtime, epsilon
):
  plan, vectors = _plan(epsilon), _vectors(40)
  estimate = _flat(_unweighted(plan, _values(vectors)).result)
  clipped = np.clip(vectors.astype(np.float32), -_BOUND, _BOUND)
  truth = clipped.mean(axis=0)
  variances = plan.response.variance(clipped, _BOUND).mean(axis=0) / len(vectors)
  assert _is_unbiased(estimate, truth, variances)
  # The broken twins: the mean bit through Eq. 5 as it is printed, without any
  # correction, and a variance that leaves out the quantization or the flips.
  contrast = plan.response.contrast
  mean_bit = (estimate * contrast / _BOUND + 1) / 2
  printed = (mean_bit - plan.response.flip_probability) * contrast * 2 * _BOUND - _BOUND
  if epsilon < 10:
    assert not _is_unbiased(printed, truth, variances)
    assert not _is_unbiased((2 * mean_bit - 1) * _BOUND, truth, variances)
    quantization = (_BOUND**2 - clipped**2).mean(axis=0) / len(vectors)
    assert not _is_unbiased(estimate, truth, quantization)
  flips = (_BOUND / contrast) ** 2 - _BOUND**2
  if epsilon > 0.1:
    assert not _is_unbiased(estimate, truth, np.full(_D, flips / len(vectors)))


def test_equation_5_as_printed_is_caught_on_the_worked_example(tff_runtime):
  plan = _plan(1.0)
  vectors = np.full([200, _D], 0.3)
  estimate = _flat(_unweighted(plan, _values(vectors)).result)
  error = math.sqrt(plan.response.variance(0.3, _BOUND) / estimate.size / 200)
  assert abs(estimate.mean() - 0.3) < 4 * error
  mean_bit = (estimate.mean() * plan.response.contrast / _BOUND + 1) / 2
  printed = (mean_bit - 1 / (1 + math.e)) * plan.response.contrast - 0.5
  assert printed == pytest.approx(-0.329, abs=4 * error + 1e-3)


@pytest.mark.parametrize('epsilon', _EPSILONS)
@pytest.mark.parametrize('reported', [1, 100, _D - 1])
def test_with_coordinate_sampling_the_mean_is_unbiased_too(
  tff_runtime, epsilon, reported
):
  plan = _plan(epsilon, coordinates_per_client=reported)
  # So many clients that the mean of the few reports of a coordinate is near to normal.
  vectors = np.repeat(_vectors(1), {1: 50, 100: 50, _D - 1: 20}[reported], axis=0)
  clipped = np.clip(vectors[0].astype(np.float32), -_BOUND, _BOUND)
  total = _flat(_unweighted(plan, _values(vectors)).result)
  # What is normal is the sum over coordinates; the scale cancels.
  variance = plan.response.variance(clipped, _BOUND, plan.reported_share)
  for direction in (clipped, np.ones(_D)):
    # Reports of one client are (slightly) not independent: the exact variance of the
    # sum over what it selects.
    spread = _sample_sum_variance(plan, clipped, direction)
    error = ((total - clipped) * direction).sum() / math.sqrt(spread / len(vectors))
    assert abs(error) < 4
  assert variance.mean() > plan.response.variance(clipped, _BOUND).mean()
  # The broken twin: reports that are not scaled up by d / s.
  broken = total * plan.reported_share
  if reported == 100 and epsilon == 10:
    spread = _sample_sum_variance(plan, clipped, clipped)
    error = ((broken - clipped) * clipped).sum() / math.sqrt(spread / len(vectors))
    assert abs(error) > 4


def _sample_sum_variance(plan, values, direction) -> float:
  """Variance of the sum over coordinates of direction * estimate, for one client.

  The noise of each report, and the sum over one coordinate from each stretch.
  """
  d, s = plan.num_coordinates, plan.num_reported
  noise = (direction**2 * plan.response.variance(values, _BOUND)).sum() * d / s
  selected = _stretches_sum_variance(np.float64(direction * values).tobytes(), d, s)
  return float(noise + (d / s) ** 2 * selected)


@functools.cache
def _stretches_sum_variance(products: bytes, d: int, s: int) -> float:
  """Variance of the sum of one of each of s stretches, over all turns of the circle."""
  circle = np.tile(np.frombuffer(products, np.float64), 2)
  sums, squares = (
    np.concatenate([[0.0], np.cumsum(numbers)]) for numbers in (circle, circle**2)
  )
  ends = np.arange(s + 1) * d // s
  lengths = np.diff(ends)
  means, within = np.empty(d), np.empty(d)
  for turn in range(d):
    own = np.diff(sums[ends + turn]) / lengths
    means[turn] = own.sum()
    within[turn] = (np.diff(squares[ends + turn]) / lengths - own**2).sum()
  return means.var() + within.mean()


@pytest.mark.parametrize(('d', 's'), [(10, 3), (7, 7), (9, 1), (1000, 37)])
def test_no_coordinate_is_selected_twice_and_all_are_as_likely(d, s):
  seeds = np.random.default_rng(0).integers(-(2**62), 2**62, (600, 2))
  rows = np.array([coordinates.selected(d, s, tf.constant(seed)) for seed in seeds])
  assert rows.shape == (600, s) and rows.min() >= 0 and rows.max() < d
  assert all(len(set(row)) == s for row in rows)
  counts = np.bincount(rows.ravel(), minlength=d)
  expected = 600 * s / d
  assert ((counts - expected) ** 2 / expected).sum() < stats.chi2.isf(1e-4, d)
  if (
    1 < s < d / 2
  ):  # The broken twin: a circle that is not turned has stretches as before.
    ends = np.arange(s + 1) * d // s
    assert any(
      ((rows >= low) & (rows < high)).sum(axis=1).max() > 1
      for low, high in itertools.pairwise(ends)
    )


@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('reported', [None, 30])
def test_a_message_adds_to_the_sums_what_it_says(weighted, reported):
  plan = _plan(coordinates_per_client=reported)
  message = bit_reports.randomize(plan, tf.zeros([_D]), tf.constant([5, 6], tf.int64))
  if weighted:
    message['weight'] = tf.constant(7)
  start = np.arange(_D, dtype=np.int64)
  total = collections.OrderedDict(
    signs=tf.constant(start), weight=tf.constant(2, tf.int64)
  )
  after = bit_reports.added(plan, total, message)
  own = bit_reports.contribution(plan, message, tf.int64)
  np.testing.assert_array_equal(after['signs'], start + own['signs'].numpy())
  assert after['weight'] == 2 + own['weight'] == 2 + (7 if weighted else 1)
  assert np.count_nonzero(own['signs']) == plan.num_reported


def test_a_client_reports_as_many_coordinates_as_planned_each_time_others():
  plan = _plan(coordinates_per_client=50)
  rows = np.stack([_bits(plan, np.zeros(_D), [7, i]) != 0 for i in range(200)])
  assert (rows.sum(axis=1) == 50).all()
  # Each coordinate is reported as often as any other: 200 * 50 / d times.
  expected = 200 * 50 / _D
  chi_square = ((rows.sum(axis=0) - expected) ** 2 / expected).sum()
  assert stats.chi2.sf(chi_square / (1 - 50 / _D), _D - 1) > 1e-4
  assert not (rows[0] == rows[1]).all()


@pytest.mark.parametrize('epsilon', _EPSILONS)
def test_the_ratio_of_output_probabilities_stays_below_e_to_the_epsilon(epsilon):
  n = 1_000_000
  plan = _plan(epsilon, num_coordinates=n)
  counts = {
    value: (_bits(plan, np.full(n, value), [3, i]) > 0).sum()
    for i, value in enumerate((-_BOUND, 0.1, 7.0))
  }
  for one in counts.values():
    for other in counts.values():
      for a, b in ((one, other), (n - one, n - other)):
        # Even the surest lower bound of one and upper bound of the other are within.
        lower = stats.beta.ppf(1e-4, a, n - a + 1)
        upper = stats.beta.ppf(1 - 1e-4, b + 1, n - b)
        assert lower <= math.exp(epsilon) * upper
  # The broken twin, quantization without flips, is caught by the same bounds.
  quantized = np.random.default_rng(0).binomial(n, [0.0, 1.0])
  lower = stats.beta.ppf(1e-4, quantized[1], 1)
  upper = stats.beta.ppf(1 - 1e-4, quantized[0] + 1, n)
  assert lower > math.exp(epsilon) * upper
  # And the budget is used: the ends are nearly e^epsilon apart.
  ratio = counts[7.0] / counts[-_BOUND]
  assert math.log(ratio) == pytest.approx(epsilon, abs=0.5 if epsilon == 10 else 0.02)


def _agreement(plan, seeds) -> np.ndarray:
  """Shares of coordinates in which two clients with the same update send the same."""
  first, *others = (_bits(plan, np.zeros(_D), seed) for seed in seeds)
  return np.array([(first == other).mean() for other in others])


def test_clients_flip_different_bits_and_a_shared_seed_is_caught():
  error = 0.5 / math.sqrt(_D)
  own = _agreement(_plan(), [[9, i] for i in range(20)])
  shared = _agreement(_plan(), [[9, 0]] * 20)
  assert (abs(own - 0.5) < 4.5 * error).all()
  assert (shared == 1).all()


def test_a_shared_seed_makes_the_mean_as_noisy_as_one_client(tff_runtime):
  plan, vectors = _plan(), np.zeros([25, _D])
  variances = np.full(_D, plan.response.variance(0.0, _BOUND) / 25)
  own = _values(vectors)
  assert _is_unbiased(_flat(_unweighted(plan, own).result), np.zeros(_D), variances)
  for value in own:
    value['seed'] = own[0]['seed']
  broken = _flat(_unweighted(plan, own).result)
  assert not _is_unbiased(broken, np.zeros(_D), variances)


def test_the_same_seeds_give_the_same_mean(tff_runtime):
  values = _values(_vectors(3))
  first, second = (_flat(_unweighted(_plan(), values).result) for _ in range(2))
  np.testing.assert_array_equal(first, second)


def test_clients_without_a_seed_draw_different_bits_every_time(tff_runtime):
  plan = _plan(noise_source='system')
  process = UnweightedBitMeanFactory(plan).create(_UPDATE_TYPE)
  updates = [_update(vector) for vector in _vectors(3)]
  first, second = (
    _flat(process.next(process.initialize(), updates).result) for _ in range(2)
  )
  assert 0.1 < (first == second).mean() < 0.6


@pytest.mark.parametrize('epsilon', _EPSILONS)
def test_the_weighted_mean_is_unbiased(tff_runtime, epsilon):
  plan, vectors = _plan(epsilon), _vectors(30)
  weights = np.arange(1, 31, dtype=np.float32)
  estimate = _flat(_weighted(plan, _values(vectors), weights).result)
  clipped = np.clip(vectors.astype(np.float32), -_BOUND, _BOUND)
  shares = weights / weights.sum()
  truth = shares @ clipped
  variances = shares**2 @ plan.response.variance(clipped, _BOUND)
  assert _is_unbiased(estimate, truth, variances)
  if epsilon == 10:
    assert not _is_unbiased(estimate, clipped.mean(axis=0), variances)


def test_weights_are_whole_numbers_and_useless_ones_count_as_zero(tff_runtime):
  values = _values(_vectors(5))
  odd = [2.4, 3.0, np.nan, -5.0, np.inf]
  some = _weighted(_plan(), values, np.array(odd, np.float32)).result
  same = _weighted(_plan(), values[:2], np.array([2, 3], np.float32)).result
  np.testing.assert_array_equal(_flat(some), _flat(same))


def test_equal_weights_are_no_weights(tff_runtime):
  values = _values(_vectors(4))
  weighted = _weighted(_plan(), values, np.full(4, 7, np.float32)).result
  np.testing.assert_allclose(
    _flat(weighted), _flat(_unweighted(_plan(), values).result), rtol=1e-6
  )


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_updates_that_are_not_finite_count_as_zero_and_are_counted(tff_runtime, bad):
  vectors = _vectors(3)
  broken, zeroed = vectors.copy(), vectors.copy()
  broken[1, 17] = bad
  zeroed[1] = 0
  plan = _plan(claim=False)
  output = _unweighted(plan, _values(broken))
  assert output.measurements['left_out_clients'] == 1
  expected = _unweighted(plan, _values(zeroed))
  assert expected.measurements['left_out_clients'] == 1  # Zeros change nothing.
  # Under a promise nobody is told from others.
  assert 'left_out_clients' not in _unweighted(_plan(), _values(broken)).measurements
  np.testing.assert_array_equal(_flat(output.result), _flat(expected.result))


def test_without_clients_the_mean_is_zero(tff_runtime):
  np.testing.assert_array_equal(_flat(_unweighted(_plan(), []).result), 0)
  np.testing.assert_array_equal(_flat(_weighted(_plan(), [], []).result), 0)


@pytest.fixture
def secure_runtime():
  """The one runtime of TFF's that knows what a secure sum is."""
  context = tff.backends.test.create_sync_test_cpp_execution_context()
  with tff.framework.get_context_stack().install(context):
    yield


@pytest.mark.parametrize('reported', [None, 100])
def test_secure_summation_gives_the_very_same_mean(secure_runtime, reported):
  plan = _plan(coordinates_per_client=reported)
  values, weights = _values(_vectors(6)), np.arange(6, dtype=np.float32)
  for secure in (tff.aggregators.SecureSumFactory(1, -1), tff.aggregators.SumFactory()):
    output = _unweighted(plan, values, sum_factory=secure)
    plain = _unweighted(plan, values)
    np.testing.assert_array_equal(_flat(output.result), _flat(plain.result))
    # What a secure sum masks are numbers, and it is said so.
    assert output.measurements['bytes_per_client'] == 4 * (_D + 1)
  secure = tff.aggregators.SecureSumFactory(5, -5)
  np.testing.assert_array_equal(
    _flat(_weighted(plan, values, weights, sum_factory=secure).result),
    _flat(_weighted(plan, values, weights).result),
  )


def test_secure_summation_is_what_the_process_calls():
  process = UnweightedBitMeanFactory(
    _plan(), tff.aggregators.SecureSumFactory(1, -1)
  ).create(_VALUE_TYPE)
  assert 'secure' in str(process.next.to_building_block())
  plain = UnweightedBitMeanFactory(_plan()).create(_VALUE_TYPE)
  assert 'secure' not in str(plain.next.to_building_block())


def _aggregated_types(process) -> list[tff.Type]:
  """The types of what clients send into each `federated_aggregate` of a process."""
  found = []

  def note(block):
    if str(block).startswith('federated_aggregate(') and hasattr(block, 'argument'):
      found.append(block.argument.type_signature[0])

  tree_analysis.visit_postorder(process.next.to_building_block(), note)
  return found


def test_the_message_is_one_32nd_of_the_bytes_of_federated_averaging(tff_runtime):
  update_type = tff.TensorType(np.float32, [8 * 625])
  plan = randomized_bits.RandomizedBits(1.0, 5000, noise_source='system')
  message_type = bit_reports.message_type(plan, weighted=False)
  assert message_type['bits'] == tff.TensorType(np.uint8, [625])
  assert 32 * messages.num_bytes(message_type) == messages.num_bytes(update_type)
  # And this is the type that the process's clients really send.
  process = UnweightedBitMeanFactory(plan).create(update_type)
  output = process.next(process.initialize(), [np.zeros(5000, np.float32)])
  assert output.measurements['bytes_per_client'] == 625
  (sent_type,) = _aggregated_types(process)
  assert sent_type.is_equivalent_to(tff.FederatedType(message_type, tff.CLIENTS))


def test_the_message_has_as_few_bytes_as_its_bits_need():
  def sizes(plan, weighted):
    fields = bit_reports.message_type(plan, weighted)
    names = tff.structure.name_list(fields)
    return {name: messages.num_bytes(fields[name]) for name in names}

  assert sizes(_plan(), weighted=False) == {'bits': 501}
  assert sizes(_plan(), weighted=True) == {'bits': 501, 'weight': 4}
  sampled = _plan(coordinates_per_client=100)
  assert sizes(sampled, weighted=True) == {'bits': 13, 'selection': 16, 'weight': 4}
  report = bit_reports.randomize(sampled, tf.zeros([_D]), tf.constant([0, 1], tf.int64))
  assert sum(tensor.numpy().nbytes for tensor in report.values()) == 29


@pytest.mark.parametrize('num_bits', [1, 7, 8, 9, 4005])
def test_packed_bits_come_out_as_they_went_in(num_bits):
  bits = np.random.default_rng(num_bits).integers(0, 2, num_bits)
  packed = messages.pack(tf.constant(bits.astype(bool)))
  assert packed.shape == [messages.packed_size(num_bits)] and packed.dtype == tf.uint8
  expected = np.packbits(bits.astype(bool), bitorder='little')
  np.testing.assert_array_equal(packed, expected)
  np.testing.assert_array_equal(messages.unpack(packed, num_bits), bits)


def test_values_that_do_not_fit_the_plan_are_refused():
  factory = UnweightedBitMeanFactory(_plan())
  with pytest.raises(TypeError, match='hold no seed'):
    factory.create(_UPDATE_TYPE)
  with pytest.raises(ValueError, match='4,005 coordinates.*has 10'):
    UnweightedBitMeanFactory(_plan(noise_source='system')).create(
      tff.TensorType(np.float32, [10])
    )
  with pytest.raises(TypeError, match='floating-point'):
    UnweightedBitMeanFactory(_plan(noise_source='system')).create(
      tff.TensorType(np.int32, [_D])
    )


def test_the_result_has_the_type_of_an_update():
  for process in (
    UnweightedBitMeanFactory(_plan()).create(_VALUE_TYPE),
    BitMeanFactory(_plan()).create(_VALUE_TYPE, _WEIGHT_TYPE),
  ):
    result_type = process.next.type_signature.result.result
    assert result_type == tff.FederatedType(_UPDATE_TYPE, tff.SERVER)


def test_it_composes_with_tffs_zeroing_and_clipping(tff_runtime):
  plan = _plan(10.0, noise_source='system')
  inner = UnweightedBitMeanFactory(plan)
  clipping = tff.aggregators.clipping_factory(1.0, inner)
  process = tff.aggregators.zeroing_factory(1e3, clipping).create(_UPDATE_TYPE)
  long, huge = np.full(_D, 0.4), np.full(_D, 1e6)
  output = process.next(process.initialize(), [_update(long), _update(huge)] * 20)
  # The long one has norm 25 and is clipped to 1, the huge one becomes zero.
  truth = np.full(_D, 0.4 / (0.4 * math.sqrt(_D)) / 2)
  variances = np.full(_D, plan.response.variance(truth[0], _BOUND) / 40)
  assert abs((_flat(output.result) - truth).mean()) < 4 * math.sqrt(variances[0] / _D)
  assert abs(_flat(output.result).mean() - 0.2) > 0.1


@pytest.mark.parametrize('weighted', [True, False])
def test_it_works_in_tffs_own_builders(tff_runtime, weighted):
  plan = randomized_bits.RandomizedBits(
    epsilon=10.0, num_coordinates=3, bound=0.3, noise_source='system'
  )
  build, factory = (
    (tff.learning.algorithms.build_weighted_fed_avg, BitMeanFactory)
    if weighted
    else (tff.learning.algorithms.build_unweighted_fed_avg, UnweightedBitMeanFactory)
  )
  process = build(
    small_models.linear(0),
    client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.3),
    server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
    model_aggregator=factory(plan),
  )
  rng = np.random.default_rng(0)
  slope = np.array([[1.0], [-1.0], [0.5]], np.float32)
  inputs = [rng.normal(size=[8, 3]).astype(np.float32) for _ in range(12)]
  state = process.initialize()
  for _ in range(8):
    state = process.next(state, [[(x, x @ slope)] for x in inputs]).state
  (found,) = process.get_model_weights(state).trainable
  # Each round adds noise of 0.3 / sqrt(12) and takes away about half of the error.
  np.testing.assert_allclose(found, slope, atol=0.4)


def test_two_workers_sum_to_the_very_same_mean(tmp_path):
  plan = _plan(coordinates_per_client=300)
  values, weights = _values(_vectors(5)), np.arange(1, 6, dtype=np.float32)
  results = []
  for num_workers in (1, 2):
    with execution(num_workers=num_workers, log_dir=tmp_path):
      results.append(_flat(_weighted(plan, values, weights).result))
      results.append(_flat(_unweighted(_plan(), values).result))
  np.testing.assert_array_equal(results[0], results[2])
  np.testing.assert_array_equal(results[1], results[3])
