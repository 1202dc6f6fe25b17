"""Axes of charts: where a value is drawn, and which ticks stand beside it."""

import dataclasses
import math
from collections.abc import Iterable, Sequence

# Room between the outermost values and the ends of an axis, as a share of its length.
_MARGIN = 0.06


@dataclasses.dataclass(frozen=True)
class Scale:
  """A linear or logarithmic map from values to places.

  Attributes:
    low: The value at the start.
    high: The value at the end.
    is_log: Whether the map is that of logarithms.
    start: The place of `low`.
    end: The place of `high`.
  """

  low: float
  high: float
  is_log: bool
  start: float
  end: float

  def place(self, value: float) -> float:
    """Returns where a value is drawn."""
    low, high, x = (
      math.log(v) if self.is_log else v for v in (self.low, self.high, value)
    )
    return self.start + (self.end - self.start) * (x - low) / (high - low)

  def ticks(self, number: int) -> list[float]:
    """Returns round values on the axis, about so many."""
    if self.is_log:
      return _log_ticks(self.low, self.high, number)
    step = _round_step((self.high - self.low) / number)
    first = math.ceil(self.low / step - 1e-9)
    last = math.floor(self.high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def fit(values: Iterable[float], start: float, end: float, is_log: bool) -> Scale:
  """Makes the scale that shows all values, with some room at its ends.

  Args:
    values: At least one; positive if the scale is logarithmic.
    start: The place of the lowest end.
    end: The place of the highest end.
    is_log: Whether the scale is logarithmic.
  """
  known = list(values)
  low, high = min(known), max(known)
  if is_log:
    factor = (high / low) ** _MARGIN if high > low else 2.0
    return Scale(low / factor, high * factor, True, start, end)
  room = _MARGIN * (high - low) if high > low else abs(high) * 0.1 or 1.0
  return Scale(low - room, high + room, False, start, end)


def label(value: float) -> str:
  """Writes a tick's value in few characters."""
  size = abs(value)
  for factor, unit in ((1e9, 'G'), (1e6, 'M'), (1e4, 'k')):
    if size >= factor:
      return f'{value / (1e3 if unit == "k" else factor):g}{unit}'
  return f'{value:.6g}'


def _round_step(step: float) -> float:
  """Returns the nearest step of the form 1, 2 or 5 times a power of ten."""
  power = 10.0 ** math.floor(math.log10(step))
  return min((m * power for m in (1, 2, 5, 10)), key=lambda m: abs(math.log(m / step)))


def _log_ticks(low: float, high: float, number: int) -> list[float]:
  """Returns ticks at 1, 2 and 5 times powers of ten, or at fewer of these."""
  first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))

  def ticks(multiples: Sequence[int], every: int = 1) -> list[float]:
    powers = range(first, last + 1, every)
    return [
      m * 10.0**k for k in powers for m in multiples if low <= m * 10.0**k <= high
    ]

  for candidate in (ticks((1, 2, 5)), ticks((1, 3)), ticks((1,))):
    if 2 <= len(candidate) <= number + 1:
      return candidate
  if len(ticks((1, 2, 5))) < 2:  # Less than a factor of two or so.
    return Scale(low, high, False, 0, 1).ticks(number)
  return ticks((1,), every=math.ceil((last - first + 1) / number))
