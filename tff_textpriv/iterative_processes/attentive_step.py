"""The two parts of attentive aggregation that are not TFF's: client work and server step.

Clients train, randomize the update on the device and add its products with the server's
model, which attention needs; the server steps along the aggregated gradient.
"""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import attentive, of_mechanism
from tff_textpriv.iterative_processes import (
  client_results,
  common_settings,
  optimizers,
  seeded_client_work,
)
from tff_textpriv.privacy.mechanism import Mechanism


def client_work(
  model: tff.learning.models.FunctionalModel,
  settings: common_settings.LocalTrainingSettings,
  mechanism: Mechanism,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes local training whose update is randomized and ready for attention."""
  training = seeded_client_work.build(
    model,
    optimizers.client_optimizer(settings),
    tff.learning.ClientWeighting.NUM_EXAMPLES,
    mechanism,
  )

  def prepare(
    weights: tff.learning.models.ModelWeights,
    client_data: Any,
    result: tff.learning.templates.ClientResult,
  ) -> tff.learning.templates.ClientResult:
    del client_data
    delta, seed = result.update['delta'], result.update['seed']
    update = of_mechanism.seen(mechanism, delta, seed, 'server')
    weight = result.update_weight
    if mechanism.covered:
      # A mechanism answers whatever happened, and how much a client has is its secret: one
      # whose training blew up, and so counts as having learnt nothing, must not be told
      # from the others.
      weight = tf.ones_like(weight)
    # Of the randomized update, so that they reveal nothing more.
    value = attentive.client_value(weights.trainable, update)
    return tff.learning.templates.ClientResult(value, weight)

  return client_results.changed(training, prepare)


def whole_gradient(weights: tff.learning.models.ModelWeights, aggregate: Any) -> Any:
  """Returns the server's gradient: the aggregated one, with its theta term."""
  shrinkage = tf.unstack(aggregate['shrinkage'])
  return tuple(
    gradient + factor * weight
    for gradient, factor, weight in zip(
      aggregate['gradient'], shrinkage, weights.trainable, strict=True
    )
  )
