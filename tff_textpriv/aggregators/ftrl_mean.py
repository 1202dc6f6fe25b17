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
from tff_textpriv.privacy import ftrl, lattice

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
      kept = tf.zeros([num_vectors, size], tf.int64)
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


def _noise(
  plan: ftrl.CorrelatedGaussian,
  points: lattice.Lattice,
  round_number: tf.Tensor,
  kept: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns the noise of a round, int64 [size], and what to keep of it, masked."""
  # A round that was not planned has no seed, and fails.
  seed = tf.gather(tf.constant(plan.round_seeds()), round_number)
  seeds = tf.random.experimental.stateless_split(seed, plan.strategy.num_vectors + 1)
  law = plan.draw_law(points)
  noise, kept = correlated_draws.next_noise(
    plan.strategy,
    round_number,
    _masked(plan, round_number, kept),
    lambda number: lattice_noise.draw(law, seeds[number], kept.shape[1]),
    plan.denominator(points),
  )
  return noise, _masked(plan, round_number + 1, kept)


def _masked(
  plan: ftrl.CorrelatedGaussian, round_number: tf.Tensor, kept: tf.Tensor
) -> tf.Tensor:
  """Hides, or shows again, what is kept before a round: by random bits, and xor."""
  seed = tf.gather(tf.constant(plan.mask_seeds()), round_number)
  mask = tf.random.stateless_uniform(
    kept.shape, seed, minval=None, maxval=None, dtype=tf.int64
  )
  return tf.bitwise.bitwise_xor(kept, mask)


def mean(
  mechanism: ftrl.CorrelatedGaussian, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the mean of a mechanism; see `of_mechanism`."""
  dp_mean.check_weights(by_examples)
  return tff.aggregators.as_weighted_aggregator(FtrlMeanFactory(mechanism))
