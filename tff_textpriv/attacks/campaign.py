"""All attacks on what one algorithm's clients send, sentence by sentence, with scores."""

import collections
import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.attacks import (
  embedding_rows,
  gradient_inversion,
  kernel_span,
  observations,
  scores,
  targets,
)
from tff_textpriv.attacks.inversion_settings import InversionSettings
from tff_textpriv.datasets import labelled_batching

# An attack that needs no table of the attacker's own.
NO_TABLE = '-'


@dataclasses.dataclass(frozen=True)
class Sentence:
  """A private text: its tokens, and its class."""

  tokens: tuple[str, ...]
  label: int


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What one attack made of one batch.

  Attributes:
    attack: `rows`, `span`, `dlg`, `guess` or `prior`; `dlg+span` is `dlg` that looks for tokens
      among those that `span` found.
    table: Which table the attacker had: `true`, `public`, `unrelated`, or `NO_TABLE`.
    texts: The tokens of the batch's sentences.
    found: Those of the reconstruction; of `dlg`, in the order of the dummies.
    score: How alike they are.
  """

  attack: str
  table: str
  texts: tuple[tuple[str, ...], ...]
  found: tuple[str, ...]
  score: scores.Score


@dataclasses.dataclass(frozen=True)
class Campaign:
  """Attacks on the clients of one algorithm.

  Attributes:
    client: How clients answer.
    weights: The clients' model: table, then the rest.
    vocabulary: The tokens of the table's rows; the last row is that of all others.
    public: The model that everybody knows: the vectors that tables started from, then
      the rest.
    is_private: Tells private tokens.
    attacks: Which attacks to make: some of `rows`, `span`, `dlg`, `guess`, `prior`.
    inversion: How `dlg` goes about it.
    seed: Decides all random numbers.
  """

  client: observations.Client
  weights: Sequence[np.ndarray]
  vocabulary: Sequence[str]
  public: Sequence[np.ndarray]
  is_private: Callable[[str], bool]
  attacks: Sequence[str]
  inversion: InversionSettings
  seed: int

  def run(
    self, sentences: Sequence[Sentence], batch_size: int
  ) -> Iterator[list[Outcome]]:
    """Attacks sentences, so many at a time, and yields what came of each batch.

    A last batch that is not full is left.
    """
    length = max(len(sentence.tokens) for sentence in sentences)
    inverter = gradient_inversion.Inverter(self.client.model, self.inversion)
    for start in range(0, len(sentences) - batch_size + 1, batch_size):
      batch = sentences[start : start + batch_size]
      ids = self._ids(batch, length)
      rng = randomness.generator(self.seed, 'attack', batch_size, start)
      observed = self._observe(batch, ids, rng)
      mask = ids < len(self.vocabulary)
      texts = tuple(sentence.tokens for sentence in batch)
      text = [token for tokens in texts for token in tokens]
      outcomes = []
      for attack, table, rows in self._found(observed, mask, inverter, rng):
        found = tuple(self.vocabulary[row] for row in rows)
        score = scores.score(text, found, self.is_private)
        outcomes.append(Outcome(attack, table, texts, found, score))
      yield outcomes

  def after(
    self, sentences: Sequence[Sentence], batch_size: int, rounds: int
  ) -> 'Campaign':
    """Returns the campaign against a client that has trained on sentences before."""
    length = max(len(sentence.tokens) for sentence in sentences)
    rng = randomness.generator(self.seed, 'attack', 'before')
    batches = [
      self._batch(batch, self._ids(batch, length), rng)
      for batch in (
        sentences[start : start + batch_size]
        for start in range(0, len(sentences), batch_size)
      )
    ]
    weights = self.client.age(self.weights, batches, rounds)
    return dataclasses.replace(self, weights=weights)

  def _observe(
    self, batch: Sequence[Sentence], ids: np.ndarray, rng: np.random.Generator
  ) -> observations.Observation:
    """Has a client train on a batch, and looks."""
    limits = np.iinfo(np.int64)
    seed = rng.integers(limits.min, limits.max, 2, np.int64)
    return self.client.observe(self.weights, [self._batch(batch, ids, rng)], seed)

  def _batch(
    self, sentences: Sequence[Sentence], ids: np.ndarray, rng: np.random.Generator
  ) -> labelled_batching.Batch:
    """Makes the batch that local training reads."""
    inputs = collections.OrderedDict(
      dense=np.zeros((len(sentences), 0), np.float32),
      dropout_seed=rng.integers(0, np.iinfo(np.int32).max, 2, np.int32),
      ids=ids,
      num_examples=np.array(len(sentences), np.int32),
    )
    labels = np.array([sentence.label for sentence in sentences], np.int32)
    return inputs, labels

  def _found(
    self,
    observed: observations.Observation,
    mask: np.ndarray,
    inverter: gradient_inversion.Inverter,
    rng: np.random.Generator,
  ) -> Iterator[tuple[str, str, np.ndarray]]:
    """Makes the attacks: yields name, table, and rows of the vocabulary."""
    num_tokens = int(np.count_nonzero(mask))
    public_table = self.public[0]
    tables = {
      'true': observed.table,
      'public': public_table,
      # The same vectors, under other names.
      'unrelated': rng.permutation(public_table),
    }
    if 'guess' in self.attacks:
      yield 'guess', NO_TABLE, rng.integers(len(self.vocabulary), size=num_tokens)
    if 'prior' in self.attacks:
      # Rows are in the order of how frequent words are; the last one is that of all others.
      yield 'prior', NO_TABLE, np.arange(min(num_tokens, len(self.vocabulary) - 1))
    if 'rows' in self.attacks and observed.table_gradient is not None:
      rows = embedding_rows.read_tokens(observed.table_gradient, num_tokens, rng)
      yield 'rows', NO_TABLE, rows
    gradients = observed.shared_gradients
    span = gradient_inversion.find_span(self.client.model, gradients, num_tokens)
    if 'span' in self.attacks and span is not None:
      for name, table in tables.items():
        yield 'span', name, self._spanned(span, table, mask)
    if 'dlg' in self.attacks and any(one is not None for one in gradients):
      fitted = inverter.invert(
        self.weights[1:], gradients, mask, float(np.std(public_table)), rng
      )
      embeddings = fitted.embeddings[mask]
      for name, table in tables.items():
        yield 'dlg', name, gradient_inversion.nearest_rows(embeddings, table)
        if span is not None and not span.is_everything:
          candidates = np.unique(self._spanned(span, table, mask))
          rows = gradient_inversion.nearest_rows(embeddings, table, candidates)
          yield 'dlg+span', name, rows

  def _spanned(
    self, span: kernel_span.Span, table: np.ndarray, mask: np.ndarray
  ) -> np.ndarray:
    """Returns the rows of a table that are in a span."""
    model = self.client.model
    if not targets.reads_places(model):
      return kernel_span.read_tokens(span, table)
    return kernel_span.read_places(
      span,
      lambda place: targets.entered(model, self.public[1:], table, place),
      np.count_nonzero(mask, axis=0),
    )

  def _ids(self, batch: Sequence[Sentence], length: int) -> np.ndarray:
    """Encodes a batch [batch, length]; padding is an id beyond the table."""
    row_of = {token: row for row, token in enumerate(self.vocabulary)}
    unknown = len(self.vocabulary) - 1
    ids = np.full((len(batch), length), len(self.vocabulary), np.int32)
    for row, sentence in zip(ids, batch, strict=True):
      row[: len(sentence.tokens)] = [
        row_of.get(token, unknown) for token in sentence.tokens
      ]
    return ids
