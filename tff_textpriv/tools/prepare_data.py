"""Converts text of users to the SQLite layout that the tasks and TFF read.

  python -m tff_textpriv.tools.prepare_data --source=stackexchange \
    --input=stackexchange/posts.jsonl --output=stackexchange.sqlite

`--source=reddit_posts` makes a user of each subreddit, for the task reddit.
"""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence

import tqdm

from tff_textpriv import flags
from tff_textpriv.datasets import (
  clients,
  reddit_posts,
  rows,
  splits,
  stackexchange,
  stackoverflow,
)
from tff_textpriv.settings import Settings, SettingsError, setting
from tff_textpriv.text import sentences

# The reader of each source and what its rows look like.
_SOURCES = {
  'stackexchange': (stackexchange.read_posts, stackexchange.EXPECTED),
  'reddit_posts': (reddit_posts.read_posts, reddit_posts.EXPECTED),
}


@dataclasses.dataclass(frozen=True)
class PrepareDataSettings(Settings):
  """What to convert, and how."""

  source: str = setting(
    'stackexchange',
    'The format of the input. Posts of reddit_posts have no author, so that a user is '
    'a subreddit.',
    choices=tuple(_SOURCES),
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
    _, expected = _SOURCES[settings.source]
    raise clients.DataError.in_file(path, f'there is no such file; {expected}')
  sentences_by_user, num_broken = _read(path, settings)
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
  groups = splits.deal_users(kept, settings.seed, settings.max_users)
  users_by_split = dict(zip(stackoverflow.SPLITS, groups, strict=True))
  stackoverflow.write(
    settings.output,
    {
      split: {user: kept[user] for user in users}
      for split, users in users_by_split.items()
    },
  )
  _print_summary(settings, users_by_split, kept, len(sentences_by_user), num_broken)
  return 0


def _read(path: str, settings: PrepareDataSettings) -> tuple[dict[str, list[str]], int]:
  """Reads the sentences of each user, and counts the rows that are broken."""
  read_posts, _ = _SOURCES[settings.source]
  broken = rows.BrokenRows(
    settings.max_broken_rows, f'--max_broken_rows={settings.max_broken_rows}'
  )
  sentences_by_user: dict[str, list[str]] = {}
  with tqdm.tqdm(
    total=os.path.getsize(path), desc='Reading', unit='B', unit_scale=True, disable=None
  ) as progress:
    for position, user, text in read_posts(path, broken):
      sentences_by_user.setdefault(user, []).extend(sentences.sentences(text))
      progress.update(position - progress.n)
  return sentences_by_user, broken.count


def _print_summary(
  settings: PrepareDataSettings,
  users_by_split: Mapping[str, Sequence[str]],
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
      for split, users in users_by_split.items()
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
  for split, users in users_by_split.items():
    count = sum(len(sentences_by_user[user]) for user in users)
    print(f'  {split:8} {len(users):6} users {count:8} sentences')


if __name__ == '__main__':
  flags.run(main, PrepareDataSettings, 'Converts text to the SQLite layout of TFF.')
