"""Robust averages: equal to what they are by definition, and borne out by faulty clients."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import tensorflow_federated as tff

from tff_textpriv.aggregators import robust_means, sound_updates
from tff_textpriv.iterative_processes import robust_avg
from tff_textpriv.runtime import spread
from tff_textpriv.runtime.execution import execution

_SHAPES = ((3, 2), (4,))
_UPDATE_TYPE = tff.to_type(tuple((np.float32, shape) for shape in _SHAPES))


def _process(rule, **options):
  options = {
    'norm_bound': 1.0,
    'faulty_share': 0.4,
    'median_iterations': 6,
  } | options
  factory = sound_updates.SoundMeanFactory(robust_means.rule(rule, **options))
  return factory.create(_UPDATE_TYPE, tff.TensorType(np.float32))


def _run(process, updates, weights=None):
  values = []
  for update in np.asarray(updates, np.float32):
    parts = np.split(update, [6])
    values.append(tuple(p.reshape(s) for p, s in zip(parts, _SHAPES, strict=True)))
  weights = np.ones(len(values), np.float32) if weights is None else weights
  output = process.next(process.initialize(), values, list(weights))
  flat = np.concatenate([np.ravel(tensor) for tensor in output.result])
  return flat.astype(np.float64), output.measurements


def _updates(num_clients=10, seed=0):
  rng = np.random.default_rng(seed)
  return (1.0 + 0.3 * rng.normal(size=(num_clients, 10))).astype(np.float32)


def test_the_trimmed_mean_is_scipys(tff_runtime):
  updates = _updates(7)
  found, measured = _run(_process('trimmed_mean', faulty_share=0.3), updates)
  np.testing.assert_allclose(found, scipy.stats.trim_mean(updates, 0.3), rtol=1e-5)
  assert measured['mean']['collected_updates'] == 7


@pytest.mark.parametrize('rule', ['krum', 'multi_krum'])
def test_krum_is_what_its_definition_says(tff_runtime, rule):
  updates = _updates(9, seed=1)
  faulty = 3  # 0.4 of 9, rounded down.
  scores = []
  for own in updates:
    squares = sorted(np.sum((updates - own) ** 2, axis=1))[1:]
    scores.append(sum(squares[: 9 - faulty - 2]))
  best = np.argsort(scores)[: 1 if rule == 'krum' else 9 - faulty]
  found, _ = _run(_process(rule), updates)
  np.testing.assert_allclose(found, updates[best].mean(axis=0), rtol=1e-5)


def test_the_geometric_median_has_the_least_sum_of_distances(tff_runtime):
  updates, weights = _updates(6, seed=2), np.float32([1, 2, 3, 1, 1, 5])

  def cost(point):
    return np.sum(weights * np.linalg.norm(updates - point, axis=1))

  best = scipy.optimize.minimize(cost, updates.mean(axis=0), tol=1e-10)
  process = _process('geometric_median', median_iterations=30)
  found, _ = _run(process, updates, weights)
  assert cost(found) == pytest.approx(best.fun, rel=1e-5)
  # The mean is another point.
  assert cost(np.average(updates, axis=0, weights=weights)) > 1.001 * best.fun


def test_a_bound_of_norms_clips_to_it(tff_runtime):
  updates = _updates(4) * np.array([[1.0], [0.01], [1.0], [50.0]])
  lengths = np.linalg.norm(updates, axis=1, keepdims=True)
  expected = (updates * np.minimum(1.0, 2.0 / lengths)).mean(axis=0)
  found, _ = _run(_process('norm_bound', norm_bound=2.0), updates)
  np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize('factor', [10.0, -10.0, 1e-4])
@pytest.mark.parametrize('rule', robust_avg.RULES)
def test_a_faulty_minority_does_not_carry_it_away_as_it_does_the_mean(
  tff_runtime, rule, factor
):
  updates = _updates(10, seed=3)
  sound = updates[3:].mean(axis=0)
  updates[:3] *= factor
  process = _process(rule)
  state, found = process.initialize(), None
  # TFF's robust aggregator follows norms; it needs rounds until it knows them.
  rounds = 20 if rule == 'zeroing_and_clipping' else 1
  for _ in range(rounds):
    values = [(row[:6].reshape(3, 2), row[6:]) for row in updates]
    output = process.next(state, values, [np.float32(1)] * 10)
    state, found = output.state, np.concatenate([np.ravel(t) for t in output.result])
  progress = found @ sound / (sound @ sound)
  # A bound of norms shortens everybody: what is told is the direction. Those who want
  # 30% in the other direction leave 0.4 of the way.
  low = 0.1 if rule in ('norm_bound', 'zeroing_and_clipping') else 0.6
  assert low < progress < 2.0
  if factor > 1 or factor < -1:
    broken = updates.mean(axis=0) @ sound / (sound @ sound)  # The mean, 3.7 or -2.3.
    assert not low < broken < 2.0


@pytest.mark.parametrize('rule', robust_avg.RULES)
@pytest.mark.parametrize('bad', [np.nan, np.inf, 1e30])
def test_updates_that_are_not_finite_are_left_out_and_counted(tff_runtime, rule, bad):
  updates = _updates(6, seed=4)
  broken = updates.copy()
  broken[2, 7] = bad
  expected, _ = _run(_process(rule, faulty_share=0.2), np.delete(updates, 2, axis=0))
  found, measured = _run(_process(rule, faulty_share=0.2), broken)
  np.testing.assert_allclose(found, expected, rtol=1e-4)
  assert measured['left_out_clients'] == 1


# TFF's robust aggregator gives 0 / 0 then, which its server step refuses.
@pytest.mark.parametrize('rule', robust_avg.RULES[1:])
def test_a_cohort_of_nobody_is_no_step(tff_runtime, rule):
  found, _ = _run(_process(rule), np.zeros([0, 10]))
  np.testing.assert_array_equal(found, np.zeros(10))


def test_two_workers_give_the_same_as_one_where_one_pass_is_enough(tmp_path):
  updates = _updates(7, seed=5)
  rules = ('trimmed_mean', 'krum', 'norm_bound')
  with execution(log_dir=tmp_path):
    one = [_run(_process(rule), updates)[0] for rule in rules]
  with execution(num_workers=2, log_dir=tmp_path):
    two = [_run(_process(rule), updates)[0] for rule in rules]
    with pytest.raises(spread.UnsplittableError, match='--num_workers=1'):
      _run(_process('geometric_median'), updates)
  np.testing.assert_allclose(two, one, rtol=1e-5)
