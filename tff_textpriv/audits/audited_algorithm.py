"""An algorithm some of whose clients may be canaries; all else is the algorithm's own."""

import dataclasses
import math
from typing import Any

import tensorflow_federated as tff

from tff_textpriv.audits import canaries
from tff_textpriv.iterative_processes.algorithm import Algorithm
from tff_textpriv.iterative_processes.common_settings import AlgorithmSettings
from tff_textpriv.privacy.mechanism import Mechanism


def audited(algorithm: Algorithm) -> Algorithm:
  """Returns an algorithm whose models are those of `canaries.with_canaries`."""

  def build(
    model: tff.learning.models.FunctionalModel,
    settings: AlgorithmSettings,
    mechanism: Mechanism,
  ) -> Any:
    size = sum(math.prod(weight.shape) for weight in model.initial_weights[0])
    gradient = strength(settings, mechanism, size).gradient
    return algorithm.build(canaries.with_canaries(model, gradient), settings, mechanism)

  return dataclasses.replace(algorithm, build=build)


def strength(
  settings: AlgorithmSettings, mechanism: Mechanism, num_weights: int
) -> canaries.Strength:
  """Returns what makes a canary's update longer than a mechanism lets it be.

  Args:
    settings: Those of the algorithm.
    mechanism: Says how long an update may be.
    num_weights: The number of coordinates of an update.
  """
  return canaries.Strength.beyond(settings, mechanism.largest_step(num_weights))


def num_weights(process: tff.learning.templates.LearningProcess) -> int:
  """Returns the number of trainable weights of a process."""
  state_type = process.next.type_signature.parameter[0].member
  weights = tff.structure.flatten(state_type.global_model_weights.trainable)
  return sum(math.prod(weight.shape) for weight in weights)
