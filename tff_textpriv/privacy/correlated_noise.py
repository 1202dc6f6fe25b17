"""Noise of rounds that is not independent: what all strategies have in common.

A strategy C turns the rows x_t, one per round, into what Gaussian noise z is added to. By
whatever is done to C x + z afterwards nothing more is told. Here it is turned back into
x + w, where w = M z is the noise of the rounds. Its parts cancel in the sums over rounds
that a server optimizer makes, so that the sums are less noisy than with independent noise
of the same privacy.

Everything is done with whole numbers. Updates are whole numbers already (`lattice`); C has
whole numbers over `denominator`, and noise is drawn as rounded Gaussian on a lattice that
is finer by that much. So C x + z is on that lattice too and is what rounding a Gaussian
mechanism gives; and since x is whole, rounding x + w to whole numbers is the same as
rounding w. Where C has other numbers, `check_arithmetic` bounds what rounding may do.
"""

import abc
import functools

import numpy as np

from tff_textpriv.privacy import participation


class Strategy(abc.ABC):
  """How the noise of rounds hangs together.

  Attributes:
    rounds: The number of rounds that are planned.
    denominator: What the whole numbers of C are divided by; `None` if they are none, and
      noise is drawn on as fine a lattice as it can be.
    draws_per_round: How many vectors of noise are drawn in a round, on average at most.
  """

  rounds: int
  denominator: int | None
  draws_per_round: int

  @property
  @abc.abstractmethod
  def num_vectors(self) -> int:
    """The number of vectors, each as large as an update, that a server keeps."""

  @property
  @abc.abstractmethod
  def summary(self) -> str:
    """What it is, in a few words."""

  @property
  @abc.abstractmethod
  def reference(self) -> str:
    """Where it was published."""

  @abc.abstractmethod
  def noising(self) -> np.ndarray:
    """Returns M, by which independent noise becomes that of rounds, [rounds, draws]."""

  @abc.abstractmethod
  def squared_sensitivities(self, separation: int) -> tuple[float, ...]:
    """Returns the squares of how far a user moves C x; see `participation`.

    Args:
      separation: The least number of rounds from one participation to the next.

    Returns:
      Of a user with one participation, with two, and so on, in clip norms.
    """

  def check_arithmetic(self, largest_draw: float, clip: float, size: int) -> None:
    """Raises `PrivacyError` if rounding may move more than the sensitivities allow for.

    Args:
      largest_draw: The largest number that can be drawn.
      clip: The clip norm on the same lattice.
      size: The size of an update.
    """
    del largest_draw, clip, size  # Nothing is rounded but what is released.

  def prefix_error(self) -> float:
    """Returns the root mean square of the noise on sums over the first t rounds.

    In standard deviations of the independent noise, over all t.
    """
    return _prefix_error(self)


class NearbyStrategy(Strategy):
  """A strategy whose columns overlap only if their rounds are near to each other."""

  @property
  @abc.abstractmethod
  def reach(self) -> int:
    """From how many rounds apart on the columns of C do not overlap."""

  @abc.abstractmethod
  def squared_norms(self) -> np.ndarray:
    """Returns the diagonal of C^T C, float [rounds]."""

  @abc.abstractmethod
  def gram(self) -> np.ndarray:
    """Returns C^T C, float [rounds, rounds]."""

  def squared_sensitivities(self, separation: int) -> tuple[float, ...]:
    """See the base class."""
    return _squared_sensitivities(self, separation)


@functools.lru_cache(maxsize=64)
def _squared_sensitivities(
  strategy: NearbyStrategy, separation: int
) -> tuple[float, ...]:
  if separation >= strategy.reach:
    most = participation.most_participations(strategy.rounds, separation)
    squares = participation.heaviest(strategy.squared_norms(), separation, most)
  else:
    squares = participation.squared_sensitivities(strategy.gram(), separation)
  return tuple(map(float, squares))


@functools.lru_cache(maxsize=64)
def _prefix_error(strategy: Strategy) -> float:
  squares = np.cumsum(strategy.noising(), axis=0) ** 2
  return float(np.sqrt(squares.sum(axis=1).mean()))
