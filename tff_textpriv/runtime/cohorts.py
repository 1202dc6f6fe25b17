"""Which users take part in a round."""

from collections.abc import Sequence

from tff_textpriv import randomness


class CohortError(ValueError):
  """Cohorts cannot be drawn as asked."""


class CohortSampler:
  """Draws the users of each round; a function of (stream, round).

  Attributes:
    client_ids: All users.
    sampling: `poisson`, every user independently with the same probability, so
      that the cohort's size varies; or `fixed`, so many without replacement. The
      privacy accountant must treat each as what it is.
    cohort_size: The number of users a round, expected or exact.
    dropout_rate: The probability that a user who was drawn does not report.
    stream: Where the draws come from.
  """

  def __init__(
    self,
    client_ids: Sequence[str],
    cohort_size: int,
    sampling: str,
    stream: randomness.Stream,
    dropout_rate: float = 0.0,
  ):
    """Prepares the draws.

    Args:
      client_ids: All users.
      cohort_size: The number of users a round, expected or exact.
      sampling: `poisson` or `fixed`.
      stream: Where the draws come from; a secret, if a promise rests on them.
      dropout_rate: The probability that a user who was drawn does not report.
    """
    if cohort_size > len(client_ids):
      raise CohortError(
        f'--clients_per_round={cohort_size}: there are only {len(client_ids)} '
        'training users'
      )
    self.sampling = sampling
    self.client_ids = client_ids
    self._places = {user: place for place, user in enumerate(client_ids)}
    self.cohort_size = cohort_size
    self.dropout_rate = dropout_rate
    self.stream = stream

  def cohort(self, round_number: int) -> list[str]:
    """Returns the users of a round; under Poisson sampling perhaps nobody."""
    rng = self.stream.generator('cohort', round_number)
    population = len(self.client_ids)
    if self.sampling == 'poisson':
      chosen = (rng.random(population) < self.cohort_size / population).nonzero()[0]
    else:
      chosen = rng.choice(population, self.cohort_size, replace=False)
    return [self.client_ids[i] for i in chosen]

  def places(self, users: Sequence[str]) -> list[str]:
    """Returns users' places among all: names for records that must not tell ids."""
    return [str(self._places[user]) for user in users]

  def reporting(self, users: Sequence[str], round_number: int) -> list[str]:
    """Returns those of a round's users whose devices last until they have reported."""
    rng = self.stream.generator('dropout', round_number)
    lasts = rng.random(len(users)) >= self.dropout_rate
    return [user for user, does in zip(users, lasts, strict=True) if does]
