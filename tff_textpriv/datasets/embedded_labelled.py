"""Embedded twins of the labelled data sets: generated, with labels to be learnt.

Everything is a pure function of the seed. Text is in the artificial language of
`artificial_language`, in its private dialect.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from tff_textpriv.datasets import (
  artificial_language,
  imdb,
  labelled,
  movielens,
  partition,
)

_MIN_SENTENCES, _MAX_SENTENCES = 6, 16
# That a sentence of a review is on one of the topics of its own sentiment.
_TELLING = 0.75
# That a sentence is on any topic, and that it ends with a number.
_OFF_TOPIC = 0.2
_WITH_FIGURE = 0.3

_RATINGS_PER_USER = 40
_KEYWORDS_PER_MOVIE = 8
_NUM_KEYWORDS = 300
_AGES = (1, 18, 25, 35, 45, 50, 56)


def reviews(
  seed: int, num_train: int = 2_000, num_test: int = 1_000
) -> labelled.LabelledData:
  """Writes reviews: half of the topics are mostly those of content reviewers.

  Args:
    seed: Decides the language and all reviews.
    num_train: The number of reviews for training and validation.
    num_test: The number of reviews for the test.
  """
  language = artificial_language.make_language(seed)
  train, test = (
    _write_reviews(language, np.random.default_rng([seed, stream]), number)
    for stream, number in enumerate((num_train, num_test), start=1)
  )
  train, validation = labelled.hold_out(train, seed)
  return labelled.LabelledData('embedded', imdb.CLASSES, train, validation, test)


def ratings(
  seed: int,
  num_users: int = 250,
  num_movies: int = 150,
  *,
  has_keywords: bool = True,
) -> labelled.LabelledData:
  """Makes up people who rate movies, by keywords, by age and genre, and by mood.

  Args:
    seed: Decides everything.
    num_users: The number of people; four fifths of them train.
    num_movies: The number of movies.
    has_keywords: Whether the keywords are told.
  """
  rng = np.random.default_rng([seed, 1])
  stems = np.array(artificial_language.make_stems(rng, _NUM_KEYWORDS))
  appeal = rng.normal(size=_NUM_KEYWORDS)
  keywords = rng.integers(_NUM_KEYWORDS, size=(num_movies, _KEYWORDS_PER_MOVIE))
  num_genres = len(movielens.GENRES)
  genres = rng.random((num_movies, num_genres)) < 1.5 / num_genres
  years = rng.integers(1930, 2001, num_movies)
  ages = rng.choice(_AGES, num_users)
  genders = rng.integers(2, size=num_users)
  occupations = rng.integers(movielens.NUM_OCCUPATIONS, size=num_users)
  users = np.repeat(np.arange(num_users), _RATINGS_PER_USER)
  movies = rng.integers(num_movies, size=len(users))
  quality = appeal[keywords].sum(axis=1) / np.sqrt(_KEYWORDS_PER_MOVIE)
  # The older, the more of the later genres of the list.
  taste = np.outer(ages / max(_AGES) - 0.5, np.linspace(-2, 2, num_genres))
  liking = quality[movies] + (taste[users] * genres[movies]).sum(axis=1)
  stars = np.clip(np.rint(3.6 + 0.8 * liking + rng.normal(size=len(users))), 1, 5)
  return movielens.split(
    'embedded',
    movielens.Ratings(
      np.array(
        [
          movielens.user_features(*person)
          for person in zip(ages, genders, occupations, strict=True)
        ],
        np.float32,
      ),
      np.array(
        [
          movielens.movie_features(year, list(np.flatnonzero(row)))
          for year, row in zip(years, genres, strict=True)
        ],
        np.float32,
      ),
      [' '.join(row) if has_keywords else '' for row in stems[keywords]],
      np.arange(len(ages)),
      users,
      movies,
      stars,
    ),
    seed,
  )


def topics(
  seed: int,
  classes: Sequence[str],
  sentences: tuple[int, int],
  num_train: int = 2_000,
  num_test: int = 1_000,
) -> labelled.LabelledData:
  """Writes texts whose class decides what they are about: a pair of topics a class.

  Some sentences end with a number, as news and messages do.

  Args:
    seed: Decides the language and all texts.
    classes: The names of the classes; up to 28 of them.
    sentences: The least and the largest number of sentences in a text.
    num_train: The number of texts for training and validation.
    num_test: The number of texts for the test.
  """
  language = artificial_language.make_language(seed)
  pairs = list(itertools.combinations(range(artificial_language.NUM_TOPICS), 2))
  # Classes that are next to each other have topics in common: they are hard to tell.
  pair_of = np.array(pairs)[np.linspace(0, len(pairs) - 1, len(classes)).astype(int)]
  groups = []
  for stream, number in enumerate((num_train, num_test), start=1):
    rng = np.random.default_rng([seed, stream])
    labels = np.arange(number) % len(classes)
    lengths = rng.integers(sentences[0], sentences[1] + 1, number)
    of_sentence = np.repeat(labels, lengths)
    topic = pair_of[of_sentence, rng.integers(2, size=len(of_sentence))]
    is_off_topic = rng.random(len(topic)) < _OFF_TOPIC
    topic[is_off_topic] = rng.integers(
      artificial_language.NUM_TOPICS, size=is_off_topic.sum()
    )
    written = artificial_language.write_sentences(
      language, language.private, rng, topic
    )
    figures = rng.integers(1, 10_000, len(written))
    has_figure = rng.random(len(written)) < _WITH_FIGURE
    written = [
      f'{text} {figure}' if has else text
      for text, figure, has in zip(written, figures, has_figure, strict=True)
    ]
    groups.append(labelled.Examples.of_texts(_joined(written, lengths), labels))
  train, validation = labelled.hold_out(groups[0], seed)
  return labelled.LabelledData('embedded', tuple(classes), train, validation, groups[1])


def with_users(
  data: labelled.LabelledData, seed: int, num_users: int = 80, alpha: float = 1.0
) -> labelled.LabelledData:
  """Makes up who wrote the training examples: users with class shares of their own.

  Args:
    data: The data.
    seed: Decides who wrote what.
    num_users: The number of users.
    alpha: How alike they are; see `partition.dirichlet`.
  """
  users = np.empty(len(data.train), np.int64)
  dealt = partition.dirichlet(
    data.train.keys(), data.train.labels, num_users, alpha, seed
  )
  for number, rows in enumerate(dealt.values()):
    users[rows] = number
  return dataclasses.replace(data, train=dataclasses.replace(data.train, users=users))


def _write_reviews(
  language: artificial_language.Language, rng: np.random.Generator, number: int
) -> labelled.Examples:
  """Writes reviews of both sentiments in turn."""
  labels = np.arange(number) % 2
  lengths = rng.integers(_MIN_SENTENCES, _MAX_SENTENCES + 1, number)
  sentiment = np.repeat(labels, lengths)
  is_telling = rng.random(len(sentiment)) < _TELLING
  half = artificial_language.NUM_TOPICS // 2
  side = np.where(is_telling, sentiment, 1 - sentiment)
  topics = side * half + rng.integers(half, size=len(sentiment))
  sentences = artificial_language.write_sentences(
    language, language.private, rng, topics
  )
  return labelled.Examples.of_texts(_joined(sentences, lengths), labels)


def _joined(sentences: Sequence[str], lengths: np.ndarray) -> list[str]:
  """Makes texts of so many sentences each."""
  ends = np.cumsum(lengths)
  return [
    '. '.join(sentences[end - length : end])
    for end, length in zip(ends, lengths, strict=True)
  ]
