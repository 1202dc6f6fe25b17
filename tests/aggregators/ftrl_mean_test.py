"""The mean under correlated noise: its noise is that of the strategy, over all rounds."""

import collections
import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from noise_check import is_gaussian
from tensorflow_privacy.privacy.dp_query import tree_aggregation

from tff_textpriv import randomness
from tff_textpriv.aggregators import correlated_draws, ftrl_mean
from tff_textpriv.privacy.banded_noise import BandedNoise
from tff_textpriv.privacy.buffered_noise import BufferedNoise
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ftrl_settings import FtrlPrivacySettings
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.privacy.tree_noise import TreeNoise

_SIZE, _ROUNDS = 20_000, 11
_VALUE_TYPE = tff.to_type(
  collections.OrderedDict(a=(np.float32, [_SIZE - 10]), b=(np.float32, [2, 5]))
)
_DEPLOYMENT = Deployment(
  'separated',
  100,
  20,
  rounds=_ROUNDS,
  stream=randomness.Stream.of_seed(3),
  num_coordinates=_SIZE,
  separation=5,
)
_FLAGS = {
  'blt': {'ftrl_noise': 'blt'},
  'banded': {'ftrl_noise': 'banded'},
  'one band': {'ftrl_noise': 'banded', 'ftrl_bands': 1},
  'tree': {'ftrl_noise': 'tree'},
}


def _plan(kind='blt', **flags):
  return FtrlPrivacySettings(
    **{'noise_multiplier': 2.0, 'clip': 0.5, 'delta': 1e-5, **_FLAGS[kind], **flags}
  ).mechanism(_DEPLOYMENT)


def _update(vector):
  vector = vector.astype(np.float32)
  return collections.OrderedDict(a=vector[:-10], b=vector[-10:].reshape(2, 5))


def _flat(update):
  return np.concatenate([np.ravel(update['a']), np.ravel(update['b'])])


def _clients(count, norm, seed=0):
  vectors = np.random.default_rng(seed).normal(size=(count, _SIZE))
  vectors *= norm / np.linalg.norm(vectors, axis=1, keepdims=True)
  return [_update(vector) for vector in vectors]


def _run(plan, clients, rounds=_ROUNDS, state=None):
  """Returns the released means, float64 [rounds, size], and the last state."""
  process = ftrl_mean.FtrlMeanFactory(plan).create(_VALUE_TYPE)
  state = process.initialize() if state is None else state
  released = []
  for _ in range(rounds):
    output = process.next(state, clients)
    state = output.state
    released.append(_flat(output.result).astype(np.float64))
  return np.array(released), state


def _is_noise_of(strategy, noise, stddev) -> bool:
  """Tells whether rounds of noise are M z, with z Gaussian of a standard deviation.

  Products of each two rounds, over all coordinates, are held to 5 standard errors: those
  of w_s w_t have the variance G_ss G_tt + G_st^2 with G = M M^T.
  """
  noising = strategy.noising()
  expected = noising @ noising.T
  seen = noise @ noise.T / noise.shape[1] / stddev**2
  diagonal = expected.diagonal()
  error = np.sqrt((np.outer(diagonal, diagonal) + expected**2) / noise.shape[1])
  return bool((np.abs(seen - expected) < 5 * error).all())


@pytest.mark.parametrize('kind', _FLAGS)
def test_noise_of_rounds_is_that_of_the_strategy(tff_runtime, kind):
  plan = _plan(kind)
  noise, _ = _run(plan, _clients(1, norm=0.0))
  # On the sum: z * clip = 2 * 0.5; the mean divides by the cohort of 20.
  stddev = 2 * 0.5 / 20
  assert _is_noise_of(plan.strategy, noise, stddev)
  independent = np.ravel(plan.independent(list(noise / stddev)))
  assert is_gaussian(independent, 1.0)
  # The broken twins: too little noise, noise that forgets a round, or the sign of one.
  assert not _is_noise_of(plan.strategy, 0.97 * noise, stddev)
  assert not is_gaussian(0.97 * independent, 1.0)
  if kind != 'one band':
    flipped = noise * np.where(np.arange(_ROUNDS) == 1, -1, 1)[:, None]
    assert not _is_noise_of(plan.strategy, flipped, stddev)
    assert not _is_noise_of(BandedNoise(_ROUNDS, 1), noise, stddev)


@pytest.mark.parametrize('kind', ['blt', 'banded', 'tree'])
def test_sums_over_rounds_have_less_noise_than_rounds_by_themselves(tff_runtime, kind):
  plan = _plan(kind)
  noise, _ = _run(plan, _clients(1, norm=0.0))
  sums = np.cumsum(noise, axis=0) * 20  # Of the sum over users, in clip norms / 2.
  found = np.sqrt(np.mean(sums**2))
  # Each of the 11 sums has an error of sqrt(2 / size); together at most that of one.
  assert found == pytest.approx(plan.strategy.prefix_error(), rel=5 / np.sqrt(_SIZE))


def test_without_noise_it_is_the_mean_of_clipped_updates(tff_runtime):
  short, long = _clients(5, norm=0.25), _clients(5, norm=8.0, seed=1)
  released, _ = _run(_plan(noise_multiplier=0.0), [*short, *long], rounds=2)
  expected = sum(_flat(u) for u in short) + sum(_flat(u) * 0.5 / 8 for u in long)
  for each in released:
    np.testing.assert_allclose(each, expected / 20, atol=1e-8)


@pytest.mark.parametrize('kind', ['blt', 'banded', 'tree'])
def test_updates_do_not_change_the_noise(tff_runtime, kind):
  plan, clients = _plan(kind), _clients(3, norm=0.4)
  with_updates, _ = _run(plan, clients)
  noise, _ = _run(plan, [])
  mean = sum(_flat(u).astype(np.float64) for u in clients) / 20
  # Rounding to the lattice: a half of 0.5 / 2^bits for each client, over the cohort.
  unit = 0.5 / plan.points(_SIZE).clip / 20
  np.testing.assert_allclose(
    with_updates - noise, np.broadcast_to(mean, noise.shape), atol=2 * unit + 2e-7
  )


@pytest.mark.parametrize(
  'kind',
  [
    'blt',
    *(pytest.param(kind, marks=pytest.mark.slow) for kind in _FLAGS if kind != 'blt'),
  ],
)
def test_a_resumed_run_repeats_its_noise(tff_runtime, monkeypatch, kind):
  monkeypatch.setattr(ftrl_mean, '_BLOCK', 2 * _SIZE)  # Several blocks.
  plan, clients = _plan(kind), _clients(1, norm=0.1)
  whole, _ = _run(plan, clients)
  first, state = _run(plan, clients, rounds=6)
  # As a checkpoint has it: arrays, read back.
  state = tf.nest.map_structure(np.array, state)
  rest, _ = _run(_plan(kind), clients, rounds=5, state=state)
  np.testing.assert_array_equal(whole, [*first, *rest])
  # Without what is kept of earlier rounds it would be another one.
  if kind != 'one band':
    state['kept'] = tuple(map(np.zeros_like, state['kept']))
    forgetful, _ = _run(plan, clients, rounds=5, state=state)
    assert (forgetful != rest).any()


def _tells(kept, noise) -> bool:
  """Tells whether kept numbers have anything to do with the noise that was released."""
  rows = np.array([*kept, *noise], np.float64)
  shared = np.corrcoef(rows)[: len(kept), len(kept) :]
  return bool(np.abs(shared).max() > 5 / np.sqrt(_SIZE))


@pytest.mark.parametrize('kind', ['blt', 'banded', 'tree'])
def test_a_state_does_not_tell_the_noise_of_earlier_rounds(
  tff_runtime, monkeypatch, kind
):
  monkeypatch.setattr(ftrl_mean, '_BLOCK', 2 * _SIZE)
  noise, state = _run(_plan(kind), [], rounds=4)
  kept = np.concatenate(state['kept'], axis=1)
  assert len(state['kept']) > 1 and kept.shape[1] == _SIZE
  assert not _tells(kept, noise)
  # All 64 bits are as likely as not.
  bits = np.unpackbits(np.ravel(kept).view(np.uint8))
  assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
  # Without the mask it would.
  monkeypatch.setattr(ftrl_mean, '_masked', lambda plan, number, kept: kept)
  bare, state = _run(_plan(kind), [], rounds=4)
  np.testing.assert_array_equal(bare, noise)
  kept = np.concatenate(state['kept'], axis=1)
  assert _tells(kept[kept.any(axis=1)], noise)


def test_a_round_that_was_not_planned_is_not_made(tff_runtime):
  with pytest.raises(Exception, match='not in \\[0, 11\\)'):
    _run(_plan(), [], rounds=_ROUNDS + 1)


def test_other_streams_have_other_noise(tff_runtime):
  other = dataclasses.replace(_plan(), stream=randomness.Stream.of_seed(4))
  one, two = (_run(plan, [], rounds=1)[0][0] for plan in (_plan(), other))
  assert abs(np.corrcoef(one, two)[0, 1]) < 5 / np.sqrt(_SIZE)


def test_weights_by_examples_and_larger_updates_are_refused():
  with pytest.raises(PrivacyError, match='no bounded sensitivity'):
    ftrl_mean.mean(_plan(), by_examples=True)
  plan = dataclasses.replace(_plan(), num_coordinates=_SIZE - 1)
  with pytest.raises(PrivacyError, match='19,999 coordinates.*20,000'):
    ftrl_mean.FtrlMeanFactory(plan).create(_VALUE_TYPE)


_FINER = 2**10


def _eagerly(strategy, draws):
  """The noise of rounds from given draws, int64 [rounds, levels or 1, size]."""
  kept = tf.zeros([strategy.num_vectors, draws.shape[-1]], tf.int64)
  noise = []
  for number in range(strategy.rounds):
    made, kept = correlated_draws.next_noise(
      strategy,
      tf.constant(number),
      kept,
      lambda index, number=number: tf.constant(draws[number, index]),
      strategy.denominator or _FINER,
    )
    noise.append(made.numpy())
  return np.array(noise)


@pytest.mark.parametrize('strategy', [BandedNoise(13, 5), BandedNoise(13, 13)])
def test_banded_noise_solves_for_the_draws_to_the_last_rounding(strategy):
  rng = np.random.default_rng(0)
  draws = np.rint(rng.normal(size=[13, 1, 50]) * 2**30).astype(np.int64)
  noise = _eagerly(strategy, draws)
  left = strategy.matrix() @ noise - draws[:, 0] / strategy.denominator
  # Each round is rounded once, to a half of a whole number, and no error is passed on.
  assert np.abs(left).max() <= 0.5 * strategy.matrix().max() + 1e-6


def test_buffers_solve_for_the_draws_but_for_what_their_rounding_is_allowed():
  strategy = BufferedNoise(200, 3, 40)
  rng = np.random.default_rng(0)
  draws = np.rint(rng.normal(size=[200, 1, 50]) * 2**43).astype(np.int64)
  noise = _eagerly(strategy, draws).astype(np.float64) * _FINER
  matrix = np.linalg.inv(strategy.noising())
  # Each round's own rounding is a half of a whole number; what buffers are wrong by must
  # keep to the bound that `check_arithmetic` goes by, and solving here to 2^-48.
  left = np.abs(matrix @ noise - draws[:, 0]).max()
  bound = strategy._rounding(np.abs(draws).max())
  assert left <= _FINER / 2 + bound + 2.0**-48 * np.abs(noise).max() * 200
  # Buffers of single precision do not.
  coarse = noise.astype(np.float32).astype(np.float64)
  assert np.abs(matrix @ coarse - draws[:, 0]).max() > 100 * left


@pytest.mark.parametrize(
  'strategy', [BandedNoise(9, 4), TreeNoise(9, 9), TreeNoise(9, 4)]
)
def test_what_is_released_is_a_function_of_the_gaussian_mechanism(strategy):
  # Two data sets and two draws for which C x + z is the same must release the same: then
  # x + w is a function of C x + z, and the promise is that of the Gaussian mechanism.
  rng = np.random.default_rng(1)
  shift = rng.integers(-(2**20), 2**20, [9, 40])
  levels = getattr(strategy, 'levels', 1)
  draws = np.rint(rng.normal(size=[9, levels, 40]) * 2**30).astype(np.int64)
  moved = draws.copy()
  for number in range(9):
    for level in range(levels):
      moved[number, level] -= _row(strategy, number, level) @ shift
  released = _eagerly(strategy, draws)
  np.testing.assert_array_equal(shift + _eagerly(strategy, moved), released)
  if isinstance(strategy, BandedNoise):
    # Noise that is made of floating-point numbers, and rounded at last, is not.
    assert (shift + _floating(strategy, moved) != _floating(strategy, draws)).any()


def _floating(strategy, draws):
  noising = strategy.noising().astype(np.float32)
  return np.rint(noising @ (draws[:, 0] / strategy.denominator).astype(np.float32))


def _row(strategy, number, level):
  """What draw `level` of a round is added to: a row of C, in whole numbers."""
  row = np.zeros(strategy.rounds, np.int64)
  if isinstance(strategy, BandedNoise):
    for i, weight in enumerate(strategy.weights()[number, : number + 1]):
      row[number - i] = weight
  elif (number % strategy.restart + 1) % 2**level == 0:
    row[number + 1 - 2**level : number + 1] = 1
  return row


@pytest.mark.parametrize('rounds', [5, 8, 13])
def test_tree_noise_is_that_of_tensorflow_privacy(rounds):
  # The nodes of both trees are given the same noise, in the order in which they are made.
  draws = np.rint(np.random.default_rng(2).normal(size=[rounds, 4]) * 2**30)
  order = [
    draws[number, level]
    for number in range(rounds)
    for level in range(4)
    if (number + 1) % 2**level == 0
  ]
  # Theirs draws the first node of the round after the last one, too.
  nodes = itertools.chain(order, itertools.repeat(0.0))
  aggregator = tree_aggregation.EfficientTreeAggregator(
    lambda: tf.constant(next(nodes), tf.float32)
  )
  with_eager = tf.config.functions_run_eagerly()
  tf.config.run_functions_eagerly(True)
  try:
    state, theirs = aggregator.init_state(), []
    for _ in range(rounds):
      total, state = aggregator.get_cumsum_and_update(state)
      theirs.append(float(total))
  finally:
    tf.config.run_functions_eagerly(with_eager)
  ours = np.cumsum(
    _eagerly(TreeNoise(rounds, rounds), draws.astype(np.int64)[:, :, None])
  )
  # Weights of nodes are rounded to 1/256.
  np.testing.assert_allclose(ours, theirs, atol=2**30 / 256 * 4)
