"""How examples are dealt to clients.

Whose an example becomes follows from the example itself and the seed: whichever others
come or go, it stays where it is. So parts are only about equal.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.datasets import clients

# Client ids and the numbers of their examples, in ascending order.
Partition = Mapping[str, np.ndarray]


def shards(keys: Sequence[str], num_clients: int, seed: int) -> Partition:
  """Deals examples to clients at random, about as many to each.

  Args:
    keys: What tells each example from others [examples].
    num_clients: How many clients; one that gets nothing is left out.
    seed: Decides who gets what.

  Raises:
    DataError: If there are not enough examples for each client to get one.
  """
  _check_number(len(keys), num_clients)
  places = randomness.Stream.of_seed(seed).shares('shards', keys)
  return _named((places * num_clients).astype(np.int64), num_clients)


def one_each(keys: Sequence[str], max_clients: int | None, seed: int) -> Partition:
  """Deals each example to a client of its own, who has nothing else.

  Args:
    keys: What tells each example from others [examples].
    max_clients: About how many examples to keep, drawn at random, each by itself; `None`
      for all.
    seed: Decides who is kept, and the clients' names, which follow from their examples.

  Raises:
    DataError: If there are fewer examples than clients.
  """
  stream = randomness.Stream.of_seed(seed)
  kept = np.arange(len(keys))
  if max_clients is not None:
    _check_number(len(keys), max_clients)
    places = stream.shares('kept clients', keys)
    kept = np.flatnonzero(places < max_clients / len(keys))
  names = stream.child('clients of one example')
  return {
    f'client_{names.child("", keys[row]).key.hex()[:16]}': np.array([row])
    for row in kept
  }


def by_user(users: np.ndarray, max_clients: int | None, seed: int) -> Partition:
  """Leaves examples with those who wrote them.

  Args:
    users: The user of each example [examples], as numbers.
    max_clients: About how many users to keep, drawn at random, each by itself; `None`
      for all.
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
    places = randomness.Stream.of_seed(seed).shares('kept users', map(str, names))
    kept = np.flatnonzero(places < max_clients / len(names))
  return {f'user_{names[number]}': parts[number] for number in kept}


def dirichlet(
  keys: Sequence[str],
  labels: np.ndarray,
  num_clients: int,
  alpha: float,
  seed: int,
  *,
  follows_classes: bool = False,
) -> Partition:
  """Deals examples so that clients differ in how often they have each class.

  Each client draws its own distribution of classes from a Dirichlet distribution, and
  each class is dealt in proportion to what clients drew for it. Clients have about as
  many examples each on average, but not in each draw; one that got nothing is left out.

  Args:
    keys: What tells each example from others [examples].
    labels: The class of each example [examples].
    num_clients: How many clients.
    alpha: The concentration: near 0, clients have one class; large, all alike.
    seed: Decides who gets what.
    follows_classes: Whether a class counts alpha times its share of all examples, so
      that many classes, or rare ones, make clients differ more; otherwise each counts
      alpha. With it, who has an example depends on the number of others, too.

  Raises:
    DataError: If there are not enough examples for each client to get one.
  """
  _check_number(len(labels), num_clients)
  rng = randomness.generator(seed, 'dirichlet')
  classes, counts = np.unique(labels, return_counts=True)
  prior = counts / len(labels) if follows_classes else np.ones(len(classes))
  shares = rng.dirichlet(alpha * prior, num_clients)
  # With a tiny alpha nobody may have drawn a class at all: then everybody has some.
  shares = np.maximum(shares, np.finfo(np.float64).tiny)
  places = randomness.Stream.of_seed(seed).shares('dirichlet', keys)
  owner = np.empty(len(labels), np.int64)
  for column, label in enumerate(classes):
    members = np.flatnonzero(labels == label)
    bounds = np.cumsum(shares[:, column]) / shares[:, column].sum()
    found = np.searchsorted(bounds, places[members], side='right')
    owner[members] = np.minimum(found, num_clients - 1)
  return _named(owner, num_clients)


def pooled(num_examples: int) -> Partition:
  """Puts all examples in one place, for training without a federation."""
  return {'pooled': np.arange(num_examples)}


def _named(owner: np.ndarray, num_clients: int) -> Partition:
  """Returns the examples of each client that has any, given whose each is."""
  parts = {
    f'client_{number}': np.flatnonzero(owner == number) for number in range(num_clients)
  }
  return {name: part for name, part in parts.items() if len(part)}


def _check_number(num_examples: int, num_clients: int) -> None:
  if num_clients > num_examples:
    raise clients.DataError(
      f'--num_clients={num_clients}: there are only {num_examples} training examples'
    )
