"""Attacks on the messages of one algorithm's clients, with scores."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.attacks import attackers as attackers_lib
from tff_textpriv.attacks import (
  federation,
  gradient_inversion,
  observations,
  rounds,
  scores,
)


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What one attack made of one message.

  Attributes:
    attack: `rows`, `span`, `dlg`, `decipher`, `guess` or `prior`; `dlg+span` is `dlg` that
      looks for tokens among those that `span` found, `dlg+prior` one that moves them; for `decipher, given vectors` see
      `attackers.Attackers.decipher`.
    table: Which table the attacker had: `true`, `public`, `unrelated`, or `NO_TABLE`.
    texts: The tokens of the sentences behind the message.
    found: Those of the reconstruction; of `dlg`, in the order of the dummies.
    score: How alike they are.
    filled_recall: The recall with frequent words in the place of what was not found.
  """

  attack: str
  table: str
  texts: tuple[tuple[str, ...], ...]
  found: tuple[str, ...]
  score: scores.Score
  filled_recall: float


@dataclasses.dataclass(frozen=True)
class Campaign:
  """Attacks on the clients of one algorithm.

  Attributes:
    client: How clients answer.
    weights: The clients' model before the first round: table, then the rest.
    vocabulary: The tokens of the table's rows; the last row is that of all others.
    sentences: What is attacked.
    client_sentences: How many of them each client has.
    rounds_before: Rounds in which these clients have trained on them together before.
    attackers: Who attacks.
    is_private: Tells private tokens.
    seed: Decides all random numbers.
  """

  client: observations.Client
  weights: Sequence[np.ndarray]
  vocabulary: Sequence[str]
  sentences: Sequence[rounds.Sentence]
  client_sentences: int
  rounds_before: int
  attackers: attackers_lib.Attackers
  is_private: Callable[[str], bool]
  seed: int

  def run(self, message: str, size: int) -> Iterator[list[Outcome]]:
    """Attacks all sentences, so many at a time, and yields what came of each message.

    Those that are left over are not attacked. What is made of all messages together
    comes last.

    Args:
      message: What clients send, one of `rounds.MESSAGES`.
      size: Sentences behind a message; of a round those that a client has.
    """
    trained, texts_of, vectors = self._federation, [], []
    for start in range(0, len(self.sentences) - size + 1, size):
      rng = randomness.generator(self.seed, 'attack', message, size, start)
      texts = self.sentences[start : start + size]
      data = (
        self._dealer.one_step(texts, rng)
        if message == rounds.BATCH
        else self._round(texts, rng)
      )
      device = trained.devices[start // self.client_sentences]
      observed = self.client.observe(trained.weights, data, _seed(rng), device)
      inputs, _ = self._dealer.batch(texts, rng)
      ids = inputs['ids']
      mask = ids < len(self.vocabulary)
      recovered = self.attackers.recover(observed, trained.weights, mask, rng)
      yield [
        self._outcome(attack, table, texts, rows)
        for attack, table, rows in self.attackers.attack(
          observed, trained.weights, mask, recovered, rng
        )
      ]
      if self.attackers.sees_embeddings(observed):
        texts_of.append(texts)
        vectors.append(_recovered(ids, mask, observed.table, recovered))
    if 'decipher' in self.attackers.attacks and vectors:
      yield [
        self._outcome(attack, table, texts, rows)
        for attack, table, found in self.attackers.decipher(vectors)
        for texts, rows in zip(texts_of, found, strict=True)
      ]

  def _outcome(
    self, attack: str, table: str, texts: Sequence[rounds.Sentence], rows: np.ndarray
  ) -> Outcome:
    """Scores what an attack has found."""
    truth = tuple(text.tokens for text in texts)
    tokens = [token for text in truth for token in text]
    found = tuple(self.vocabulary[row] for row in rows)
    frequent = self.attackers.text.most_frequent(len(tokens))
    return Outcome(
      attack,
      table,
      truth,
      found,
      scores.score(tokens, found, self.is_private),
      scores.filled_recall(tokens, found, [self.vocabulary[row] for row in frequent]),
    )

  @functools.cached_property
  def _federation(self) -> federation.Federation:
    """The clients after the rounds before, each with its own sentences."""
    clients = [
      self.sentences[start : start + self.client_sentences]
      for start in range(0, len(self.sentences), self.client_sentences)
    ]
    trained = federation.Federation(self.client, self.weights, len(clients))
    for number in range(self.rounds_before):
      rng = randomness.generator(self.seed, 'attack', 'before', number)
      trained.train(
        [self._round(texts, rng) for texts in clients], [_seed(rng) for _ in clients]
      )
    return trained

  @functools.cached_property
  def _dealer(self) -> rounds.Dealer:
    longest = max(len(sentence.tokens) for sentence in self.sentences)
    return rounds.Dealer(self.vocabulary, longest)

  def _round(
    self, texts: Sequence[rounds.Sentence], rng: np.random.Generator
  ) -> rounds.RoundData:
    """Deals texts as in training."""
    settings = self.client.settings
    return self._dealer.round(
      texts, settings.client_batch_size, settings.local_epochs, rng
    )


def _recovered(
  ids: np.ndarray,
  mask: np.ndarray,
  table: np.ndarray,
  recovered: gradient_inversion.Inversion | None,
) -> attackers_lib.Recovered:
  """Returns the vectors of the texts' tokens, without padding."""
  lengths = mask.sum(axis=1)
  return attackers_lib.Recovered(
    [table[row[:length]] for row, length in zip(ids, lengths, strict=True)],
    None
    if recovered is None
    else [
      text[:length] for text, length in zip(recovered.embeddings, lengths, strict=True)
    ],
  )


def _seed(rng: np.random.Generator) -> np.ndarray:
  limits = np.iinfo(np.int64)
  return rng.integers(limits.min, limits.max, 2, np.int64)
