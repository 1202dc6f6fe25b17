"""What a labelled data set is: texts and side features with a class each."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.datasets import clients, splits

_VALIDATION_SHARE = 0.1


@dataclasses.dataclass(frozen=True, repr=False)
class Examples:
  """Labelled examples. Several may have one text: all ratings of a movie do.

  Attributes:
    texts: The texts, raw.
    text_of: The number of each example's text, int [examples].
    dense: Side features of each example, float32 [examples, width].
    labels: Classes from 0, int32 [examples].
    users: Who wrote each example, as numbers [examples], where that is known.
  """

  texts: Sequence[str]
  text_of: np.ndarray
  dense: np.ndarray
  labels: np.ndarray
  users: np.ndarray | None = None

  @classmethod
  def of_texts(
    cls, texts: Sequence[str], labels: Sequence[int] | np.ndarray
  ) -> 'Examples':
    """Makes examples that are a text each and nothing else."""
    return cls(
      texts,
      np.arange(len(texts)),
      np.zeros((len(texts), 0), np.float32),
      np.asarray(labels, np.int32),
    )

  def __len__(self) -> int:
    return len(self.labels)

  def __repr__(self) -> str:
    return f'Examples({len(self)} of {len(self.texts)} texts)'

  def keys(self) -> list[str]:
    """Returns what tells each example from others, whatever else there is."""
    texts = [self.texts[number] for number in self.text_of]
    if self.users is not None:
      texts = [f'{user} {text}' for user, text in zip(self.users, texts, strict=True)]
    return splits.numbered(texts)

  def owners(self) -> list[str]:
    """Returns whose each example is: its user, or where that is not known, itself."""
    return self.keys() if self.users is None else [str(user) for user in self.users]

  def take(self, rows: np.ndarray) -> 'Examples':
    """Returns some examples; their texts are shared, not copied."""
    return dataclasses.replace(
      self,
      text_of=self.text_of[rows],
      dense=self.dense[rows],
      labels=self.labels[rows],
      users=None if self.users is None else self.users[rows],
    )


@dataclasses.dataclass(frozen=True)
class LabelledData:
  """A labelled data set.

  Attributes:
    name: What to call the data set in reports.
    classes: The names of the classes.
    train: What is dealt to clients.
    validation: What choices are made on.
    test: What the final result is measured on.
    summary: Lines on what is in it, where they were asked for.
  """

  name: str
  classes: tuple[str, ...]
  train: Examples
  validation: Examples
  test: Examples
  summary: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)

  def __post_init__(self) -> None:
    for group in ('train', 'validation', 'test'):
      labels = getattr(self, group).labels
      if not len(labels):
        raise clients.DataError(f'data set {self.name}: no {group} examples')
      if labels.min() < 0 or labels.max() >= len(self.classes):
        raise clients.DataError(
          f'data set {self.name}: a {group} label is none of the '
          f'{len(self.classes)} classes'
        )


def hold_out(examples: Examples, seed: int) -> tuple[Examples, Examples]:
  """Splits off about a tenth of the examples, at random, for validation.

  Whether an example is held out is a matter of that example, or of its user, alone.

  Returns:
    The examples to train on, and those for validation, of which there is at least one.
  """
  places = randomness.Stream.of_seed(seed).shares('validation', examples.owners())
  held_out = places < max(_VALIDATION_SHARE, np.nextafter(places.min(), 1))
  return examples.take(np.flatnonzero(~held_out)), examples.take(
    np.flatnonzero(held_out)
  )
