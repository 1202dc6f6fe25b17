"""How users are dealt into those who train and those on whom one evaluates."""

import random
from collections.abc import Iterable
from typing import NamedTuple


class Groups(NamedTuple):
  """Three groups of users with nobody in common."""

  train: list[str]
  validation: list[str]
  test: list[str]


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
    max_users: How many users to keep; all where it is `None`.
    validation_share: The share of users in the group validation.
    test_share: The share of users in the group test.

  Returns:
    The groups. None is empty if there are three users and shares are small, but one
    whose share is 0.
  """
  order = sorted(users)
  random.Random(seed).shuffle(order)
  order = order[:max_users]
  sizes = [
    max(1, round(len(order) * share)) if share else 0
    for share in (validation_share, test_share)
  ]
  ends = sizes[0], sum(sizes)
  return Groups(order[ends[1] :], order[: ends[0]], order[ends[0] : ends[1]])
