"""How users are dealt into those who train and those on whom one evaluates.

A user's group follows from the user's own id and the seed alone: whoever else comes or
goes, nobody moves. So groups have their shares of the users only about.
"""

import collections
from collections.abc import Iterable
from typing import NamedTuple

from tff_textpriv import randomness


class Groups(NamedTuple):
  """Three groups of users with nobody in common."""

  train: list[str]
  validation: list[str]
  test: list[str]

  def __repr__(self) -> str:
    return object.__repr__(self)  # Without what users wrote.


def numbered(names: Iterable[str]) -> list[str]:
  """Returns names with how often each has come before, so that none comes twice.

  Where one of several of the same name goes, the others are as they would be without
  the last.
  """
  seen: collections.Counter[str] = collections.Counter()
  distinct = []
  for name in names:
    distinct.append(f'{name} {seen[name]}')
    seen[name] += 1
  return distinct


def deal_users(
  users: Iterable[str],
  seed: int,
  max_users: int | None = None,
  *,
  validation_share: float = 0.1,
  test_share: float = 0.1,
) -> Groups:
  """Deals users at random into three groups, 80 to 10 to 10 if not said otherwise.

  Args:
    users: The users; their order does not matter.
    seed: Decides who goes where.
    max_users: How many users to keep; all where it is `None`. Who is kept depends on
      who else there is: that is for making a data set, not for a run on one.
    validation_share: The share of users in the group validation.
    test_share: The share of users in the group test.

  Returns:
    The groups. Where there are so few users that a group would be empty, it gets the
    one who was nearest to it.
  """
  stream = randomness.Stream.of_seed(seed)
  places = {user: stream.share('group', user) for user in users}
  order = sorted(places, key=lambda user: (stream.share('kept', user), user))
  order = sorted(order[:max_users], key=lambda user: (places[user], user))
  ends = validation_share, validation_share + test_share
  validation = sum(places[user] < ends[0] for user in order)
  test = sum(ends[0] <= places[user] < ends[1] for user in order)
  if len(order) > 2:
    validation = max(validation, int(validation_share > 0))
    test = max(test, int(test_share > 0))
    # Training needs somebody, too.
    test = min(test, max(1, len(order) - validation - 1))
    validation = min(validation, len(order) - test - 1)
  return Groups(
    order[validation + test :],
    order[:validation],
    order[validation : validation + test],
  )
