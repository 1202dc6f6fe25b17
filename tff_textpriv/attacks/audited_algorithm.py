"""An algorithm some of whose clients may be canaries; all else is the algorithm's own."""

import dataclasses
import math
from typing import Any

import tensorflow_federated as tff

from tff_textpriv import settings as settings_lib
from tff_textpriv.attacks import canaries
from tff_textpriv.iterative_processes import registry
from tff_textpriv.privacy import card, central, local, local_gaussian


@dataclasses.dataclass(frozen=True)
class AuditedAlgorithm(registry.Algorithm):
  """An algorithm of the registry whose model is one of `canaries.with_canaries`."""

  @classmethod
  def of(cls, algorithm: registry.Algorithm) -> 'AuditedAlgorithm':
    """Returns an algorithm as one that can be audited."""
    fields = dataclasses.fields(algorithm)
    return cls(**{field.name: getattr(algorithm, field.name) for field in fields})

  def build(
    self,
    model: tff.learning.models.FunctionalModel,
    settings: settings_lib.Settings,
    plan: card.Plan | None,
    seed: int,
  ) -> tff.learning.templates.LearningProcess:
    """Builds the process; see the base class."""
    num_weights = sum(math.prod(weight.shape) for weight in model.initial_weights[0])
    gradient = strength(settings, plan, num_weights).gradient
    return super().build(canaries.with_canaries(model, gradient), settings, plan, seed)


def strength(
  settings: Any, plan: card.Plan | None, num_weights: int
) -> canaries.Strength:
  """Returns what makes a canary's update longer than a plan lets it be.

  Args:
    settings: Those of the algorithm.
    plan: The privacy plan; without one, or without a bound in it, updates are of a
      length of about a hundred.
    num_weights: The number of coordinates of an update.
  """
  if isinstance(plan, local.LdpPlan):
    bound = settings.quantization_range or settings.client_learning_rate
    return canaries.Strength.beyond(settings, bound)
  length = 1.0
  if isinstance(plan, central.CentralDpPlan) and math.isfinite(plan.clip):
    length = plan.clip
  elif isinstance(plan, local_gaussian.LocalGaussianPlan):
    length = plan.clip_norm or length
  return canaries.Strength.beyond(settings, length / math.sqrt(num_weights))


def num_weights(process: tff.learning.templates.LearningProcess) -> int:
  """Returns the number of trainable weights of a process."""
  state_type = process.next.type_signature.parameter[0].member
  weights = tff.structure.flatten(state_type.global_model_weights.trainable)
  return sum(math.prod(weight.shape) for weight in weights)


def batch_type(process: tff.learning.templates.LearningProcess) -> tff.Type:
  """Returns the type of a batch of a process's clients, who may have a seed as well."""
  data_type = process.next.type_signature.parameter[1].member
  if not isinstance(data_type, tff.SequenceType):
    data_type = data_type[0]
  return data_type.element
