"""Writes the tables of docs/first_own_data.md: text that can be had, as a company has it.

python -m benchmarks.own_tables --data=FOLDER --output=FOLDER
"""

import collections
import csv
import dataclasses
import json
import pathlib
import random
from collections.abc import Iterable, Sequence

from tff_textpriv import flags
from tff_textpriv.settings import REQUIRED, Settings, setting

_SIZES = {'negative': 9178, 'neutral': 3099, 'positive': 2363}
_TWEETERS = 7701
_READERS, _ARTICLES = 500, 10_000
_AUTHORS, _POSTS_EACH, _LONGEST_POST = 5_000, 6, 600
_TOPICS = {'1': 'world', '2': 'sports', '3': 'business', '4': 'tech'}


@dataclasses.dataclass(frozen=True)
class TableSettings(Settings):
  """Where text is read and tables are written."""

  data: str = setting(
    REQUIRED, 'Folder with ag_news, sst2, stackexchange, reddit_subreddits, wikitext-2.'
  )
  output: str = setting(REQUIRED, 'Folder for the tables.')


def main(settings: TableSettings) -> int:
  """Writes the tables and the public text; returns 0."""
  data, output = pathlib.Path(settings.data), pathlib.Path(settings.output)
  output.mkdir(parents=True, exist_ok=True)
  rng = random.Random(7)
  tables = {
    'tweets.csv': (['name', 'text', 'airline_sentiment'], _tweets(data, rng)),
    'stack.csv': (['user', 'text', 'site'], _stack(data)),
    'news.csv': (['reader', 'article', 'topic'], _news(data, rng)),
    'reddit.csv': (['author', 'body'], _reddit(data, rng)),
  }
  for name, (header, rows) in tables.items():
    with open(output / name, 'w', newline='', encoding='utf-8') as file:
      csv.writer(file).writerows([header, *rows])
  (output / 'public.txt').write_text('\n'.join(_public(data)) + '\n')
  print(f'written: {", ".join(tables)} and public.txt in {output}')
  return 0


def _tweets(data: pathlib.Path, rng: random.Random) -> list[Sequence[str]]:
  """Deals sentences of three kinds to users; each has one at least."""
  sentences: dict[str, list[str]] = {'0': [], '1': []}
  files = [*(data / f'sst2/sentence/{part}.tsv' for part in ('train', 'dev', 'test'))]
  for file in files:
    for text, label in _tab_separated(file):
      sentences[label].append(text)
  for text, label in _tab_separated(data / 'sst2/glue/train.tsv', skipped=1):
    if len(text.split()) > 6:
      sentences[label].append(text.strip())
  kinds = {
    'negative': sentences['0'],
    'positive': sentences['1'],
    'neutral': [row[1].lower() for row in _articles(data)],
  }
  texts = {kind: _shuffled(found, rng) for kind, found in kinds.items()}
  rows = [(text, kind) for kind, n in _SIZES.items() for text in texts[kind][:n]]
  rng.shuffle(rows)
  users = [f'user{number}' for number in range(_TWEETERS)]
  owners = users + [rng.choice(users) for _ in range(len(rows) - len(users))]
  return [(owner, *row) for owner, row in zip(owners, rows, strict=True)]


def _stack(data: pathlib.Path) -> list[Sequence[str]]:
  """Returns posts by author, with the site that they stand on."""
  posts = _json_lines(data / 'stackexchange/posts.jsonl')
  return [
    (f'{post["site"]}:{post["user"]}', post['text'], post['site'])
    for post in posts
    if post['user'] is not None
  ]


def _news(data: pathlib.Path, rng: random.Random) -> list[Sequence[str]]:
  """Deals articles to readers, the same number to each."""
  rows = [(f'{row[1]} {row[2]}', _TOPICS[row[0]]) for row in _articles(data)]
  rng.shuffle(rows)
  return [
    (f'r{number % _READERS}', *row) for number, row in enumerate(rows[:_ARTICLES])
  ]


def _reddit(data: pathlib.Path, rng: random.Random) -> list[Sequence[str]]:
  """Makes authors of six posts of a subreddit each."""
  by_subreddit = collections.defaultdict(list)
  for post in _json_lines(data / 'reddit_subreddits/posts.jsonl'):
    if len(post['text'].split()) > 10:
      by_subreddit[post['subreddit']].append(f'{post["title"]}. {post["text"]}')
  authors = [
    (f'{name}_{first // _POSTS_EACH}', posts[first : first + _POSTS_EACH])
    for name, posts in by_subreddit.items()
    for first in range(0, len(posts) - _POSTS_EACH + 1, _POSTS_EACH)
  ]
  rng.shuffle(authors)
  return [
    (author, post[:_LONGEST_POST])
    for author, posts in authors[:_AUTHORS]
    for post in posts
  ]


def _public(data: pathlib.Path) -> Iterable[str]:
  """Yields the paragraphs of WikiText-2's training text."""
  text = (data / 'wikitext-2/wiki.train.tokens').read_text(encoding='utf-8')
  for line in map(str.strip, text.splitlines()):
    if line and not line.startswith('='):
      yield line.replace('@-@', '-').replace('<unk>', '')


def _articles(data: pathlib.Path) -> list[list[str]]:
  file = data / 'ag_news/train_subset.csv'
  return list(csv.reader(file.read_text(encoding='utf-8').splitlines()))


def _tab_separated(file: pathlib.Path, skipped: int = 0) -> Iterable[list[str]]:
  """Yields the texts and labels of a file, after some lines."""
  for line in file.read_text(encoding='utf-8').splitlines()[skipped:]:
    yield line.rsplit('\t', 1)


def _json_lines(file: pathlib.Path) -> Iterable[dict]:
  with open(file, encoding='utf-8') as lines:
    yield from map(json.loads, lines)


def _shuffled(texts: Iterable[str], rng: random.Random) -> list[str]:
  """Returns each text once, in a random order."""
  distinct = list(dict.fromkeys(texts))
  rng.shuffle(distinct)
  return distinct


if __name__ == '__main__':
  flags.run(main, TableSettings, __doc__.splitlines()[0])
