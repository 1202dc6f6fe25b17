"""The differentially private mean of client updates under correlated noise.

Everything that decides the privacy figure comes from one `CorrelatedGaussian`, the same
object from which the ledger is charged.
"""

import collections

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import (
  clipping,
  correlated_draws,
  dp_mean,
  lattice_noise,
)
from tff_textpriv.privacy import ftrl, lattice, rounded_gaussian

# What is kept of noise: blocks of several vectors, each int64 [vectors, length].
Blocks = tuple[tf.Tensor, ...]
# Numbers of a block. Larger ones would be given back to the system, and cleared by it,
# each time that a process has copied them (`runtime.heaps`).
_BLOCK = 1 << 21
# What an observer sees of one client: as much noise as is drawn in a round. What the
# round is left with is more, and what is known of it from other rounds is not.
seen = dp_mean.seen


class FtrlMeanFactory(tff.aggregators.UnweightedAggregationFactory):
  """Averages updates under noise that is correlated over rounds.

  With clip norm C, noise w_t of round t and a planned cohort of m clients, the mean of the
  updates v_k is estimated by

    ( sum_k v_k min(1, C / |v_k|)  +  w_t ) / m,    w = M z,  z ~ N(0, (multiplier C)^2 I)

  where M is the strategy's (`privacy.correlated_noise`). Clients and lattice are those of
  `dp_mean.DpMeanFactory`. The state keeps the round and what the noise of the next one is
  made of, as whole numbers: a resumed run equals an undisturbed one. Whoever saw the noise
  of earlier rounds could take it off again, so it is masked by the mechanism's stream.

  Measurements: `clip`, and `left_out_clients`, those whose update was not finite, or
  nothing.

  Example:
    >>> settings = FtrlPrivacySettings(target_epsilon=2.0)
    >>> deployment = Deployment('separated', 10**6, 5000, rounds=1000, separation=200)
    >>> mechanism = settings.mechanism(deployment)
    >>> tff.learning.algorithms.build_unweighted_fed_avg(
    ...   model, optimizer, model_aggregator=FtrlMeanFactory(mechanism))

  Reference: Kairouz et al., Practical and Private (Deep) Learning without Sampling or
  Shuffling (2021).
  """

  def __init__(self, mechanism: ftrl.CorrelatedGaussian):
    """Makes the factory of a mechanism.

    Args:
      mechanism: Clip, noise, cohort, and the stream that decides the noise.
    """
    self._mechanism = mechanism

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Builds the aggregation of updates of one type; see the base class."""
    plan = self._mechanism
    points = dp_mean.fitting_lattice(plan, value_type)
    size = dp_mean.num_coordinates(value_type)
    num_vectors = 0 if points is None else plan.strategy.num_vectors

    @tff.tensorflow.computation
    def initial_state():
      start = tf.constant(0, tf.int32)
      kept = tuple(
        tf.zeros([num_vectors, length], tf.int64)
        for length in _block_lengths(num_vectors, size)
      )
      return collections.OrderedDict(round=start, kept=_masked(plan, start, kept))

    state_type = initial_state.type_signature.result

    @tff.federated_computation
    def initialize():
      return tff.federated_eval(initial_state, tff.SERVER)

    @tff.tensorflow.computation(value_type)
    def client_contribution(update):
      clip = tf.constant(plan.clip, tf.float32)
      contribution = clipping.clip_update(update, clip, points)
      del contribution['unclipped_half']
      return contribution

    @tff.tensorflow.computation(state_type, client_contribution.type_signature.result)
    def noisy_mean(state, total):
      released, kept = total['update'], state['kept']
      if points is not None:
        noise, kept = _noise(plan, points, state['round'], kept)
        released = lattice_noise.summed(
          released, noise, tf.constant(plan.clip / points.clip, tf.float64)
        )
      denominator = tf.constant(plan.mean_denominator, tf.float32)
      mean = tf.nest.map_structure(lambda tensor: tensor / denominator, released)
      new_state = collections.OrderedDict(round=state['round'] + 1, kept=kept)
      measurements = collections.OrderedDict(
        clip=tf.constant(plan.clip, tf.float32), left_out_clients=total['left_out']
      )
      return new_state, mean, measurements

    @tff.federated_computation(
      initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
    )
    def next_round(state, updates):
      total = tff.federated_sum(tff.federated_map(client_contribution, updates))
      new_state, mean, measurements = tff.federated_map(noisy_mean, (state, total))
      return tff.templates.MeasuredProcessOutput(new_state, mean, measurements)

    return tff.templates.AggregationProcess(initialize, next_round)


def _block_lengths(num_vectors: int, size: int) -> list[int]:
  """Cuts vectors of a size into blocks; together they have `_BLOCK` numbers at most."""
  longest = _BLOCK // max(1, num_vectors)
  return [min(longest, size - start) for start in range(0, size, longest)]


def _noise(
  plan: ftrl.CorrelatedGaussian,
  points: lattice.Lattice,
  round_number: tf.Tensor,
  kept: Blocks,
) -> tuple[tf.Tensor, Blocks]:
  """Returns the noise of a round, int64 [size], and what to keep of it, masked."""
  law, denominator = plan.draw_law(points), plan.denominator(points)
  # A round that was not planned has no seed, and fails.
  seed = tf.gather(tf.constant(plan.round_seeds()), round_number)
  noises, after = [], []
  for block, own_seed in zip(
    _masked(plan, round_number, kept), _split(seed, len(kept)), strict=True
  ):
    draw = _drawing(law, own_seed, plan.strategy.num_vectors + 1, block.shape[1])
    noise, left = correlated_draws.next_noise(
      plan.strategy, round_number, block, draw, denominator
    )
    noises.append(noise)
    after.append(left)
  return tf.concat(noises, axis=0), _masked(plan, round_number + 1, tuple(after))


def _drawing(
  law: rounded_gaussian.Law, seed: tf.Tensor, number: int, length: int
) -> correlated_draws.Draw:
  """Returns what draws up to so many vectors of a length."""
  seeds = _split(seed, number)
  return lambda index: lattice_noise.draw(law, seeds[index], length)


def _masked(
  plan: ftrl.CorrelatedGaussian, round_number: tf.Tensor, kept: Blocks
) -> Blocks:
  """Hides, or shows again, what is kept before a round: by random bits, and xor."""
  seed = tf.gather(tf.constant(plan.mask_seeds()), round_number)
  masks = [
    tf.random.stateless_uniform(
      block.shape, own_seed, minval=None, maxval=None, dtype=tf.int64
    )
    for block, own_seed in zip(kept, _split(seed, len(kept)), strict=True)
  ]
  return tuple(map(tf.bitwise.bitwise_xor, kept, masks))


def _split(seed: tf.Tensor, number: int) -> list[tf.Tensor]:
  """Returns so many seeds, each int64 [2], of one."""
  return tf.unstack(tf.random.experimental.stateless_split(seed, number))


def mean(
  mechanism: ftrl.CorrelatedGaussian, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean of a mechanism; see `of_mechanism`."""
  dp_mean.check_weights(by_examples)
  return tff.aggregators.as_weighted_aggregator(FtrlMeanFactory(mechanism))
