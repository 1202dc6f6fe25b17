"""Times hashing of reviews against scikit-learn's HashingVectorizer, interleaved.

  python -m benchmarks.hashing --data=aclImdb      # 50,000 reviews, five times each
  python -m benchmarks.hashing --quick             # does it run? in a second

Both turn the same texts, already in memory, into sparse binary vectors with the same
number of buckets. Each run starts afresh: no word is known from the run before. Fewer
reviews than asked for are taken more than once, in both alike.
"""

import dataclasses
import itertools
import json
import pathlib
import statistics
import time
from collections.abc import Callable

from sklearn.feature_extraction import text as sklearn_text

from tff_textpriv import files, flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import embedded_labelled, imdb
from tff_textpriv.settings import setting
from tff_textpriv.text import rolling_hash


@dataclasses.dataclass(frozen=True)
class HashingSettings(settings_lib.Settings):
  """What to time."""

  data: str = setting('embedded', 'IMDB’s folder or CSV, or generated reviews.')
  num_texts: int = setting(50_000, 'How many reviews to hash.', low=1)
  hash_buckets: int = setting(5000, 'Number M of hash buckets.', low=2)
  repeats: int = setting(5, 'Timed runs of each.', low=1)
  output: str = setting('build/hashing.json', 'The file for the results.')
  quick: bool = setting(False, 'Only see whether it runs: few reviews, once.')


def main(settings: HashingSettings) -> int:
  """Times both in turn, prints the ratio, writes JSON; fails if ours is slower."""
  if settings.quick:
    settings = dataclasses.replace(settings, num_texts=500, repeats=1)
  texts = list(
    itertools.islice(itertools.cycle(_texts(settings.data)), settings.num_texts)
  )

  def ours() -> object:
    return rolling_hash.RollingHasher(buckets=settings.hash_buckets).bucket_ids(texts)

  def scikit_learn() -> object:
    return sklearn_text.HashingVectorizer(
      n_features=settings.hash_buckets, binary=True, norm=None, alternate_sign=False
    ).transform(texts)

  seconds: dict[str, list[float]] = {'ours': [], 'scikit-learn': []}
  for _ in range(settings.repeats):
    seconds['ours'].append(_timed(ours))
    seconds['scikit-learn'].append(_timed(scikit_learn))
  ratios = [a / b for a, b in zip(*seconds.values(), strict=True)]
  ratio = statistics.median(ratios)
  report = {
    'num_texts': len(texts),
    'num_characters': sum(map(len, texts)),
    'hash_buckets': settings.hash_buckets,
    'seconds': seconds,
    'ratio': ratio,
  }
  output = pathlib.Path(settings.output)
  files.write_atomically(output, json.dumps(report, indent=2) + '\n')
  for name, times in seconds.items():
    print(f'{name:12}  {statistics.median(times):6.2f} s (median of {len(times)})')
  print(
    f'ours over scikit-learn, side by side: {ratio:.2f} '
    f'({min(ratios):.2f} to {max(ratios):.2f})\nwritten: {output}'
  )
  return 0 if ratio <= 1 else 1


def _texts(data: str) -> list[str]:
  """Returns all reviews of the data, each once."""
  whole = embedded_labelled.reviews(0) if data == 'embedded' else imdb.load(data, 0)
  # Training and validation reviews share one list of texts.
  return [*whole.train.texts, *whole.test.texts]


def _timed(call: Callable[[], object]) -> float:
  started = time.perf_counter()
  call()
  return time.perf_counter() - started


if __name__ == '__main__':
  flags.run(main, HashingSettings, 'Times hashing against scikit-learn.')
