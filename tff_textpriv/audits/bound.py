"""A lower bound on epsilon from guesses about coins: the arithmetic of an audit.

An auditor tosses a coin for each of m canary users, which decides whether the user takes
part (or which of two data sets the user has), looks at what a mechanism releases, and
guesses some of the coins. Under pure epsilon-differential privacy a released value moves
the odds of each coin by a factor of e^epsilon at most, whatever is known of the other
coins. So each guess is right with probability p = e^epsilon / (1 + e^epsilon) at most,
given all guesses before it, and the number of right ones among r guesses exceeds v no
more often than that of r independent tosses of a coin that shows heads with probability
p. Where that would be a rare event, the epsilon is rejected.

With delta > 0, a mechanism may give coins away on top of that. Let F be the number given
away; its mean is at most 2 m delta, and F right guesses come for free:

  P(right >= v) <= E[f(v - F)],    f(v) = P(Binomial(r, p) >= v)
                <= f(v) + 2 m delta max_i (f(v - i) - f(v)) / i

since f(v - F) - f(v) is at most F times the largest slope. This is the theorem of
Steinke, Nasr and Jagielski (2023), "Privacy Auditing with One (1) Training Run". All of it
holds for one run of the mechanism, as the coins are many.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import optimize, special

# In which steps epsilons are tried, and how exactly the bound is found between them.
_STEP = 0.25
_TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True)
class Guesses:
  """How well coins were guessed, and what follows.

  Attributes:
    number: Guesses made, r; the auditor abstained on the rest.
    right: Right ones among them, v.
    epsilon: The lower bound.
    confidence: The probability with which such a bound holds.
    most: What the bound would be if all guesses were right, for the best number of
      them: no such audit can show more.
  """

  number: int
  right: int
  epsilon: float
  confidence: float
  most: float


def p_value(
  num_coins: int, num_guesses: int, num_right: int, epsilon: float, delta: float
) -> float:
  """Bounds the probability of so many right guesses under differential privacy.

  Args:
    num_coins: m, the coins that were tossed.
    num_guesses: r, the guesses made, at most m.
    num_right: v, the right ones, at most r.
    epsilon: Epsilon of the mechanism, at least 0.
    delta: Its delta, from 0 to 1.

  Returns:
    A bound on the probability of v or more right guesses, 1 at most.
  """
  if not 0 <= num_right <= num_guesses <= num_coins:
    raise ValueError(
      f'{num_right} right ones among {num_guesses} guesses of {num_coins} coins'
    )
  if epsilon < 0 or not 0 <= delta <= 1:
    raise ValueError(f'no mechanism has epsilon {epsilon} and delta {delta}')
  p = special.expit(epsilon)
  tail = _at_least(num_right, num_guesses, p)
  if delta > 0 and num_right > 0:
    given_away = np.arange(1, num_right + 1)
    gains = _at_least(num_right - given_away, num_guesses, p) - tail
    tail += 2 * num_coins * delta * (gains / given_away).max()
  return min(float(tail), 1.0)


def _at_least(number: Any, trials: int, p: float) -> Any:
  """Returns P(Binomial(trials, p) >= number), for numbers from 0 to `trials`."""
  first = np.maximum(number, 1)
  return np.where(
    np.equal(number, 0), 1.0, special.betainc(first, trials - first + 1.0, p)
  )


@functools.lru_cache(maxsize=4096)
def lower_bound(
  num_coins: int,
  num_guesses: int,
  num_right: int,
  delta: float,
  confidence: float = 0.95,
) -> float:
  """Returns the largest epsilon that so many right guesses reject.

  Args:
    num_coins: m, the coins that were tossed.
    num_guesses: r, the number of guesses, fixed before the coins were tossed.
    num_right: v, the right ones.
    delta: The delta at which epsilon is asked for.
    confidence: Of a mechanism that is (epsilon, delta)-differentially private, the
      bound is at most epsilon with this probability.

  Returns:
    The bound, 0 if nothing is rejected.
  """

  def excess(epsilon: float) -> float:
    return p_value(num_coins, num_guesses, num_right, epsilon, delta) - (1 - confidence)

  if excess(0.0) >= 0:
    return 0.0
  # Upwards to the first epsilon that is not rejected, wherever others might be.
  epsilon = 0.0
  while excess(epsilon + _STEP) < 0:
    epsilon += _STEP
  found = optimize.brentq(excess, epsilon, epsilon + _STEP, xtol=_TOLERANCE)
  return max(0.0, found - 2 * _TOLERANCE)


def made(
  num_coins: int,
  num_guesses: int,
  num_right: int,
  delta: float,
  confidence: float = 0.95,
) -> Guesses:
  """Returns what follows from guesses; see `lower_bound`."""
  return Guesses(
    num_guesses,
    num_right,
    lower_bound(num_coins, num_guesses, num_right, delta, confidence),
    confidence,
    lower_bound(num_coins, num_guesses, num_guesses, delta, confidence),
  )


def count_right(scores: np.ndarray, coins: np.ndarray, num_guesses: int) -> int:
  """Guesses the coins with the most telling scores, and counts the right guesses.

  The canaries with the highest scores are guessed to have heads, as many with the
  lowest ones tails. Of equal scores the first canary's counts as the lower one, which
  says nothing of its coin.

  Args:
    scores: What speaks for heads, float [m].
    coins: Whether the coin showed heads, bool [m].
    num_guesses: How many to guess; of an odd number one more is guessed to be heads.
  """
  order = np.argsort(scores, kind='stable')
  tails = order[: num_guesses // 2]
  heads = order[len(order) - (num_guesses - num_guesses // 2) :]
  return int(np.sum(~coins[tails]) + np.sum(coins[heads]))


def audit(
  scores: np.ndarray,
  coins: np.ndarray,
  delta: float,
  confidence: float = 0.95,
  shares: Sequence[float] = (1.0,),
) -> Guesses:
  """Bounds epsilon from scores, for the best of several numbers of guesses.

  The larger epsilon is, the fewer and surer guesses show it best. To try several numbers
  is to have several chances of an error: each gets its share of the probability of one.

  Args:
    scores: What speaks for heads, float [m].
    coins: Whether the coin showed heads, bool [m].
    delta: The delta at which epsilon is asked for.
    confidence: The probability with which the bound holds.
    shares: The shares of the canaries to guess, chosen without looking at the coins.

  Returns:
    The largest of the bounds.
  """
  each = 1 - (1 - confidence) / len(shares)
  found = []
  for share in shares:
    number = max(1, round(share * len(scores)))
    right = count_right(scores, coins, number)
    found.append(made(len(scores), number, right, delta, each))
  best = max(found, key=lambda guesses: (guesses.epsilon, guesses.number))
  most = max(guesses.most for guesses in found)
  return dataclasses.replace(best, confidence=confidence, most=most)
