"""The cost of a round as a sum of parts, fitted to what was measured."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.optimize


@dataclasses.dataclass(frozen=True)
class Point:
  """One measured round.

  Attributes:
    clients: Clients of the round.
    parameters: Trained numbers of the model.
    steps: Steps of SGD, of all clients together.
    tokens: Tokens that were predicted.
    seconds: How long it took.
  """

  clients: int
  parameters: int
  steps: int
  tokens: int
  seconds: float

  @property
  def parts(self) -> dict[str, float]:
    """What the cost is thought to be made of, by the name of its unit."""
    return {
      'round': 1,
      'client': self.clients,
      'client and million parameters': self.clients * self.parameters / 1e6,
      'step': self.steps,
      'thousand tokens and million parameters': self.tokens * self.parameters / 1e9,
    }


@dataclasses.dataclass(frozen=True)
class Fit:
  """Seconds for each unit of the parts, and how well they explain the points."""

  seconds_per: dict[str, float]
  worst_error: float

  def predict(self, clients: int, parameters: int, steps: int, tokens: int) -> float:
    """Estimates the seconds of another round."""
    point = Point(clients, parameters, steps, tokens, 0.0)
    return sum(self.seconds_per[name] * part for name, part in point.parts.items())


def fit(points: Sequence[Point]) -> Fit:
  """Fits by least squares of relative errors; no part can cost less than nothing.

  Args:
    points: Measured rounds, of one number of workers.

  Returns:
    The fit; its worst error is relative to the measured time.
  """
  names = list(points[0].parts)
  parts = np.array([[point.parts[name] for name in names] for point in points])
  seconds = np.array([point.seconds for point in points])
  weighted = parts / seconds[:, np.newaxis]
  # Columns of one length: the solver's tolerance is absolute.
  scale = np.linalg.norm(weighted, axis=0)
  solution, _ = scipy.optimize.nnls(weighted / scale, np.ones(len(points)))
  per_unit = solution / scale
  errors = np.abs(parts @ per_unit / seconds - 1)
  return Fit(dict(zip(names, per_unit.tolist(), strict=True)), float(errors.max()))
