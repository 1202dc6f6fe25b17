"""The mean of secure sums: what devices send, and what the server reads in it."""

import collections
import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from noise_check import is_gaussian
from scipy import linalg, stats
from tensorflow_privacy.privacy.dp_query import (
  distributed_discrete_gaussian_query,
  distributed_skellam_query,
)

from tff_textpriv import randomness
from tff_textpriv.aggregators import (
  distributed_mean,
  lattice_noise,
  of_mechanism,
  rotation,
)
from tff_textpriv.privacy import device_noise
from tff_textpriv.privacy.distributed_settings import DistributedPrivacySettings
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.mechanism import Deployment

_SIZE, _COHORT = 3_000, 20
_UPDATE_TYPE = tff.to_type(
  collections.OrderedDict(a=(np.float32, [_SIZE - 10]), b=(np.float32, [2, 5]))
)
_VALUE_TYPE = tff.to_type(
  collections.OrderedDict(delta=_UPDATE_TYPE, seed=(np.int64, [2]))
)
_DEPLOYMENT = Deployment(
  'separated',
  100,
  _COHORT,
  rounds=6,
  separation=5,
  stream=randomness.Stream.of_seed(3),
  num_coordinates=_SIZE,
)


def _plan(**flags):
  defaults = {'noise_multiplier': 2.0, 'clip': 0.5, 'missing_share': 0.25}
  return DistributedPrivacySettings(**{**defaults, **flags}).mechanism(_DEPLOYMENT)


def _update(vector):
  vector = np.asarray(vector, np.float32)
  return collections.OrderedDict(a=vector[:-10], b=vector[-10:].reshape(2, 5))


def _clients(vectors, round_number=0):
  return [
    collections.OrderedDict(
      delta=_update(vector), seed=np.array([1 + number, round_number], np.int64)
    )
    for number, vector in enumerate(vectors)
  ]


def _vectors(count, norm, seed=0):
  vectors = np.random.default_rng(seed).normal(size=(count, _SIZE))
  return vectors * norm / np.linalg.norm(vectors, axis=1, keepdims=True)


def _flat(update):
  return np.concatenate([np.ravel(update['a']), np.ravel(update['b'])]).astype(float)


def _run(plan, *cohorts):
  """Returns the outputs of rounds, each with its cohort."""
  process = distributed_mean.DistributedMeanFactory(plan).create(_VALUE_TYPE)
  state, outputs = process.initialize(), []
  for cohort in cohorts:
    outputs.append(process.next(state, cohort))
    state = outputs[-1].state
  return outputs


@pytest.mark.parametrize('size', [1, 2, 64, 128, 4096])
def test_the_rotation_is_that_of_hadamard_and_can_be_undone(size):
  vector = np.random.default_rng(0).normal(size=size).astype(np.float32)
  turned = rotation.hadamard(tf.constant(vector)).numpy()
  wanted = linalg.hadamard(size) @ vector / math.sqrt(size)
  assert turned == pytest.approx(wanted, abs=1e-5)
  seed = tf.constant([1, 2], tf.int64)
  back = rotation.rotate_back(rotation.rotate(tf.constant(vector), seed), seed)
  assert back.numpy() == pytest.approx(vector, abs=1e-5)


def test_a_rotation_spreads_a_vector_evenly():
  spike = tf.one_hot(7, 4096) * 64.0
  turned = rotation.rotate(spike, tf.constant([1, 2], tf.int64)).numpy()
  assert np.abs(turned) == pytest.approx(np.ones(4096), abs=1e-4)


def _fits_law(numbers, law, variance):
  """Tells by a chi-squared test whether numbers are drawn by a law, at 1e-6."""
  reach = math.ceil(3 * math.sqrt(variance)) + 1
  values = np.arange(-reach, reach + 1)
  if law == device_noise.SKELLAM:
    chances = stats.skellam.pmf(values, variance / 2, variance / 2)
  else:
    far = np.arange(-20 * reach, 20 * reach + 1)
    total = np.exp(-(far**2) / (2 * variance)).sum()
    chances = np.exp(-(values**2) / (2 * variance)) / total
  counts = np.array([(numbers == value).sum() for value in values])
  # With what lies further out; those who are too few to tell are left out.
  counts = np.append(counts, numbers.size - counts.sum())
  expected = numbers.size * np.append(chances, 1 - chances.sum())
  enough = expected > 5
  statistic = np.sum((counts - expected)[enough] ** 2 / expected[enough])
  return stats.chi2.sf(statistic, enough.sum()) > 1e-6


def _drawn_by_tensorflow_privacy(law, stddev, number):
  """Returns what the queries of tensorflow-privacy let devices add."""
  tf.random.set_seed(4)
  zeros = tf.zeros([number], tf.int32)
  if law == device_noise.SKELLAM:
    query = distributed_skellam_query.DistributedSkellamSumQuery(1.0, 1.0, stddev)
  else:
    query = distributed_discrete_gaussian_query.DistributedDiscreteGaussianSumQuery(
      l2_norm_bound=1, local_stddev=stddev
    )
  parameters = query.derive_sample_params(query.initial_global_state())
  return query.preprocess_record(parameters, zeros).numpy()


@pytest.mark.parametrize('law', device_noise.LAWS)
def test_the_laws_are_those_of_tensorflow_privacy(law):
  # It takes whole numbers for standard deviations.
  drawn = _drawn_by_tensorflow_privacy(law, 2, 100_000)
  assert _fits_law(drawn, law, 4.0)
  assert not _fits_law(drawn, law, 4.0 * 1.06)


@pytest.mark.parametrize('law', device_noise.LAWS)
@pytest.mark.parametrize('variance', [0.4, 6.0])
def test_devices_draw_their_law(law, variance):
  noise = device_noise.DeviceNoise(law, variance)
  drawn = lattice_noise.draw(noise, tf.constant([5, 6], tf.int64), 400_000).numpy()
  assert _fits_law(drawn, law, variance)
  # The broken twins: a little less noise, and the other law.
  assert not _fits_law(drawn, law, variance * 1.03)
  other = next(name for name in device_noise.LAWS if name != law)
  assert not _fits_law(drawn, other, variance)


@pytest.mark.parametrize('law', device_noise.LAWS)
@pytest.mark.parametrize('bits', ['16', '32'])
def test_it_is_the_mean_of_clipped_updates_with_noise(tff_runtime, law, bits):
  plan = _plan(device_noise=law, modular_bits=bits)
  short, long = _vectors(10, norm=0.25), _vectors(10, norm=8.0, seed=1)
  (output,) = _run(plan, _clients([*short, *long]))
  clipped = (short.sum(axis=0) + long.sum(axis=0) * 0.5 / 8.0) / _COHORT
  noise = _flat(output.result) - clipped
  # All 20 clients add noise, and 15 would be enough. Rounding adds at most 1/4 to the
  # variance of each number of each client.
  variance = plan.client_noise().variance + (0.25 if bits == '16' else 0.0)
  unit = plan.clip / plan.code.inner_clip
  stddev = math.sqrt(_COHORT * variance) * unit / _COHORT
  assert plan.counted_clients == 15
  assert stddev == pytest.approx(2 * 0.5 / _COHORT * math.sqrt(20 / 15), rel=0.01)
  assert is_gaussian(noise, stddev)
  assert not is_gaussian(0.9 * noise, stddev)
  assert not is_gaussian(noise + clipped, stddev / 1.5)


def test_rounds_and_clients_have_noise_of_their_own(tff_runtime):
  plan = _plan()
  nothing = np.zeros((_COHORT, _SIZE))
  first, second = _run(plan, _clients(nothing), _clients(nothing, round_number=1))
  one, other = _flat(first.result), _flat(second.result)
  assert abs(np.corrcoef(one, other)[0, 1]) < 5 / math.sqrt(_SIZE)
  again = _run(plan, _clients(nothing))[0]
  assert np.array_equal(_flat(again.result), one)


def test_numbers_wrap_around_as_they_are_sent_and_added():
  plan = _plan(modular_bits='16')
  seed, turn = tf.constant([1, 2], tf.int64), tf.constant([3, 4], tf.int64)
  zeros = tf.nest.map_structure(tf.constant, _update(np.zeros(_SIZE)))
  sent = distributed_mean.message(plan, zeros, seed, turn)
  assert sent.dtype == tf.int16
  noise_seed = tf.random.experimental.stateless_split(seed, 2)[1]
  noise = lattice_noise.draw(
    plan.client_noise(), noise_seed, plan.code.dimension
  ).numpy()
  assert np.array_equal(sent.numpy(), noise.astype(np.int16))
  # Numbers beyond the range keep their lowest bits, and so do sums.
  far = tf.bitcast(
    tf.cast(tf.constant([40_000, -40_000], tf.int64), tf.uint16), tf.int16
  )
  assert far.numpy().tolist() == [40_000 - 2**16, 2**16 - 40_000]
  assert tf.add(far, far).numpy().tolist() == [80_000 - 2**16, 2**16 - 80_000]


def _is_short(code, whole):
  return float(np.sum(np.asarray(whole, float) ** 2)) <= code.largest_square


def test_no_update_is_longer_than_is_accounted_for():
  code = dataclasses.replace(_plan(modular_bits='16').code, clip=40.0)
  seed = tf.constant([1, 2], tf.int64)
  # What rounding makes longest: all numbers alike, halves, and a vector too long itself.
  even = np.full(code.dimension, code.clip / math.sqrt(code.dimension))
  for vector in (even, np.full(code.dimension, 0.5), 3 * even, 100 * even):
    whole = distributed_mean.rounded(code, tf.constant(vector, tf.float32), seed)
    assert _is_short(code, whole.numpy())
  # The broken twin: rounding up.
  assert not _is_short(code, np.ceil(even))


def test_rounding_is_right_on_average():
  code = _plan(modular_bits='16').code
  vector = np.linspace(-2, 2, code.dimension).astype(np.float32)
  whole = np.mean(
    [
      distributed_mean.rounded(
        code, tf.constant(vector), tf.constant([1, number], tf.int64)
      ).numpy()
      for number in range(200)
    ],
    axis=0,
  )
  error = 0.5 / math.sqrt(200)
  assert np.abs(whole - vector).max() < 6 * error
  assert abs((whole - vector).mean()) < 5 * error / math.sqrt(code.dimension)


def test_with_too_few_clients_there_is_no_result(tff_runtime):
  plan = _plan()
  enough, too_few = _run(
    plan, _clients(_vectors(15, 0.5)), _clients(_vectors(14, 0.5), round_number=1)
  )
  assert enough.measurements['is_abandoned'] == 0
  assert _flat(enough.result).any()
  assert too_few.measurements['is_abandoned'] == 1
  assert not _flat(too_few.result).any()


def test_updates_that_are_not_finite_count_as_nothing(tff_runtime):
  vectors = _vectors(_COHORT, norm=0.5)
  vectors[3, 5], vectors[4, 6] = np.nan, np.inf
  sound = vectors.copy()
  sound[3:5] = 0
  broken, mended = (_run(_plan(), _clients(each))[0] for each in (vectors, sound))
  assert np.array_equal(_flat(broken.result), _flat(mended.result))


def test_what_is_sent_has_so_many_bits(tff_runtime):
  for bits, size in (('16', 2), ('32', 4)):
    (output,) = _run(_plan(modular_bits=bits), _clients(_vectors(_COHORT, 0.5)))
    assert output.measurements['bytes_per_client'] == 4096 * size


def test_a_round_that_was_not_planned_fails(tff_runtime):
  cohort = _clients(_vectors(_COHORT, 0.5))
  with pytest.raises(Exception, match='[Ii]ndices|range'):
    _run(_plan(), *[cohort] * 7)


def test_updates_of_another_size_or_without_a_seed_are_refused():
  factory = distributed_mean.DistributedMeanFactory(_plan())
  with pytest.raises(TypeError, match='clients hold no seed'):
    factory.create(_UPDATE_TYPE)
  larger = tff.to_type(
    collections.OrderedDict(delta=(np.float32, [_SIZE + 1]), seed=(np.int64, [2]))
  )
  with pytest.raises(PrivacyError, match='coordinates'):
    factory.create(larger)
  with pytest.raises(PrivacyError, match='weighted by examples'):
    of_mechanism.mean(_plan(), by_examples=True)


def test_secret_noise_works_in_builders_that_give_no_seeds(tff_runtime):
  plan = _plan(noise_source='system')
  process = distributed_mean.DistributedMeanFactory(plan).create(_UPDATE_TYPE)
  cohort = [_update(vector) for vector in np.zeros((_COHORT, _SIZE))]
  results = [_flat(process.next(process.initialize(), cohort).result) for _ in range(2)]
  # Clients with the same update in the same round draw other noise each time.
  assert abs(np.corrcoef(*results)[0, 1]) < 5 / math.sqrt(_SIZE)
  stddev = 2 * 0.5 / _COHORT * math.sqrt(20 / 15)
  assert all(is_gaussian(each, stddev) for each in results)


def test_the_server_sees_the_noise_of_the_sum():
  plan = _plan()
  update = tf.nest.map_structure(tf.constant, _update(_vectors(1, 0.25)[0]))
  seed = tf.constant([1, 2], tf.int64)
  for view in of_mechanism.VIEWS:
    seen = of_mechanism.seen(plan, update, seed, view)
    noise = _flat(tf.nest.map_structure(lambda a, b: (a - b).numpy(), seen, update))
    assert is_gaussian(noise, 2 * 0.5)
