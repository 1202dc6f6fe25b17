"""Your own text, converted: users in three groups, and their labels if they have any."""

import collections
import dataclasses
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from tff_textpriv.datasets import client_sqlite, clients, conversion, labelled, splits

_GROUPS = ('train', 'validation', 'test')
# More classes are rather texts, dates or numbers.
_MAX_CLASSES = 1_000


def check_broken(path: str, max_share: float) -> None:
  """Raises `DataError` if too many rows of a converted file were broken.

  Args:
    path: The converted file.
    max_share: The share of rows that may be, `--max_broken_share`.
  """
  facts = client_sqlite.facts(path)
  share = facts['broken'] / facts['rows']
  if share > max_share:
    shown = ''.join(f'\n  {row}' for row in facts['first_broken'])
    raise clients.DataError(
      f'{facts["broken"]:,} of {facts["rows"]:,} rows cannot be used ({share:.1%}), and '
      f'--max_broken_share={max_share:g}; mend them, or allow for more. The first are:'
      f'{shown}'
    )


def open_groups(
  path: str,
  name: str,
  seed: int,
  *,
  validation_share: float = 0.1,
  test_share: float = 0.1,
  max_texts: int | None = None,
) -> clients.FederatedText:
  """Opens a converted file.

  Where a column told who trains, that holds; if it names no validation users, some of
  the training users become those. Otherwise all users are dealt at random.

  Args:
    path: The converted file.
    name: What to call the data set.
    seed: Decides which users go where.
    validation_share: The share of users on whom choices are made.
    test_share: The share of users on whom the result is measured.
    max_texts: Texts of a user to keep, the first ones; `None` for all.

  Returns:
    The data set, without public text. That its groups are disjoint is still to be
    checked.

  Raises:
    DataError: If a group would be empty.
  """
  counts = client_sqlite.example_counts(path)
  if conversion.NO_SPLIT in counts:
    groups = splits.deal_users(
      counts[conversion.NO_SPLIT],
      seed,
      validation_share=validation_share,
      test_share=test_share,
    )
    names = (conversion.NO_SPLIT,) * 3
  elif 'validation' in counts:
    groups = splits.Groups(*(list(counts.get(split, ())) for split in _GROUPS))
    names = _GROUPS
  else:
    dealt = splits.deal_users(
      counts.get('train', ()), seed, validation_share=validation_share, test_share=0
    )
    groups = dealt._replace(test=list(counts.get('test', ())))
    names = ('train', 'train', 'test')
  empty = [group for group, ids in zip(_GROUPS, groups, strict=True) if not ids]
  if empty:
    found = len({user for users in counts.values() for user in users})
    raise clients.DataError(
      f'data set {name}: of its {found:,} users none is left for {" and ".join(empty)}; '
      'there must be users for training, validation and test, by --split_column or by '
      '--validation_share and --test_share'
    )
  train, validation, test = (
    client_sqlite.SqlClientText(path, split, ids, max_texts)
    for split, ids in zip(names, groups, strict=True)
  )
  return clients.FederatedText(name, train, validation, test)


def read_labelled(
  path: str, data: clients.FederatedText, max_texts: int | None = None
) -> labelled.LabelledData:
  """Reads the labelled texts of a converted file into memory.

  Args:
    path: The converted file.
    data: Who is in which group; nobody is in two.
    max_texts: Texts of a user to keep, the first ones; `None` for all.

  Returns:
    The examples, with users' numbers in the order of their groups. Classes are in
    alphabetical order, or in that of numbers if they all are.

  Raises:
    DataError: If there are not two classes at least, or too many.
  """
  group_of = {
    user: group for group in _GROUPS for user in getattr(data, group).client_ids
  }
  number_of = {user: number for number, user in enumerate(group_of)}
  found: dict[str, list[tuple[str, str, int]]] = {group: [] for group in _GROUPS}
  seen: collections.Counter[str] = collections.Counter()
  for row in client_sqlite.scan(path):
    user = row.client_id
    seen[user] += 1
    if max_texts is None or seen[user] <= max_texts:
      values = client_sqlite.features(row.proto)
      example = values['tokens'], values['label'], number_of[user]
      found[group_of[user]].append(example)
  classes = _in_order({label for group in found.values() for _, label, _ in group})
  if not 2 <= len(classes) <= _MAX_CLASSES:
    raise clients.DataError(
      f'data set {data.name}: --label_column has {len(classes):,} different values; a '
      f'classifier needs 2 to {_MAX_CLASSES:,} classes'
    )
  number_of_class = {label: number for number, label in enumerate(classes)}
  examples: dict[str, Any] = {
    name: dataclasses.replace(
      labelled.Examples.of_texts(
        [text for text, _, _ in group],
        [number_of_class[label] for _, label, _ in group],
      ),
      users=np.array([user for _, _, user in group]),
    )
    for name, group in found.items()
  }
  return labelled.LabelledData(data.name, tuple(classes), **examples)


def data_set_name(path: str) -> str:
  """Returns what to call the data of a path in reports."""
  return os.path.basename(os.path.normpath(path))


def _in_order(classes: Iterable[str]) -> list[str]:
  """Sorts classes as numbers if all are numbers, else as strings."""
  try:
    return sorted(classes, key=lambda name: (float(name), name))
  except ValueError:
    return sorted(classes)
