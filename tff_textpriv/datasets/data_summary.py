"""A look at users' data before training: how much there is, and how users differ."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.datasets import client_sqlite, clients, labelled

# How users' words differ is looked up in some users only, and in their first words.
_SAMPLED_USERS = 200
_SAMPLED_WORDS = 2_000
_SHOWN_CLASSES = 8


class Heterogeneity(NamedTuple):
  """How far users are from having the same data.

  Attributes:
    distance: The total-variation distance of a user's distribution of values from that
      of all users together, 0 to 1; mean over users.
    chance: The same after the values were shuffled among users: small users differ
      from the whole even so.
  """

  distance: float
  chance: float


def heterogeneity(owners: np.ndarray, values: np.ndarray, seed: int) -> Heterogeneity:
  """Measures how users differ in their values.

  Args:
    owners: The number of the user who has each value, int [values].
    values: What they have: classes or words, as numbers from 0, int [values].
    seed: Decides how values are shuffled for comparison.
  """
  shuffled = randomness.generator(seed, 'heterogeneity').permutation(values)
  return Heterogeneity(_mean_distance(owners, values), _mean_distance(owners, shuffled))


def _mean_distance(owners: np.ndarray, values: np.ndarray) -> float:
  """Returns the mean total-variation distance of owners from the whole."""
  _, owners = np.unique(owners, return_inverse=True)
  width = int(values.max()) + 1
  pairs, counts = np.unique(
    owners.astype(np.int64) * width + values, return_counts=True
  )
  owner, value = np.divmod(pairs, width)
  whole = (np.bincount(values) / len(values))[value]
  own = counts / np.bincount(owners)[owner]
  # Half of the sum of |own - whole|, where a value that a user lacks adds its `whole`.
  distances = (1 + np.bincount(owner, np.abs(own - whole) - whole)) / 2
  return float(distances.mean())


def describe(
  path: str,
  data: clients.FederatedText,
  examples: labelled.LabelledData | None,
  *,
  max_texts: int | None,
  seed: int,
) -> list[str]:
  """Describes converted data in lines that fit on one screen.

  Args:
    path: The converted file.
    data: Its users.
    examples: Their labelled texts, if the texts have labels.
    max_texts: The limit of texts a user.
    seed: Decides shuffles for comparison.
  """
  facts = client_sqlite.facts(path)
  counts = client_sqlite.example_counts(path).values()
  sizes = np.array([number for users in counts for number in users.values()])
  groups = {
    group: len(getattr(data, group).client_ids)
    for group in ('train', 'validation', 'test')
  }
  parts = ', '.join(f'{number:,} {group}' for group, number in groups.items())
  lines = [
    f'{data.name}: {facts["rows"]:,} rows',
    f'  users     {sum(groups.values()):,}: {parts}; nobody is in two groups',
    f'  texts     {sizes.sum():,}; of a user {np.median(sizes):g} (median), at most '
    f'{sizes.max():,}',
    f'  words     {facts["words"]:,}; of a text {facts["words"] / sizes.sum():.1f} (mean)',
  ]
  if max_texts is not None and sizes.max() > max_texts:
    kept = np.minimum(sizes, max_texts).sum()
    lines.append(
      f'  limit     {max_texts:,} texts a user: {kept:,} of {sizes.sum():,} are used'
    )
  if examples is not None:
    lines.append(f'  labels    {_classes(examples)}')
  what = 'words' if examples is None else 'labels'
  how = heterogeneity(*(_words(data) if examples is None else _labels(examples)), seed)
  lines.append(
    f'  non-IID   {how.distance:.2f}: mean total-variation distance of users’ {what} '
    f'from all users’ ({how.chance:.2f} if {what} were shuffled)'
  )
  return [*lines, *_left_out(facts)]


def _classes(examples: labelled.LabelledData) -> str:
  """Lists the most frequent classes."""
  _, labels = _labels(examples)
  shares = np.bincount(labels, minlength=len(examples.classes)) / len(labels)
  order = np.argsort(-shares, kind='stable')
  shown = [f'{examples.classes[i]} {shares[i]:.0%}' for i in order[:_SHOWN_CLASSES]]
  more = ', ...' if len(order) > _SHOWN_CLASSES else ''
  return f'{len(order)}: {", ".join(shown)}{more}'


def _labels(examples: labelled.LabelledData) -> tuple[np.ndarray, np.ndarray]:
  """Returns the users and the labels of all examples."""
  groups = (examples.train, examples.validation, examples.test)
  users = [group.users for group in groups if group.users is not None]
  return np.concatenate(users), np.concatenate([group.labels for group in groups])


def _words(data: clients.FederatedText) -> tuple[np.ndarray, np.ndarray]:
  """Returns the users and the words of some training users, as numbers."""
  number_of: dict[str, int] = {}
  owners: list[int] = []
  values: list[int] = []
  for number, user in enumerate(data.train.client_ids[:_SAMPLED_USERS]):
    words = [word for text in data.train.read(user) for word in text.split()]
    for word in words[:_SAMPLED_WORDS]:
      values.append(number_of.setdefault(word, len(number_of)))
      owners.append(number)
  return np.array(owners), np.array(values)


def _left_out(facts: Mapping[str, Any]) -> Sequence[str]:
  """Says which rows are not used."""
  if not facts['broken'] and not facts['empty']:
    return []
  share = facts['broken'] / facts['rows']
  return [
    f'  left out  {facts["broken"]:,} broken rows ({share:.2%}), {facts["empty"]:,} '
    'without text',
    *(f'    {row}' for row in facts['first_broken']),
  ]
