"""Rounds of a chosen size for benchmarks/scale.py.

Importing this module imports TFF.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks import wire
from benchmarks.contenders import ours
from tff_textpriv import randomness
from tff_textpriv.datasets import batching, encoded, stackoverflow
from tff_textpriv.iterative_processes import stacked_batches
from tff_textpriv.models import recurrent_lm
from tff_textpriv.runtime import cohorts
from tff_textpriv.text import words

# Vocabulary, embedding, LSTM, layers.
Sizes = tuple[int, int, int, int]
Cohort = list[list[batching.Batch]]

_WORDS, _BATCH_SIZE = 20, 16
_USER_SENTENCES = 8


class Rounds:
  """Rounds of private federated averaging with one model and cohort size."""

  def __init__(
    self,
    part: str,
    sizes: Sizes,
    num_clients: int,
    make_cohort: Callable[[int], Cohort],
    population: int,
  ):
    """Builds the process.

    Args:
      part: What the rounds are measured for.
      sizes: The model's.
      num_clients: Clients in a round.
      make_cohort: Makes the batches of a round's clients.
      population: The users that they are drawn from.
    """
    model = _model(sizes)
    self._facts = {'part': part, 'clients': num_clients, 'population': population}
    self._facts['parameters'] = model.num_parameters
    self._process = ours.build_process(
      model, model.initial_weights(0), ours.gaussian(num_clients)
    )
    self._next_round = stacked_batches.NextRound(self._process)
    self._state = self._process.initialize()
    self._last: Cohort = []
    self.make_cohort = make_cohort

  def run(self, round_number: int) -> None:
    """Makes a cohort and trains on it."""
    self.train(self.make_cohort(round_number))

  def train(self, cohort: Cohort) -> None:
    """Trains one round."""
    self._state = self._next_round(self._state, cohort).state
    self._last = cohort

  def facts(self, num_workers: int) -> dict[str, Any]:
    """Describes the last round: its sizes and what it sent."""
    targets = [b[1] for client in self._last for b in client]
    sent = wire.round_bytes(self._process, num_workers)
    return {
      **self._facts,
      'steps': len(targets),
      'tokens': int(sum((t != 0).sum() for t in targets)),
      'bytes_of_data': wire.data_bytes(self._last),
      **{f'bytes_{name}': value for name, value in dataclasses.asdict(sent).items()},
    }


def num_parameters(sizes: Sizes) -> int:
  """Returns the number of trained numbers of a model."""
  return _model(sizes).num_parameters


def synthetic(
  part: str, sizes: Sizes, num_clients: int, num_sentences: int = 32
) -> Rounds:
  """Makes rounds of clients with so many sentences of 20 words."""

  def make_cohort(round_number: int) -> Cohort:
    rng = randomness.generator(0, 'scale', round_number)
    shape = num_clients, num_sentences, _WORDS + 1
    return [
      _batches(list(sentences), rng)
      for sentences in rng.integers(4, sizes[0], shape, np.int32)
    ]

  return Rounds(part, sizes, num_clients, make_cohort, num_clients)


def from_population(
  sizes: Sizes, num_users: int, num_clients: int, folder: pathlib.Path
) -> Rounds:
  """Makes rounds of small clients out of a file of many users.

  Args:
    sizes: The model's.
    num_users: Training users of the file; it is written if it is not there.
    num_clients: Clients in a round.
    folder: Where the file and the cache of encoded text are.

  Returns:
    The rounds; cohorts are drawn, read, encoded and cached as in training.
  """
  path = folder / f'users_{num_users}.sqlite'
  if not path.exists():
    folder.mkdir(parents=True, exist_ok=True)
    stackoverflow.write(str(path), _users(num_users, sizes[0]))
  data = stackoverflow.load(str(path)).train
  texts = encoded.EncodedClients(
    data, words.WordTokenizer(_vocabulary(sizes[0])), cache_dir=folder
  )
  sampler = cohorts.CohortSampler(
    data.client_ids, num_clients, 'fixed', randomness.Stream.of_seed(0)
  )

  def make_cohort(round_number: int) -> Cohort:
    return [
      _batches(
        texts.posts(user), randomness.generator(0, 'batches', round_number, user)
      )
      for user in sampler.cohort(round_number)
    ]

  return Rounds('population', sizes, num_clients, make_cohort, num_users)


def _model(sizes: Sizes) -> recurrent_lm.LstmLanguageModel:
  return recurrent_lm.LstmLanguageModel(*sizes, tied=False)


def _batches(posts: list[np.ndarray], rng: np.random.Generator) -> list[batching.Batch]:
  return batching.training_batches(posts, batch_size=_BATCH_SIZE, num_epochs=1, rng=rng)


def _vocabulary(vocab_size: int) -> list[str]:
  return [f'w{i}' for i in range(vocab_size - 4)]


def _users(num_users: int, vocab_size: int) -> Mapping[str, Mapping[str, list[str]]]:
  """Generates users with a few sentences, one user at a time."""
  some = {f'h{i}': ['w1 w2 w3'] for i in range(2)}
  others = {f't{i}': ['w1 w2 w3'] for i in range(2)}
  return {
    'train': _LazyUsers(num_users, _vocabulary(vocab_size)),
    'heldout': some,
    'test': others,
  }


class _LazyUsers(Mapping[str, list[str]]):
  """Users whose sentences are drawn when they are looked at."""

  def __init__(self, num_users: int, vocabulary: list[str]):
    self._num_users = num_users
    self._vocabulary = np.array(vocabulary)

  def __len__(self) -> int:
    return self._num_users

  def __iter__(self) -> Iterator[str]:
    return (f'u{i:06}' for i in range(self._num_users))

  def __getitem__(self, user: str) -> list[str]:
    rng = np.random.default_rng(int(user[1:]))
    lengths = rng.integers(5, _WORDS, rng.integers(1, _USER_SENTENCES + 1))
    return [' '.join(rng.choice(self._vocabulary, n)) for n in lengths]
