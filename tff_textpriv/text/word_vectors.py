"""Files of word vectors in text format: a word and its numbers in each line."""

import pathlib
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

import numpy as np


class VectorsError(ValueError):
  """Word vectors that cannot be read or made; the message says why."""


def read(path: str | pathlib.Path) -> Iterator[tuple[str, np.ndarray]]:
  """Reads the words of a file in their order, each with its vector, float32.

  A first line of two numbers (count and width), as word2vec and fastText write it, is
  passed over.

  Args:
    path: The file, in UTF-8.

  Raises:
    VectorsError: If it cannot be read, or there is no vector in it; names the line.
  """
  width, number = 0, 0
  try:
    with open(path, encoding='utf-8') as file:
      for number, line in enumerate(file, start=1):
        word, *numbers = line.rstrip().split(' ')
        if number == 1 and len(numbers) == 1:
          continue
        width = width or len(numbers)
        with np.errstate(over='ignore'):  # It is infinite then, and refused.
          vector = _numbers(numbers)
        if not numbers or len(numbers) != width:
          raise ValueError(f'{len(numbers)} numbers where there were {width} before')
        if not np.isfinite(vector).all():
          raise ValueError('a number that is not finite')
        yield word, vector
  except OSError as error:
    raise VectorsError(
      f'{path}: cannot be read ({error.strerror}); expected a text file of word vectors'
    ) from error
  except ValueError as error:
    raise VectorsError(
      f'{path}:{number}: {error}; expected a word and its {width or ""} numbers, '
      'separated by single spaces, in UTF-8'
    ) from None
  if not width:
    raise VectorsError(f'{path}: there is no vector in it')


def _numbers(texts: Sequence[str]) -> np.ndarray:
  """Reads numbers; raises `ValueError`, which quotes nothing, if one is none."""
  try:
    return np.array(texts, np.float32)
  except ValueError:
    raise ValueError('a number that cannot be read') from None


class SomeVectors(NamedTuple):
  """The vectors of some words of a file.

  Attributes:
    of_word: The vectors by word, in the order of the file, float32 [width].
    mean: The mean of the vectors of all words of the file, float32 [width].
  """

  of_word: dict[str, np.ndarray]
  mean: np.ndarray


def read_some(
  path: str | pathlib.Path, needed: Container[str], first: int = 0
) -> SomeVectors:
  """Reads the vectors of some words, and those of the first words of the file.

  Args:
    path: The file; its words are in the order of their frequency, as a rule.
    needed: Words that are kept wherever they are.
    first: How many words at the beginning are kept anyway.
  """
  of_word: dict[str, np.ndarray] = {}
  total, number = np.zeros((), np.float64), 0
  for place, (word, vector) in enumerate(read(path)):
    total, number = total + vector, place + 1
    if place < first or word in needed:
      of_word[word] = vector
  return SomeVectors(of_word, (total / number).astype(np.float32))


def fill(
  table: np.ndarray, words: list[str], vectors: dict[str, np.ndarray]
) -> np.ndarray:
  """Puts vectors into the rows of an embedding table.

  Rows of words without a vector are scaled to the vectors' mean length.

  Args:
    table: The table as drawn, float32 [words or more, width].
    words: The words of its first rows.
    vectors: The vectors by word, of the table's width.
  """
  size = np.mean([np.linalg.norm(vector) for vector in vectors.values()])
  filled = table * (size / np.linalg.norm(table, axis=1, keepdims=True))
  for row, word in enumerate(words):
    if word in vectors:
      filled[row] = vectors[word]
  return filled.astype(np.float32)
