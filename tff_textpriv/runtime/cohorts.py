"""Which users take part in a round."""

from collections.abc import Sequence

import numpy as np

from tff_textpriv import randomness


class CohortError(ValueError):
  """Cohorts cannot be drawn as asked."""


def is_turn(
  phases: np.ndarray, round_number: int, population: int, cohort_size: int
) -> np.ndarray:
  """Tells whose turn it is in a round; a device can tell it of its own phase.

  It is the turn of phase p in those rounds t in which t * cohort_size goes beyond p plus
  some multiple of the population. So a turn comes once in population / cohort_size rounds
  and, as (t' - t + 1) cohort_size > population for two turns t < t', never sooner than
  after floor(population / cohort_size). Of all phases it is that of cohort_size each time.

  Args:
    phases: int64 [users], each in [0, population).
    round_number: The round, from 1.
    population: The planned number of users.
    cohort_size: The planned number of users in a round.
  """
  done, before = (
    (number * cohort_size - phases) // population
    for number in (round_number, round_number - 1)
  )
  return done > before


class CohortSampler:
  """Draws the users of each round; a function of (stream, round).

  Attributes:
    client_ids: All users.
    sampling: `poisson`, every user independently with the same probability, so
      that the cohort's size varies; `fixed`, so many without replacement;
      `separated`, nobody by chance, but each user in its turn, which follows from the
      user's own id: whoever else comes or goes does not change it; or `banded_poisson`,
      users of one slot after the other, each of them independently with the same
      probability. A user's slot follows from the user's own id. The privacy accountant
      must treat each as what it is.
    cohort_size: The number of users a round, expected or exact.
    device_failure_rate: The probability that a user who was drawn does not report.
    stream: Where the draws come from.
    slots: With `banded_poisson`, the number of slots.
  """

  def __init__(
    self,
    client_ids: Sequence[str],
    cohort_size: int,
    sampling: str,
    stream: randomness.Stream,
    device_failure_rate: float = 0.0,
    slots: int = 1,
  ):
    """Prepares the draws.

    Args:
      client_ids: All users.
      cohort_size: The number of users a round, expected or exact.
      sampling: `poisson`, `fixed`, `separated` or `banded_poisson`.
      stream: Where the draws come from; a secret, if a promise rests on them.
      device_failure_rate: The probability that a user who was drawn does not report.
      slots: With `banded_poisson`, the number of slots.
    """
    if cohort_size > len(client_ids):
      raise CohortError(
        f'--clients_per_round={cohort_size}: there are only {len(client_ids)} '
        'training users'
      )
    if slots * cohort_size > len(client_ids):
      raise CohortError(
        f'{cohort_size} of {len(client_ids)} users cannot be drawn from each of {slots} '
        'slots'
      )
    self.sampling = sampling
    self.slots = slots
    self.client_ids = client_ids
    self._places = {user: place for place, user in enumerate(client_ids)}
    self.cohort_size = cohort_size
    self.device_failure_rate = device_failure_rate
    self.stream = stream
    if sampling == 'separated':
      shares = stream.shares('turn', client_ids)
      self._phases = (shares * len(client_ids)).astype(np.int64)
    elif sampling == 'banded_poisson':
      shares = stream.shares('slot', client_ids)
      self._slots = (shares * slots).astype(np.int64)

  @property
  def separation(self) -> int:
    """The least number of rounds from one participation of a user to the next."""
    if self.sampling == 'separated':
      return len(self.client_ids) // self.cohort_size
    return self.slots

  def cohort(self, round_number: int) -> list[str]:
    """Returns the users of a round; unless their number is fixed, perhaps nobody."""
    population = len(self.client_ids)
    rng = self.stream.generator('cohort', round_number)
    if self.sampling == 'separated':
      turns = is_turn(self._phases, round_number, population, self.cohort_size)
      chosen = turns.nonzero()[0]
    elif self.sampling == 'poisson':
      chosen = (rng.random(population) < self.cohort_size / population).nonzero()[0]
    elif self.sampling == 'banded_poisson':
      # Everybody draws, so that nobody's draw depends on who else is in the slot.
      share = self.slots * self.cohort_size / population
      in_turn = self._slots == (round_number - 1) % self.slots
      chosen = (in_turn & (rng.random(population) < share)).nonzero()[0]
    else:
      chosen = rng.choice(population, self.cohort_size, replace=False)
    return [self.client_ids[i] for i in chosen]

  def places(self, users: Sequence[str]) -> list[str]:
    """Returns users' places among all: names for records that must not tell ids."""
    return [str(self._places[user]) for user in users]

  def reporting(self, users: Sequence[str], round_number: int) -> list[str]:
    """Returns those of a round's users whose devices last until they have reported."""
    rng = self.stream.generator('dropout', round_number)
    lasts = rng.random(len(users)) >= self.device_failure_rate
    return [user for user, does in zip(users, lasts, strict=True) if does]
