"""Which round's model counts: the last, or the one that was best on validation."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LAST = 'last'
BEST = 'best_validation'
RULES = (LAST, BEST)


@dataclasses.dataclass(frozen=True)
class Selection:
  """What to look for in the evaluations of a run.

  Attributes:
    rule: `last` or `best_validation`.
    target: A value of the metric; the first round that reaches it is noted.
    metric: The validation metric that is to be small.
    stops: Whether training ends with the round that reaches the target.
  """

  rule: str = LAST
  target: float | None = None
  metric: str = 'token_perplexity'
  stops: bool = False


class Search:
  """What a run's evaluations have shown so far; kept in its checkpoints.

  Attributes:
    best_round: The round that was best, or `None` before an evaluation.
    target_round: The first evaluated round at or below the target.
  """

  def __init__(self, selection: Selection, weights: Sequence[np.ndarray]):
    """Starts with nothing seen.

    Args:
      selection: What to look for.
      weights: The model's weights, for their shapes.
    """
    self._selection = selection
    self._best = math.inf
    self._weights = list(weights) if selection.rule == BEST else []
    self.best_round: int | None = None
    self.target_round: int | None = None

  def see(
    self, round_number: int, metrics: Mapping[str, float], weights: Sequence[np.ndarray]
  ) -> None:
    """Takes note of an evaluation; of equally good rounds the first counts."""
    selection = self._selection
    if selection.rule == LAST and selection.target is None:
      return
    value = metrics[selection.metric]
    if selection.rule == BEST and value < self._best:
      self._best, self.best_round, self._weights = value, round_number, list(weights)
    reached = selection.target is not None and value <= selection.target
    if reached and self.target_round is None:
      self.target_round = round_number

  @property
  def has_ended(self) -> bool:
    """Whether there is nothing more to train for."""
    return self._selection.stops and self.target_round is not None

  def selected(self, last_weights: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the weights that count; the last ones if no evaluation was finite."""
    return list(last_weights) if self.best_round is None else self._weights

  def kept(self, state: Any) -> Any:
    """Adds the best weights to a server state, for a checkpoint."""
    return (state, tuple(self._weights)) if self._weights else state

  def notes(self) -> dict[str, Any]:
    """Returns the rest of what a checkpoint keeps, as JSON values."""
    return {
      'best': None if self.best_round is None else self._best,
      'best_round': self.best_round,
      'target_round': self.target_round,
    }

  def restore(self, kept: Any, notes: Mapping[str, Any]) -> Any:
    """Goes on from a checkpoint.

    Args:
      kept: What `kept` had made of the server state.
      notes: What `notes` had returned.

    Returns:
      The server state.
    """
    self.best_round, self.target_round = notes['best_round'], notes['target_round']
    self._best = math.inf if notes['best'] is None else notes['best']
    if not self._weights:
      return kept
    state, weights = kept
    self._weights = [np.asarray(weight) for weight in weights]
    return state
