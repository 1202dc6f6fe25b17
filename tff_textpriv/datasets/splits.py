"""How users are dealt into those who train and those on whom one evaluates."""

import random
from collections.abc import Iterable
from typing import NamedTuple

# The share of users in each of the groups validation and test; the rest train.
_EVALUATION_SHARE = 0.1


class Groups(NamedTuple):
  """Three groups of users with nobody in common."""

  train: list[str]
  validation: list[str]
  test: list[str]


def deal_users(users: Iterable[str], seed: int, max_users: int | None = None) -> Groups:
  """Deals users at random into three groups, 80 to 10 to 10.

  Args:
    users: At least three users; their order does not matter.
    seed: Decides who goes where.
    max_users: How many users to keep; all where it is `None`.

  Returns:
    The groups, none of which is empty.
  """
  order = sorted(users)
  random.Random(seed).shuffle(order)
  order = order[:max_users]
  size = max(1, round(len(order) * _EVALUATION_SHARE))
  return Groups(order[2 * size :], order[:size], order[size : 2 * size])
