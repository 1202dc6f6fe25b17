"""All attacks on what one client has sent."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.attacks import (
  decipher,
  discrete_moves,
  embedding_rows,
  gradient_inversion,
  kernel_span,
  observations,
  public_text,
  targets,
)
from tff_textpriv.attacks.inversion_settings import InversionSettings

# An attack that needs no table of the attacker's own.
NO_TABLE = '-'

# How many of the nearest tokens are tried in the place of one.
_REPLACEMENTS = 10

# An attack's name, the attacker's table, and what it found: rows of the vocabulary.
Found = tuple[str, str, np.ndarray]


class Recovered(NamedTuple):
  """The vectors behind a message: of each text those of its tokens, [tokens, width].

  Attributes:
    read: Those of the device's table.
    recovered: What was recovered of them, if anything was.
  """

  read: Sequence[np.ndarray]
  recovered: Sequence[np.ndarray] | None


@dataclasses.dataclass(frozen=True, repr=False)
class Attackers:
  """Who attacks, and what they know.

  Attributes:
    model: The clients' classifier.
    table: The vectors that tables started from, as everybody knows them [rows, width].
    text: Public text.
    attacks: Which attacks to make: some of `rows`, `span`, `dlg`, `decipher`, `guess`,
      `prior`.
    inversion: How `dlg` goes about it.
    seed: Decides which names `unrelated` vectors have.
    known: Vectors whose angles `decipher` compares with the users' [rows, any width]; the
      public ones by default.
  """

  model: targets.Target
  table: np.ndarray
  text: public_text.PublicText
  attacks: Sequence[str]
  inversion: InversionSettings
  seed: int
  known: np.ndarray | None = None

  def sees_embeddings(self, observed: observations.Observation) -> bool:
    """Tells whether a gradient is seen that embeddings have entered."""
    kernels = targets.first_kernels(self.model)
    return any(observed.shared_gradients[number] is not None for number in kernels)

  def recover(
    self,
    observed: observations.Observation,
    weights: Sequence[np.ndarray],
    mask: np.ndarray,
    rng: np.random.Generator,
  ) -> gradient_inversion.Inversion | None:
    """Inverts the gradients of a message, if that is asked for and there are any.

    Args:
      observed: What is seen of it.
      weights: The model that the server had handed out.
      mask: Where the client's texts have tokens, booleans [texts, time].
      rng: Draws the dummies.
    """
    gradients = observed.shared_gradients
    if 'dlg' not in self.attacks or gradients[-1] is None:
      return None
    scale = float(np.std(self.table))
    return self._inverter.invert(weights[1:], gradients, mask, scale, rng)

  def attack(
    self,
    observed: observations.Observation,
    weights: Sequence[np.ndarray],
    mask: np.ndarray,
    recovered: gradient_inversion.Inversion | None,
    rng: np.random.Generator,
  ) -> Iterator[Found]:
    """Makes the attacks on one message by itself.

    Args:
      observed: What is seen of it.
      weights: The model that the server had handed out.
      mask: Where the client's texts have tokens, booleans [texts, time].
      recovered: What `recover` has found.
      rng: Decides random numbers.
    """
    num_tokens = int(np.count_nonzero(mask))
    num_rows = len(self.table)
    if 'guess' in self.attacks:
      yield 'guess', NO_TABLE, rng.integers(num_rows, size=num_tokens)
    if 'prior' in self.attacks:
      yield 'prior', NO_TABLE, self.text.most_frequent(num_tokens)
    if 'rows' in self.attacks and observed.table_gradient is not None:
      rows = embedding_rows.read_tokens(observed.table_gradient, num_tokens, rng)
      yield 'rows', NO_TABLE, rows
    gradients = observed.shared_gradients
    span = gradient_inversion.find_span(self.model, gradients, num_tokens)
    own = self._reader(observed.table)
    readers = {'true': own, 'public': self._public, 'unrelated': self._unrelated}
    if 'span' in self.attacks and span is not None:
      for name, reader in readers.items():
        yield 'span', name, reader.read(span, weights, mask)
    if 'dlg' in self.attacks and recovered is not None:
      embeddings = recovered.embeddings[mask]
      for name, reader in readers.items():
        yield 'dlg', name, gradient_inversion.nearest_rows(embeddings, reader.table)
        candidates = None
        if span is not None and not span.is_everything:
          candidates = np.unique(reader.read(span, weights, mask))
          rows = gradient_inversion.nearest_rows(embeddings, reader.table, candidates)
          yield 'dlg+span', name, rows
        if self.inversion.language_prior:
          misfit = self._inverter.misfit(weights[1:], gradients, mask, recovered.labels)
          rows = self._moved(recovered, reader.table, candidates, mask, misfit, rng)
          yield 'dlg+prior', name, rows

  def _moved(
    self,
    recovered: gradient_inversion.Inversion,
    table: np.ndarray,
    candidates: np.ndarray | None,
    mask: np.ndarray,
    misfit: Callable[[np.ndarray], float],
    rng: np.random.Generator,
  ) -> np.ndarray:
    """Reads what was recovered with a table, and improves it by discrete moves."""
    lengths = mask.sum(axis=1)
    start = gradient_inversion.nearest_rows(recovered.embeddings, table, candidates)

    def of_texts(texts: discrete_moves.Texts) -> float:
      embedded = np.zeros_like(recovered.embeddings)
      for row, text in zip(embedded, texts, strict=True):
        row[: len(text)] = table[text]
      return misfit(embedded)

    def at_place(text: int, place: int) -> np.ndarray:
      vector = recovered.embeddings[text, place]
      rows = np.arange(len(table)) if candidates is None else candidates
      distances = np.square(table[rows] - vector).sum(axis=1)
      return rows[np.argsort(distances)[:_REPLACEMENTS]]

    moved = discrete_moves.improve(
      [row[:length] for row, length in zip(start, lengths, strict=True)],
      of_texts,
      self.text,
      at_place,
      weight=self.inversion.language_prior,
      moves=self.inversion.prior_moves,
      rng=rng,
    )
    return np.concatenate(moved)

  def decipher(
    self, messages: Sequence[Recovered]
  ) -> Iterator[tuple[str, str, list[np.ndarray]]]:
    """Takes all messages for one user's, in a cipher of vectors, and reads them.

    Yields:
      The attack's name and the table that vectors were compared with, `NO_TABLE` for
      none; what was found of each message. `decipher` has the vectors that were recovered,
      `decipher, given vectors` those that the device has read: it shows what better
      recovery could lead to.
    """
    kinds = {'decipher, given vectors': [each.read for each in messages]}
    recovered = [each.recovered for each in messages if each.recovered is not None]
    if len(recovered) == len(messages):
      kinds['decipher'] = recovered
    known = self.table if self.known is None else self.known
    for attack, vectors in kinds.items():
      cipher = decipher.link([text for message in vectors for text in message])
      ends = np.cumsum([len(message) for message in vectors])
      grouped = [
        np.concatenate(cipher.texts[end - len(message) : end])
        for end, message in zip(ends, vectors, strict=True)
      ]
      for table, aligned in ((NO_TABLE, None), ('public', known)):
        names = decipher.solve(cipher, self.text, aligned)
        yield (
          attack,
          table,
          [decipher.read(symbols, names, self.text) for symbols in grouped],
        )

  def _reader(self, table: np.ndarray) -> '_Reader':
    return _Reader(self.model, table)

  @functools.cached_property
  def _public(self) -> '_Reader':
    return self._reader(self.table)

  @functools.cached_property
  def _unrelated(self) -> '_Reader':
    """The same vectors, under other names."""
    rng = randomness.generator(self.seed, 'unrelated')
    return self._reader(rng.permutation(self.table))

  @functools.cached_property
  def _inverter(self) -> gradient_inversion.Inverter:
    return gradient_inversion.Inverter(self.model, self.inversion)


@dataclasses.dataclass(frozen=True, repr=False)
class _Reader:
  """Reads spans with a table of the attacker's."""

  model: targets.Target
  table: np.ndarray

  def read(
    self,
    span: kernel_span.Span,
    weights: Sequence[np.ndarray],
    mask: np.ndarray,
  ) -> np.ndarray:
    """Returns the rows of the table that are in a span."""
    if not targets.reads_places(self.model):
      return kernel_span.read_tokens(span, self.table)
    counts = np.count_nonzero(mask, axis=0)
    return kernel_span.read_places(span, self._placed, weights[1:4], counts)

  @functools.cached_property
  def _placed(self) -> kernel_span.PlacedTable:
    return kernel_span.PlacedTable(self.table)
