"""How examples are dealt to clients."""

from collections.abc import Mapping

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.datasets import clients

# Client ids and the numbers of their examples, in ascending order.
Partition = Mapping[str, np.ndarray]


def equal_shards(num_examples: int, num_clients: int, seed: int) -> Partition:
  """Deals shuffled examples to clients, as many to each (or one more).

  Args:
    num_examples: How many examples there are.
    num_clients: How many clients.
    seed: Decides who gets what.

  Raises:
    DataError: If there are not enough examples for each client to get one.
  """
  _check_number(num_examples, num_clients)
  order = randomness.generator(seed, 'shards').permutation(num_examples)
  return _named(np.array_split(order, num_clients))


def by_user(users: np.ndarray, max_clients: int | None, seed: int) -> Partition:
  """Leaves examples with those who wrote them.

  Args:
    users: The user of each example [examples], as numbers.
    max_clients: How many users to keep, drawn at random; `None` for all.
    seed: Decides who is kept.

  Raises:
    DataError: If there are fewer users than asked for.
  """
  order = np.argsort(users, kind='stable')
  names, starts = np.unique(users[order], return_index=True)
  if max_clients is not None and max_clients > len(names):
    raise clients.DataError(
      f'--num_clients={max_clients}: there are only {len(names)} training users'
    )
  parts = np.split(order, starts[1:])
  kept = np.arange(len(names))
  if max_clients is not None:
    rng = randomness.generator(seed, 'kept users')
    kept = np.sort(rng.choice(len(names), max_clients, replace=False))
  return {f'user_{names[number]}': parts[number] for number in kept}


def dirichlet(
  labels: np.ndarray, num_clients: int, alpha: float, seed: int
) -> Partition:
  """Deals examples so that clients differ in how often they have each class.

  Each client draws its own distribution of classes from a symmetric Dirichlet
  distribution, and each class is dealt in proportion to what clients drew for it.
  Clients have about as many examples each on average, but not in each draw; one
  that got nothing is given one example by the client that has most.

  Args:
    labels: The class of each example [examples].
    num_clients: How many clients.
    alpha: The concentration: near 0, clients have one class; large, all alike.
    seed: Decides who gets what.

  Raises:
    DataError: If there are not enough examples for each client to get one.
  """
  _check_number(len(labels), num_clients)
  rng = randomness.generator(seed, 'dirichlet')
  classes = np.unique(labels)
  shares = rng.dirichlet([alpha] * len(classes), num_clients)
  # With a tiny alpha nobody may have drawn a class at all: then everybody has some.
  shares = np.maximum(shares, np.finfo(np.float64).tiny)
  owner = np.empty(len(labels), np.int64)
  for column, label in enumerate(classes):
    members = rng.permutation(np.flatnonzero(labels == label))
    bounds = np.cumsum(shares[:, column]) / shares[:, column].sum()
    places = (np.arange(len(members)) + 0.5) / len(members)
    owner[members] = np.minimum(np.searchsorted(bounds, places), num_clients - 1)
  counts = np.bincount(owner, minlength=num_clients)
  for client in np.flatnonzero(counts == 0):
    richest = int(np.argmax(counts))
    owner[np.flatnonzero(owner == richest)[0]] = client
    counts[richest] -= 1
    counts[client] += 1
  order = np.argsort(owner, kind='stable')
  return _named(np.split(order, np.cumsum(counts)[:-1]))


def pooled(num_examples: int) -> Partition:
  """Puts all examples in one place, for training without a federation."""
  return {'pooled': np.arange(num_examples)}


def _named(parts: list[np.ndarray]) -> Partition:
  return {f'client_{number}': np.sort(part) for number, part in enumerate(parts)}


def _check_number(num_examples: int, num_clients: int) -> None:
  if num_clients > num_examples:
    raise clients.DataError(
      f'--num_clients={num_clients}: there are only {num_examples} training examples'
    )
