"""MovieLens 1M: who likes which movie, from the .dat files and a file of keywords.

The label is rating >= 4, as the paper's counts of positive and negative examples
say (its text says 3). Features are the user's age, gender and occupation, and the
movie's year, genres and keywords. Users are dealt into training, validation and test
users, so that the result is measured on people who took no part.
"""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from tff_textpriv.datasets import clients, labelled, splits
from tff_textpriv.text import rolling_hash, stop_words

CLASSES = ('below 4', '4 or 5')
KEYWORDS_FILE = 'movie_keywords.tsv'

GENRES = (
  'Action', 'Adventure', 'Animation', "Children's", 'Comedy', 'Crime', 'Documentary',
  'Drama', 'Fantasy', 'Film-Noir', 'Horror', 'Musical', 'Mystery', 'Romance', 'Sci-Fi',
  'Thriller', 'War', 'Western',
)  # fmt: skip
NUM_OCCUPATIONS = 21
_LIKED = 4
_OLDEST = 56.0
_MAX_AGE = 150
_FIRST_YEAR, _LAST_YEAR = 1919, 2000

_EXPECTED = {
  'users.dat': 'expected UserID::Gender::Age::Occupation::Zip-code',
  'movies.dat': 'expected MovieID::Title (Year)::Genre|Genre|...',
  'ratings.dat': 'expected UserID::MovieID::Rating::Timestamp, of users in users.dat '
  'and movies in movies.dat',
}
_KEYWORDS_EXPECTED = (
  'expected tab-separated columns under a header that names keywords (separated by |) '
  'and either movieId, or title and year'
)
_T = TypeVar('_T')


@dataclasses.dataclass(frozen=True)
class Ratings:
  """Users, movies, and who rated what.

  Attributes:
    user_features: Age, gender and occupation, float32 [users, 23].
    movie_features: Year and genres, float32 [movies, 19].
    keywords: The keywords of each movie, as a text; empty where there are none.
    user_ids: The names of users, as numbers [users].
    users: The number of each rating's user [ratings].
    movies: The number of each rating's movie [ratings].
    stars: The ratings, 1 to 5 [ratings].
  """

  user_features: np.ndarray
  movie_features: np.ndarray
  keywords: Sequence[str]
  user_ids: np.ndarray
  users: np.ndarray
  movies: np.ndarray
  stars: np.ndarray


def load(path: str, keywords: str, seed: int) -> labelled.LabelledData:
  """Reads the data.

  Args:
    path: The folder of users.dat, movies.dat and ratings.dat.
    keywords: A file of keywords; `auto` for the folder's `movie_keywords.tsv`, if it
      has one; or `none`.
    seed: Decides which users are for validation and test.

  Raises:
    DataError: If the data are not as expected; names the file and the line.
  """
  folder = pathlib.Path(path)
  users = _read_rows(folder / 'users.dat', 5, _parse_user)
  movies = _read_rows(folder / 'movies.dat', 3, _parse_movie)
  user_number = {user: number for number, (user, _) in enumerate(users)}
  movie_number = {movie.movie_id: number for number, movie in enumerate(movies)}

  def parse_rating(fields: Sequence[bytes]) -> tuple[int, int, int]:
    user, movie, stars = map(_number, fields[:3])
    if user not in user_number or movie not in movie_number or not 1 <= stars <= 5:
      raise ValueError('no such user, movie or rating')
    return user_number[user], movie_number[movie], stars

  ratings = np.array(_read_rows(folder / 'ratings.dat', 4, parse_rating))
  keywords_file = (
    folder / KEYWORDS_FILE if keywords == 'auto' else pathlib.Path(keywords)
  )
  has_keywords = keywords_file.exists() if keywords == 'auto' else keywords != 'none'
  return split(
    'movielens',
    Ratings(
      np.array([features for _, features in users], np.float32),
      np.array([movie.features for movie in movies], np.float32),
      _read_keywords(keywords_file, movies) if has_keywords else [''] * len(movies),
      np.array([user for user, _ in users]),
      *ratings.T,
    ),
    seed,
  )


def split(name: str, ratings: Ratings, seed: int) -> labelled.LabelledData:
  """Makes examples of ratings, and deals the users 80 to 10 to 10."""
  dense = np.concatenate(
    [
      ratings.user_features[ratings.users],
      ratings.movie_features[ratings.movies],
    ],
    axis=1,
  )
  examples = labelled.Examples(
    ratings.keywords,
    ratings.movies,
    dense,
    (ratings.stars >= _LIKED).astype(np.int32),
    ratings.user_ids[ratings.users],
  )
  groups = splits.deal_users(map(str, ratings.user_ids), seed)
  of_user = {user: part for part, users in enumerate(groups) for user in users}
  group = np.array([of_user[str(user)] for user in ratings.user_ids])
  return labelled.LabelledData(
    name,
    CLASSES,
    *(examples.take(np.flatnonzero(group[ratings.users] == part)) for part in range(3)),
  )


def user_features(age: int, gender: int, occupation: int) -> list[float]:
  """Returns a user's 23 features: age and gender from 0 to 1, occupation one-hot."""
  return [age / _OLDEST, float(gender), *_indicators(NUM_OCCUPATIONS, [occupation])]


def movie_features(year: int, genres: Sequence[int]) -> list[float]:
  """Returns a movie's 19 features: the year from 0 to 1, and its genres."""
  share = (year - _FIRST_YEAR) / (_LAST_YEAR - _FIRST_YEAR)
  return [share, *_indicators(len(GENRES), genres)]


@dataclasses.dataclass(frozen=True)
class _Movie:
  movie_id: int
  title: str
  year: int
  features: list[float]


def _number(field: bytes | str) -> int:
  """Reads a number; raises `ValueError`, which quotes nothing, if it is none."""
  try:
    return int(field)
  except ValueError:
    raise ValueError('a field that should be a number is none') from None


def _indicators(size: int, ones: Sequence[int]) -> list[float]:
  return [float(number in ones) for number in range(size)]


def _parse_user(fields: Sequence[bytes]) -> tuple[int, list[float]]:
  if fields[1] not in (b'F', b'M'):
    raise ValueError('the gender is neither F nor M')
  occupation = _number(fields[3])
  if not 0 <= occupation < NUM_OCCUPATIONS:
    raise ValueError(f'the occupation is not from 0 to {NUM_OCCUPATIONS - 1}')
  age = _number(fields[2])
  if not 0 <= age <= _MAX_AGE:
    raise ValueError(f'the age is not from 0 to {_MAX_AGE}')
  return _number(fields[0]), user_features(age, fields[1] == b'F', occupation)


def _parse_movie(fields: Sequence[bytes]) -> _Movie:
  title, genres = fields[1].decode('latin-1'), fields[2].decode('latin-1').split('|')
  match = re.fullmatch(r'(.*?) ?\((\d{4})\)', title)
  if match is None:
    raise ValueError('no year after the title')
  unknown = set(genres).difference(GENRES)
  if unknown:
    raise ValueError(f'a genre is none of the {len(GENRES)}')
  year = int(match[2])
  features = movie_features(year, [GENRES.index(genre) for genre in genres])
  return _Movie(_number(fields[0]), match[1], year, features)


def _read_rows(
  file: pathlib.Path, num_fields: int, parse: Callable[[Sequence[bytes]], _T]
) -> list[_T]:
  """Reads a .dat file, whose fields are separated by `::`."""
  rows = []
  for number, line in _lines(file, _EXPECTED[file.name]):
    fields = line.split(b'::')
    try:
      if len(fields) != num_fields:
        raise ValueError(f'{len(fields)} fields')
      rows.append(parse(fields))
    except ValueError as error:
      raise clients.DataError.in_file(
        file, f'{error}; {_EXPECTED[file.name]}', line=number
      ) from None
  if not rows:
    raise clients.DataError.in_file(file, f'is empty; {_EXPECTED[file.name]}')
  return rows


def _lines(file: pathlib.Path, expected: str) -> Iterator[tuple[int, bytes]]:
  """Yields the lines of a file that are not blank, with their numbers."""
  with clients.reading(file, expected), open(file, 'rb') as stream:
    for number, line in enumerate(stream, start=1):
      if line.strip():
        yield number, line.rstrip(b'\r\n')


def _read_keywords(file: pathlib.Path, movies: Sequence[_Movie]) -> list[str]:
  """Reads the keywords of each movie, without stop words; empty for those not there."""
  found: dict[object, str] = {}
  header: list[str] = []
  by_id = False
  for number, line in _lines(file, _KEYWORDS_EXPECTED):
    fields = line.decode('utf-8', 'replace').split('\t')
    try:
      if not header:
        header = fields
        by_id = 'movieId' in header
        if 'keywords' not in header or not (by_id or {'title', 'year'} <= {*header}):
          raise ValueError('the first line does not name the columns')
        continue
      if len(fields) != len(header):
        raise ValueError(f'{len(fields)} columns under {len(header)} names')
      row = dict(zip(header, fields, strict=True))
      key = (
        _number(row['movieId'])
        if by_id
        else _title_key(row['title'], _number(row['year']))
      )
    except ValueError as error:
      raise clients.DataError.in_file(
        file, f'{error}; {_KEYWORDS_EXPECTED}', line=number
      ) from None
    found[key] = _keyword_text(row['keywords'])
  return [
    found.get(movie.movie_id if by_id else _title_key(movie.title, movie.year), '')
    for movie in movies
  ]


def _title_key(title: str, year: int) -> tuple[str, int]:
  """Makes titles comparable: `Matrix, The` is `The Matrix`, in any letter case."""
  match = re.fullmatch(r'(.*), (The|A|An|Les?|La|L\'|Il|El|Das|Der|Die)', title)
  whole = f'{match[2]} {match[1]}' if match else title
  return re.sub(r'\W+', '', whole.casefold()), year


def _keyword_text(keywords: str) -> str:
  """Leaves out stop words, and writes the other words with spaces between them."""
  words = rolling_hash.split_words(keywords.replace('|', ' '))
  return b' '.join(word for word in words if word not in stop_words.STOP_WORDS).decode()
