"""Whole numbers in place of updates, so that sums are exact and noise leaves no trace.

A client scales its clipped update so that the clip norm is 2^bits, and rounds it. Sums of
whole numbers do not depend on their order, and no user moves one by more than 2^bits: what
rounding can add to a norm is left free beforehand.
"""

import dataclasses
import math

from tff_textpriv.privacy import rounded_gaussian

# What rounding may add to a norm of an update, as a share, before more bits are taken.
_LARGEST_LOSS = 0.01
# What single precision may add to a norm: by sums of squares (2^-15) and by products.
_FLOAT_ERROR = 2.0**-14
_WIDE_BITS = 44


@dataclasses.dataclass(frozen=True)
class Lattice:
  """How finely updates are cut.

  Attributes:
    bits: The clip norm is 2^bits.
    is_wide: Whether numbers take 64 bits, not 32.
  """

  bits: int
  is_wide: bool

  @property
  def clip(self) -> float:
    """The clip norm, in whole numbers."""
    return 2.0**self.bits

  def inner_clip(self, num_coordinates: int) -> float:
    """Returns the norm below which rounding cannot take an update above the clip norm.

    It moves each coordinate by a half at most, and so a norm by sqrt(d) / 2.
    """
    return self.clip * (1 - _FLOAT_ERROR) - math.sqrt(num_coordinates) / 2


def fitting(
  num_coordinates: int,
  num_clients: int,
  noise: float,
  smallest: float = rounded_gaussian.SMALLEST_STDDEV,
) -> Lattice:
  """Returns a lattice on which sums do not overflow and rounding costs next to nothing.

  Args:
    num_coordinates: The size of an update.
    num_clients: The (expected) number of clients of a sum; twice as many may come.
    noise: The standard deviation of the noise, in clip norms.
    smallest: What that must at least be in whole numbers.
  """
  room = math.log2(2 * num_clients + 64)
  narrow = Lattice(math.floor(31 - room), False)
  if (
    math.sqrt(num_coordinates) / 2 <= _LARGEST_LOSS * narrow.clip
    and noise * narrow.clip >= smallest
  ):
    return narrow
  above_one = max(0, math.ceil(math.log2(noise)))
  return Lattice(min(_WIDE_BITS - above_one, math.floor(62 - room)), True)
