"""The private mean: its clipping is exact and its noise is what the plan says."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from noise_check import is_gaussian
from sample_plan import PLAN

from tff_textpriv import randomness
from tff_textpriv.aggregators import clipping, dp_mean
from tff_textpriv.privacy import central, lattice
from tff_textpriv.privacy.adaptive_clipping import AdaptiveClipping
from tff_textpriv.privacy.errors import PrivacyError

_DIMENSIONS = 40_000
_VALUE_TYPE = tff.to_type(
  collections.OrderedDict(a=(np.float32, [_DIMENSIONS - 10]), b=(np.float32, [2, 5]))
)


def _plan(**changes) -> central.CentralGaussian:
  return dataclasses.replace(PLAN, **{'rounds': 10, 'noise_multiplier': 2.0, **changes})


def _update(vector: np.ndarray):
  vector = vector.astype(np.float32)
  return collections.OrderedDict(a=vector[:-10], b=vector[-10:].reshape(2, 5))


def _flat(update) -> np.ndarray:
  return np.concatenate([np.ravel(update['a']), np.ravel(update['b'])])


def _clients(count: int, norm: float, seed: int = 0):
  rng = np.random.default_rng(seed)
  vectors = rng.normal(size=(count, _DIMENSIONS))
  vectors *= norm / np.linalg.norm(vectors, axis=1, keepdims=True)
  return [_update(vector) for vector in vectors]


def _run(plan, clients, rounds=1):
  process = dp_mean.DpMeanFactory(plan).create(_VALUE_TYPE)
  state, outputs = process.initialize(), []
  for _ in range(rounds):
    outputs.append(process.next(state, clients))
    state = outputs[-1].state
  return outputs


def test_the_aggregate_has_the_type_of_an_update(tff_runtime):
  process = dp_mean.DpMeanFactory(_plan()).create(_VALUE_TYPE)
  assert process.next.type_signature.result.result == tff.FederatedType(
    _VALUE_TYPE, tff.SERVER
  )
  assert not process.is_weighted


def test_without_noise_it_is_the_mean_of_clipped_updates(tff_runtime):
  plan = _plan(noise_multiplier=0.0)
  short, long = _clients(5, norm=0.25), _clients(5, norm=8.0, seed=1)
  (output,) = _run(plan, [*short, *long])
  expected = sum(_flat(u) for u in short) + sum(_flat(u) * 0.5 / 8 for u in long)
  # The planned cohort of 20 divides, not the 10 clients that came.
  np.testing.assert_allclose(_flat(output.result), expected / 20, atol=1e-8)


def _norm(update) -> float:
  return float(np.linalg.norm(_flat(update).astype(np.float64)))


def _is_clipped(clip_update, norm: float) -> bool:
  """Tells whether an update of that norm gets the length that clipping to 0.5 gives."""
  update = _clients(1, norm)[0]
  length = _norm(clip_update(update))
  exact = norm >= 1e17 or length == pytest.approx(min(norm, 0.5), rel=1e-5)
  return length <= 0.5 * (1 + 1e-6) and exact


@pytest.mark.parametrize('norm', [0.0, 1e-20, 0.5, 3.0, 1e18, 1e30])
def test_no_contribution_is_longer_than_the_clip(norm):
  clip = tf.constant(0.5)
  assert _is_clipped(lambda update: clipping.clip_update(update, clip)['update'], norm)


@pytest.mark.parametrize(
  'broken',
  [
    lambda update: update,
    # Each tensor by itself: two tensors then have a norm of up to sqrt(2) clips.
    lambda update: {name: tf.clip_by_norm(leaf, 0.5) for name, leaf in update.items()},
    lambda update: {
      name: tf.clip_by_value(leaf, -0.5, 0.5) for name, leaf in update.items()
    },
    # Every update is given the norm, the short ones too.
    lambda update: {name: leaf * 0.5 / _norm(update) for name, leaf in update.items()},
  ],
  ids=['not at all', 'by tensor', 'by coordinate', 'scaled'],
)
def test_wrong_clips_are_caught(broken):
  assert not all(_is_clipped(broken, norm) for norm in (0.1, 3.0, 100.0))


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_updates_that_are_not_finite_count_as_zero_and_are_counted(tff_runtime, bad):
  good = _clients(3, norm=0.25)
  broken = _clients(1, norm=0.25)[0]
  broken['b'][1, 2] = bad
  (output,) = _run(_plan(noise_multiplier=0.0), [*good, broken])
  np.testing.assert_allclose(
    _flat(output.result), sum(_flat(u) for u in good) / 20, atol=1e-8
  )
  assert output.measurements['left_out_clients'] == 1


def test_noise_has_the_planned_distribution_and_a_wrong_scale_is_caught(tff_runtime):
  (output,) = _run(_plan(), _clients(2, norm=0.0))
  noise = _flat(output.result)
  # On the sum: z * clip = 2 * 0.5; the mean divides by the cohort of 20.
  assert is_gaussian(noise, 2 * 0.5 / 20)
  # The broken twins: noise that forgot the clip, or was 5% too small.
  assert not is_gaussian(noise, 2 / 20)
  assert not is_gaussian(noise * 0.95, 2 * 0.5 / 20)


def test_noise_of_a_larger_accounted_cohort_is_scaled_down(tff_runtime):
  plan = _plan(population=100_000, cohort=2000)
  (output,) = _run(plan, _clients(2, norm=0.0))
  # The mean's noise is that of the accounted deployment: z * clip / 2000.
  assert is_gaussian(_flat(output.result), 2 * 0.5 / 2000)


def test_noise_is_a_function_of_seed_and_round(tff_runtime):
  clients = _clients(1, norm=0.0)
  first = _run(_plan(stream=randomness.Stream.of_seed(1)), clients, rounds=2)
  again = _run(_plan(stream=randomness.Stream.of_seed(1)), clients, rounds=2)
  other = _run(_plan(stream=randomness.Stream.of_seed(2)), clients, rounds=1)
  for ours, theirs in zip(first, again, strict=True):
    np.testing.assert_array_equal(_flat(ours.result), _flat(theirs.result))
  streams = [_flat(first[0].result), _flat(first[1].result), _flat(other[0].result)]
  # Different rounds and seeds are uncorrelated: 5 standard errors of n products.
  correlation = np.corrcoef(streams)[~np.eye(3, dtype=bool)]
  assert np.abs(correlation).max() < 5 / np.sqrt(_DIMENSIONS)


def test_a_round_that_was_not_planned_is_not_made(tff_runtime):
  with pytest.raises(Exception, match='not in \\[0, 2\\)'):
    _run(_plan(rounds=2), _clients(1, norm=0.0), rounds=3)


def test_sums_do_not_depend_on_the_order_of_clients(tff_runtime):
  clients = _clients(7, norm=3.0)
  first, second = _run(_plan(), clients), _run(_plan(), clients[::-1])
  np.testing.assert_array_equal(_flat(first[0].result), _flat(second[0].result))


@pytest.mark.parametrize('cohort', [20, 200_000])
@pytest.mark.parametrize('norm', [0.1, 0.5, 0.5001, 70.0])
def test_whole_numbers_are_never_longer_than_the_clip_norm(cohort, norm):
  points = lattice.fitting(_DIMENSIONS, cohort, noise=1.0)
  update = _clients(1, norm)[0]
  numbers = _flat(clipping.clip_update(update, tf.constant(0.5), points)['update'])
  length = float(np.linalg.norm(numbers.astype(np.float64)))
  assert length <= points.clip
  assert length >= 0.98 * points.clip * min(1, norm / 0.5)
  # Rounded up instead, as a careless rounding may, it would be.
  if norm > 0.5 and not points.is_wide:
    scaled = _flat(update).astype(np.float64) * points.clip / norm
    assert np.linalg.norm(np.sign(scaled) * np.ceil(np.abs(scaled))) > points.clip


def test_updates_that_are_larger_than_planned_are_refused():
  plan = _plan(num_coordinates=_DIMENSIONS - 1)
  with pytest.raises(PrivacyError, match='39,999 coordinates.*40,000'):
    dp_mean.DpMeanFactory(plan).create(_VALUE_TYPE)


def test_adaptive_clipping_finds_the_quantile_of_the_norms(tff_runtime):
  adaptive = AdaptiveClipping(quantile=0.5, learning_rate=0.5, count_stddev=1e-3)
  plan = _plan(noise_multiplier=1e-4, adaptive=adaptive, clip=8.0, rounds=40)
  norms = np.linspace(0.1, 2.0, 20)
  clients = [_clients(1, norm, seed=i)[0] for i, norm in enumerate(norms)]
  outputs = _run(plan, clients, rounds=40)
  clips = [float(output.measurements['clip']) for output in outputs]
  assert clips[0] == 8.0
  # First step: all norms are below 8, so the clip shrinks by exp(-0.5 * (1 - 0.5)).
  assert clips[1] == pytest.approx(8 * np.exp(-0.25), rel=1e-3)
  assert 0.9 < clips[-1] < 1.2


def test_adaptive_clipping_adds_the_noise_of_its_share(tff_runtime):
  adaptive = AdaptiveClipping(quantile=0.5, learning_rate=0.2, count_stddev=2.0)
  plan = _plan(noise_multiplier=2.0, adaptive=adaptive)
  (output,) = _run(plan, _clients(2, norm=0.0))
  # z_value = (2^-2 - (2 * 2)^-2)^-1/2 = 2.3094: more noise on the update, because the
  # count spends a part of the budget.
  assert is_gaussian(_flat(output.result), 2.3094 * 0.5 / 20)
  assert not is_gaussian(_flat(output.result), 2.0 * 0.5 / 20)
