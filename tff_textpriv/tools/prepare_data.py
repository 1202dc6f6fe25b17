"""Converts text of users to the SQLite layout that the tasks and TFF read.

  python -m tff_textpriv.tools.prepare_data --source=stackexchange \
    --input=stackexchange/posts.jsonl --output=stackexchange.sqlite
"""

import dataclasses
import json
import os
import random
import sys
from collections.abc import Iterable, Mapping, Sequence

import tqdm

from tff_textpriv import flags
from tff_textpriv.datasets import clients, stackexchange, stackoverflow
from tff_textpriv.settings import Settings, SettingsError, setting

# The share of users in each of the splits heldout and test; the rest train.
_EVALUATION_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class PrepareDataSettings(Settings):
  """What to convert, and how."""

  source: str = setting(
    'stackexchange', 'The format of the input.', choices=['stackexchange']
  )
  input: str | None = setting(
    None, 'The file to read, or the folder with posts.jsonl in it.'
  )
  output: str | None = setting(None, 'The SQLite file to write.')
  min_words_per_user: int = setting(
    50, 'Users with fewer words, punctuation included, are left out.', low=1
  )
  max_users: int | None = setting(
    None, 'Keep no more than this number of users, chosen at random.', low=3
  )
  max_broken_rows: int = setting(
    10, 'Stop when more rows than this cannot be used.', low=0
  )
  seed: int = setting(0, 'Decides which users go where.', low=0)
  format: str = setting('text', 'How to print the summary.', choices=['text', 'json'])


def main(settings: PrepareDataSettings) -> int:
  """Converts the input and prints a summary.

  Args:
    settings: What to convert, and how.

  Returns:
    The exit code, 0.

  Raises:
    SettingsError: If input or output is not given.
    DataError: If the input cannot be used.
  """
  if settings.input is None or settings.output is None:
    missing = 'input' if settings.input is None else 'output'
    raise SettingsError(missing, None, 'must be given')
  path = settings.input
  if os.path.isdir(path):
    path = os.path.join(path, 'posts.jsonl')
  if not os.path.isfile(path):
    raise clients.DataError.in_file(
      path, f'there is no such file; {stackexchange.EXPECTED}'
    )
  sentences_by_user, num_broken = _read(path, settings.max_broken_rows)
  kept = {
    user: sentences
    for user, sentences in sentences_by_user.items()
    if sum(len(sentence.split()) for sentence in sentences)
    >= settings.min_words_per_user
  }
  if len(kept) < len(stackoverflow.SPLITS):
    raise clients.DataError.in_file(
      path,
      f'{len(kept)} of {len(sentences_by_user)} users have '
      f'{settings.min_words_per_user} words or more; at least 3 are needed',
    )
  splits = split_users(kept, settings.seed, settings.max_users)
  stackoverflow.write(
    settings.output,
    {split: {user: kept[user] for user in users} for split, users in splits.items()},
  )
  _print_summary(settings, splits, kept, len(sentences_by_user), num_broken)
  return 0


def split_users(
  users: Iterable[str], seed: int, max_users: int | None = None
) -> dict[str, list[str]]:
  """Deals users at random into train, heldout and test, 80 to 10 to 10.

  Args:
    users: At least three users; their order does not matter.
    seed: Decides who goes where.
    max_users: How many users to keep; all where it is `None`.

  Returns:
    The users of each split, none of which is empty.
  """
  order = sorted(users)
  random.Random(seed).shuffle(order)
  order = order[:max_users]
  size = max(1, round(len(order) * _EVALUATION_SHARE))
  ends = (order[2 * size :], order[:size], order[size : 2 * size])
  return dict(zip(stackoverflow.SPLITS, ends, strict=True))


def _read(path: str, max_broken_rows: int) -> tuple[dict[str, list[str]], int]:
  """Reads the sentences of each user, and counts the rows that are broken."""
  broken: list[clients.DataError] = []

  def on_broken_row(error: clients.DataError) -> None:
    tqdm.tqdm.write(f'skipped: {error}', file=sys.stderr)
    broken.append(error)
    if len(broken) > max_broken_rows:
      raise clients.DataError(
        f'{error}; stopped, since this is broken row number {len(broken)} and '
        f'--max_broken_rows={max_broken_rows}'
      )

  sentences_by_user: dict[str, list[str]] = {}
  with tqdm.tqdm(
    total=os.path.getsize(path), desc='Reading', unit='B', unit_scale=True
  ) as progress:
    for position, user, text in stackexchange.read_posts(path, on_broken_row):
      sentences_by_user.setdefault(user, []).extend(stackexchange.sentences(text))
      progress.update(position - progress.n)
  return sentences_by_user, len(broken)


def _print_summary(
  settings: PrepareDataSettings,
  splits: Mapping[str, Sequence[str]],
  sentences_by_user: Mapping[str, Sequence[str]],
  num_users_read: int,
  num_broken: int,
) -> None:
  """Prints what was written, as text or as JSON."""
  summary = {
    'output': settings.output,
    'users_read': num_users_read,
    'users_too_short': num_users_read - len(sentences_by_user),
    'broken_rows': num_broken,
    'splits': {
      split: {
        'users': len(users),
        'sentences': sum(len(sentences_by_user[user]) for user in users),
      }
      for split, users in splits.items()
    },
  }
  if settings.format == 'json':
    print(json.dumps(summary))
    return
  print(
    f'{settings.output}: read {num_users_read} users, left out '
    f'{summary["users_too_short"]} with fewer than {settings.min_words_per_user} '
    f'words; {num_broken} broken rows'
  )
  for split, users in splits.items():
    count = sum(len(sentences_by_user[user]) for user in users)
    print(f'  {split:8} {len(users):6} users {count:8} sentences')


if __name__ == '__main__':
  flags.run(main, PrepareDataSettings, 'Converts text to the SQLite layout of TFF.')
