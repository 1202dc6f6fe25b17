"""From the total of a user to reports: how many bits, and how large an epsilon for each.

A user who takes part k times and reports s bits each time has sent n = k s randomized
bits. Their total at delta is known exactly (`randomized_response.composed_epsilon`), so
that a total leaves one choice, s: each bit then gets the largest epsilon that n of them
can have.

That choice is made for the least noise. A report of s among d coordinates estimates each
with the variance (d / s) (q / (2p - 1))^2 - v^2, where 2p - 1 = tanh(epsilon / 2). So it is
s tanh(epsilon / 2)^2 that should be as large as can be. An epsilon below 1 says next to
nothing and grows with its square; one above 3 says no more than the bit itself. The best
is about 2 per bit: two bits for a total of 4, four for 8. Only where totals are in the
hundreds do many bits win, as the epsilon of many adds up to less than their sum.
"""

import functools
import math
from collections.abc import Iterator

from tff_textpriv.privacy import randomized_response
from tff_textpriv.privacy.errors import PrivacyError

# How close an epsilon comes to the largest one that keeps a total.
_TOLERANCE = 1e-4
# Sums of floating-point numbers are rounded: a trifle less keeps them below the total.
_ROUNDING = 1 - 1e-12
# Whoever says anything at this epsilon says it all; more changes nothing.
_LARGEST = 100.0
# Numbers of bits that are looked at grow by this; the optimum is flat.
_GROWTH = 1.2


@functools.lru_cache(maxsize=4096)
def epsilon_of_each(number: int, total: float, delta: float) -> float:
  """Returns the largest epsilon with which so many reports keep within a total.

  It holds for bits, and for any reports of which each is locally private at delta 0: their
  composition is never worse (Kairouz, Oh and Viswanath 2015).

  Args:
    number: How many reports there are.
    total: Their epsilon together.
    delta: At which delta.

  Returns:
    An epsilon within a ten-thousandth of the largest one, and never above it; at most
    100.

  Raises:
    PrivacyError: There are no reports, or nothing to spend on them.
  """
  if number < 1 or not 0 < total < math.inf:
    raise PrivacyError(
      f'{number} reports at epsilon {total} in total cannot be planned'
    )
  low = high = min(_ROUNDING * total / number, _LARGEST)

  def fits(epsilon: float) -> bool:
    spent = randomized_response.composed_epsilon(epsilon, number, delta)
    return spent <= _ROUNDING * total

  while low < _LARGEST and fits(high := min(2 * high, _LARGEST)):
    low = high
  while high > low * (1 + _TOLERANCE):
    middle = math.sqrt(low * high)
    low, high = (middle, high) if fits(middle) else (low, middle)
  return low


@functools.lru_cache(maxsize=256)
def bits_for_total(
  total: float, delta: float, participations: int, num_coordinates: int
) -> int:
  """Returns how many bits a report should have for the least noise.

  Args:
    total: Epsilon of a user over the whole run.
    delta: At which delta.
    participations: How often a user reports, at most.
    num_coordinates: How many bits a report can have, at most.
  """
  best, most = 1, 0.0
  for number in _numbers(num_coordinates):
    bit_epsilon = epsilon_of_each(number * participations, total, delta)
    if bit_epsilon < randomized_response.MIN_EPSILON:
      break  # More bits get even less.
    told = number * math.tanh(bit_epsilon / 2) ** 2
    if told > most:
      best, most = number, told
  return best


def _numbers(limit: int) -> Iterator[int]:
  """Yields numbers of bits up to a limit, all of the small ones."""
  number = 1
  while number < limit:
    yield number
    number = max(number + 1, int(_GROWTH * number))
  yield limit
