"""Audits a tokenizer as a release: canary users write strings that nobody else writes.

The tokenizer that is learnt from samples, and the samples themselves, are published. If
they hold a string that one user alone has written, the user is found out. Under the
promise that can hardly be: so a coin decides whether each canary writes its string, and
from what is published the coins are guessed, as in every audit.
"""

import contextlib
import dataclasses
import functools
import math
import pathlib
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.audits import audited_run, findings
from tff_textpriv.datasets import clients
from tff_textpriv.iterative_processes import algorithm
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.text import loading, statistics, subword
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import phases, runner
from tff_textpriv.training import program as program_lib

_LETTERS = list('abcdefghijklmnopqrstuvwxyz')
_LENGTH = 10
# Shorter parts of random strings stand in any text.
_SHORTEST_PART = 4
_POSTS, _TIMES_PER_POST = 40, 8


class Found(NamedTuple):
  """How many strings are in what was published, whole.

  Attributes:
    written: Strings that canaries wrote.
    written_pieces: Those of them that are pieces of a tokenizer, or parts of one.
    written_samples: Those that stand in samples.
    held_out: Strings that nobody wrote.
    held_out_pieces: Those of them that are pieces.
    held_out_samples: Those that stand in samples.
  """

  written: int
  written_pieces: int
  written_samples: int
  held_out: int
  held_out_pieces: int
  held_out_samples: int

  def plus(self, other: 'Found') -> 'Found':
    """Adds what another run has found."""
    return Found(*(a + b for a, b in zip(self, other, strict=True)))

  @property
  def sentence(self) -> str:
    """What was found, in words."""
    return (
      f'Of {self.written:,} strings that canaries wrote, {self.written_pieces:,} became '
      f'pieces and {self.written_samples:,} stand in samples; of {self.held_out:,} that '
      f'nobody wrote, {self.held_out_pieces:,} and {self.held_out_samples:,}.'
    )


class Published:
  """The new pieces of a run's tokenizers, and the words of its samples."""

  def __init__(self, pieces: Iterable[str], words: Iterable[str]):
    """Indexes the parts of both."""
    self.pieces = _parts(piece.removeprefix(subword.WORD_START) for piece in pieces)
    self.samples = _parts(words)

  @classmethod
  def by(cls, folder: pathlib.Path) -> 'Published':
    """Reads what a run has published."""
    files = sorted((folder / 'tokenizers').glob('*.model'))
    first, *later = (loading.read(file) for file in files)
    assert isinstance(first, subword.SubwordTokenizer)  # As are those learnt from it.
    pieces = {piece for tokenizer in later for piece in tokenizer.pieces}  # type: ignore[attr-defined]
    samples = (folder / 'samples').glob('*.txt')
    words = statistics.word_counts(
      file.read_text(encoding='utf-8') for file in sorted(samples)
    )
    return cls(pieces - set(first.pieces), words)

  def score(self, string: str) -> float:
    """Returns the letters of a string that stand together in a piece, and in a sample."""
    return _longest(string, self.pieces) + _longest(string, self.samples)


@dataclasses.dataclass(frozen=True)
class StringCanaries:
  """Users, each with a coin and two strings.

  Attributes:
    number: How many there are.
    seed: Decides coins and strings.
    replaces: Whether the coin decides which of the two strings is written, as the promise
      is about a user who is replaced by another; otherwise it decides whether the first
      one is, or nothing.
  """

  number: int
  seed: int
  replaces: bool

  @functools.cached_property
  def coins(self) -> np.ndarray:
    """Independent fair coins, bool [number]."""
    rng = randomness.generator(self.seed, 'vocabulary coins')
    return rng.random(self.number) < 0.5

  @functools.cached_property
  def strings(self) -> list[tuple[str, str]]:
    """Two strings of each, all of them different."""
    rng = randomness.generator(self.seed, 'vocabulary strings')
    drawn = rng.choice(_LETTERS, [self.number, 2, _LENGTH])
    pairs = [(''.join(one), ''.join(other)) for one, other in drawn]
    assert len({each for pair in pairs for each in pair}) == 2 * self.number
    return pairs

  def texts(self, index: int) -> list[str]:
    """Returns what a canary writes."""
    one, other = self.strings[index]
    if not self.coins[index] and not self.replaces:
      return []  # A user without text adds nothing to any sum.
    string = one if self.coins[index] else other
    return [' '.join([string] * _TIMES_PER_POST)] * _POSTS

  def scores(self, published: Published) -> np.ndarray:
    """Returns what speaks for heads, float [number]."""
    return np.array(
      [
        published.score(one) - (published.score(other) if self.replaces else 0)
        for one, other in self.strings
      ]
    )

  def found(self, published: Published) -> Found:
    """Counts the strings that are published as they are."""
    written: list[str] = []
    held_out: list[str] = []
    for (one, other), coin in zip(self.strings, self.coins, strict=True):
      (written if coin else held_out).append(one)
      (written if self.replaces and not coin else held_out).append(other)
    return Found(
      *(
        number
        for strings in (written, held_out)
        for number in (
          len(strings),
          sum(string in published.pieces for string in strings),
          sum(string in published.samples for string in strings),
        )
      )
    )


class _Planted(clients.ClientText):
  """Users, and canaries after them."""

  def __init__(self, users: clients.ClientText, canaries: dict[str, list[str]]):
    self._users = users
    self._canaries = canaries

  @property
  def client_ids(self) -> Sequence[str]:
    """Users first."""
    return [*self._users.client_ids, *self._canaries]

  def read(self, client_id: str) -> list[str]:
    """See the base class."""
    if client_id in self._canaries:
      return list(self._canaries[client_id])
    return self._users.read(client_id)

  @functools.cached_property
  def fingerprint(self) -> str:
    """A hash of the users' and of all that canaries write."""
    return clients.short_hash([self._users.fingerprint, sorted(self._canaries.items())])


class VocabularyRun:
  """A run whose tokenizer is audited: the run itself, with a few users more."""

  def __init__(self, chosen: experiment_lib.Experiment, number: int):
    """Prepares the run.

    Args:
      chosen: The experiment, which learns a tokenizer.
      number: The number of canaries.
    """
    self._canaries = StringCanaries(
      number, chosen.run.seed, chosen.cohort_sampling == 'fixed'
    )
    self._chosen = dataclasses.replace(
      chosen,
      task=dataclasses.replace(chosen.task, load=self._load),
      task_settings=audited_run.hardly_evaluated(chosen.task_settings),
    )
    self._load_users = chosen.task.load
    self._published: Published | None = None
    self._rounds: list[tuple[Any, str, int]] = []

  def run(self, folder: pathlib.Path) -> int:
    """Makes the run in a scratch folder; what it prints goes to run.log.

    Returns:
      The exit code of the run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
      tempfile.TemporaryDirectory(prefix='.run_', dir=folder) as scratch,
      open(folder / 'run.log', 'w', encoding='utf-8') as log,
      contextlib.redirect_stdout(log),
    ):
      machine = dataclasses.replace(
        self._chosen.machine, root_output_dir=scratch, experiment_name='run'
      )
      chosen = dataclasses.replace(self._chosen, machine=machine)
      code = runner.run(chosen, self._train)
      if code == 0:
        self._published = Published.by(chosen.folder)
      return code

  def counts(self) -> Found:
    """Returns how many strings were published, after the run."""
    assert self._published is not None
    return self._canaries.found(self._published)

  def finding(self, auditor: findings.Auditor) -> findings.Finding:
    """Returns what the published tokenizers say of the promise, after the run.

    The claim is that of the simulation itself for the phases that the last tokenizer was
    learnt from; rounds after it change nothing of what is published here.
    """
    assert self._published is not None
    ledger = ledger_lib.Ledger.of(self._rounds[0][0])
    for mechanism, group, number in self._rounds[:-1]:
      for _ in range(number):
        ledger.charge(mechanism, group=group)
    claim = ledger.epsilon()
    change = 'replaced' if self._canaries.replaces else 'added or removed'
    return auditor.finding(
      'vocabulary',
      f'a user {change}, tokenizers and samples',
      ('one string', 'the other') if self._canaries.replaces else findings.IN_OUT,
      self._canaries.scores(self._published),
      self._canaries.coins,
      delta=ledger.delta if math.isfinite(claim) else 0.0,
      claim=claim,
      unit='letters of the string in a piece, and in a sample',
    )

  def _load(self, settings: Any, seed: int) -> clients.FederatedText:
    """Reads the data, and adds the canaries, to the first half where there are halves."""
    data = self._load_users(settings, seed)
    first = self._chosen.algorithm_settings.legs(self._chosen.run.total_rounds)[0]
    names: list[str] = []
    tried = 0
    while len(names) < self._canaries.number:
      name, tried = f'vocabulary canary {tried}', tried + 1
      group = first.users or algorithm.ALL_USERS
      names += phases.members([name], group, self._chosen.stream)
    texts = {name: self._canaries.texts(index) for index, name in enumerate(names)}
    return dataclasses.replace(data, train=_Planted(data.train, texts))

  def _train(self, program: program_lib.Program, *run: Any) -> program_lib.Outcome:
    """Trains, and takes down what it costs the users of the simulation."""
    outcome = program_lib.train(program, *run)
    number = outcome.rounds_done - program.rounds_before
    own = program.mechanism.of_simulation()
    self._rounds.append((own, program.user_group, number))
    return outcome


def _parts(words: Iterable[str]) -> frozenset[str]:
  """Returns all parts of words that are long enough to tell something."""
  return frozenset(
    word[start:end]
    for word in words
    for start in range(len(word) - _SHORTEST_PART + 1)
    for end in range(start + _SHORTEST_PART, min(start + _LENGTH, len(word)) + 1)
  )


def _longest(string: str, parts: frozenset[str]) -> int:
  """Returns the length of the longest part of a string that is there, or 0."""
  for length in range(len(string), _SHORTEST_PART - 1, -1):
    if any(string[i : i + length] in parts for i in range(len(string) - length + 1)):
      return length
  return 0
