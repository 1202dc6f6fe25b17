"""Federated SGD: each client sends the mean gradient over its data."""

import dataclasses

from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy.mechanism import Mechanism


@dataclasses.dataclass(frozen=True)
class FedSgdSettings(common_settings.ServerSettings):
  """One gradient per client per round."""


def build_fed_sgd(
  model: algorithm.Model, settings: FedSgdSettings, mechanism: Mechanism
) -> algorithm.Process:
  """Builds federated SGD: one gradient per client per round.

    w <- w - server_step( sum_k n_k grad f_k(w) / sum_k n_k )

  Args:
    model: What is trained; carries the initial weights.
    settings: The server optimizer.
    mechanism: What makes the mean; `NoMechanism` for none.

  Returns:
    A learning process: `initialize`, `next` and `get_model_weights`.

  Example:
    >>> build_fed_sgd(model, FedSgdSettings(server_learning_rate=0.5), NoMechanism('none'))

  Reference: McMahan et al., Communication-Efficient Learning of Deep Networks from
  Decentralized Data (2017).
  """
  # Only now is TFF needed: flags are read before.
  import tensorflow_federated as tff

  from tff_textpriv.aggregators import of_mechanism
  from tff_textpriv.iterative_processes import optimizers

  return tff.learning.algorithms.build_fed_sgd(
    model,
    server_optimizer_fn=optimizers.server_optimizer(settings),
    model_aggregator=of_mechanism.mean(mechanism, by_examples=True),
    loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
  )


ALGORITHM = algorithm.Algorithm(
  'fed_sgd',
  'one gradient per client per round',
  FedSgdSettings,
  build_fed_sgd,
  algorithm.gradient_client,
)
