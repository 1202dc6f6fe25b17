"""Which users and which canaries take part in a round of an audit."""

from collections.abc import Sequence

from tff_textpriv import randomness
from tff_textpriv.runtime import cohorts


class CanarySampler(cohorts.CohortSampler):
  """Draws users as the run does, and canaries in the same way beside them.

  Canaries are drawn in blocks as large as the population of users, by samplers of the
  same kind: each is drawn with the probability of a user. Where users are drawn
  independently, more of them change nothing for anybody; where a fixed number is drawn,
  so many are drawn of each block. Places of the last block that no canary has are empty.
  """

  def __init__(
    self,
    users: cohorts.CohortSampler,
    canaries: Sequence[str],
    seed: int,
    absent: Sequence[str] = (),
  ):
    """Prepares the draws.

    Args:
      users: The run's own sampler.
      canaries: Who may be drawn besides.
      seed: Decides the draws of canaries.
      absent: Canaries who, when they are drawn, are not there.
    """
    size = len(users.client_ids)
    super().__init__(
      users.client_ids,
      users.cohort_size,
      users.sampling,
      users.stream,
      users.device_failure_rate,
      users.slots,
    )
    self._users = users
    # In records they come after all users.
    self._places.update((name, size + i) for i, name in enumerate(canaries))
    self._present = frozenset(canaries) - frozenset(absent)
    stream = randomness.Stream.of_seed(seed)
    self._blocks = []
    for start in range(0, len(canaries), size):
      block = canaries[start : start + size]
      places = [*block, *(f'nobody {place}' for place in range(len(block), size))]
      self._blocks.append(
        cohorts.CohortSampler(
          places,
          users.cohort_size,
          users.sampling,
          stream.child('canary cohorts', start),
          slots=users.slots,
        )
      )

  def drawn(self, round_number: int) -> list[str]:
    """Returns the canaries that are drawn in a round, there or not."""
    return [name for block in self._blocks for name in block.cohort(round_number)]

  def canaries(self, round_number: int) -> list[str]:
    """Returns the canaries that take part in a round."""
    return [name for name in self.drawn(round_number) if name in self._present]

  def cohort(self, round_number: int) -> list[str]:
    """Returns the users of a round, and after them the canaries."""
    return [*self._users.cohort(round_number), *self.canaries(round_number)]

  def reporting(self, users: Sequence[str], round_number: int) -> list[str]:
    """Returns those who report; canaries do not drop out."""
    theirs = [user for user in users if user not in self._present]
    canaries = [user for user in users if user in self._present]
    return [*self._users.reporting(theirs, round_number), *canaries]
