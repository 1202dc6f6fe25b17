"""Audits training as a whole: canaries among the users, seen in the server's states."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tff_textpriv.audits import (
  audited_algorithm,
  canary_sampler,
  findings,
  noise_audit,
)
from tff_textpriv.audits import canaries as canaries_lib
from tff_textpriv.iterative_processes import algorithm, contract, stacked_batches
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import program as program_lib
from tff_textpriv.training import selection

_OWN_CLAIM = (
  'The run accounts for another deployment (--accounted_population, '
  '--accounted_cohort), whose figure this simulation does not carry. What is audited is '
  'the claim for what the simulation does itself: its own population, cohort and noise.'
)


# Rounds are made again for their noise until there are so many numbers.
_MOST_DRAWS = 30_000_000


class TrainingAudit:
  """Trains as the run would, with canaries, and scores them round by round.

  A canary's score is the sum over rounds of the released mean's component along the
  canary's direction of the round, in units of what one canary adds to it: k for one that
  took part in k rounds and 0 for one that took part in none, but for the noise. Where
  canaries come in turn, only their turns are looked at: nothing rests on not knowing them.
  Noise that is correlated over rounds is made independent first (see `matched`).

  Under Poisson sampling, where the guarantee is about adding or removing a user, the coin
  decides whether the canary is there. With cohorts of a fixed size it is about replacing
  one: the canary is there, and the coin decides the sign of its update.
  """

  def __init__(
    self,
    chosen: experiment_lib.Experiment,
    canaries: canaries_lib.Canaries,
    *,
    knows_cohorts: bool = False,
  ):
    """Prepares the audit.

    Args:
      chosen: The experiment, of an audited algorithm.
      canaries: Who is added to its users.
      knows_cohorts: Whether the attacker knows in which rounds each canary was drawn.
    """
    self._chosen = chosen
    self._canaries = canaries
    self._knows_cohorts = knows_cohorts
    # That of each round, in units of what is accounted for.
    self._noise: list[np.ndarray] = []
    self._replaces = chosen.cohort_sampling == 'fixed'
    self._has_halves = any(
      leg.users == algorithm.FIRST_HALF
      for leg in chosen.algorithm_settings.legs(chosen.run.total_rounds)
    )
    self._scores = np.zeros([canaries.number])
    self._ledger: ledger_lib.Ledger | None = None
    self._is_scaled = False
    self._num_phases = 0
    self._num_rounds = 0

  def train(self, program: program_lib.Program, *run: Any) -> program_lib.Outcome:
    """Trains a phase of the run; see `AuditedRun`."""
    members = np.arange(self._canaries.number)
    if self._has_halves:
      members = members[self._num_phases :: 2]
    phase = _AuditedPhase(
      self._chosen,
      program,
      self._canaries,
      members,
      self._replaces,
      self._knows_cohorts,
    )
    outcome = program_lib.train(phase.program(), *run)
    num_rounds = outcome.rounds_done - program.rounds_before
    self._scores[members] += phase.scores
    self._num_phases += 1
    self._num_rounds += num_rounds
    self._noise += phase.noise(num_rounds)
    own = program.mechanism.of_simulation()
    self._is_scaled |= program.mechanism.is_scaled
    self._ledger = self._ledger or ledger_lib.Ledger.of(own)
    for _ in range(num_rounds):
      self._ledger.charge(own, group=program.user_group)
    return outcome

  def noise_checks(self) -> list[noise_audit.NoiseCheck]:
    """Returns what is found of the noise of the rounds, where there should be any."""
    return noise_audit.checks(self._noise) if self._noise else []

  def found(self, auditor: findings.Auditor) -> list[findings.Finding]:
    """Returns what the scores say of the guarantee of all rounds together."""
    ledger = self._ledger
    assert ledger is not None  # A run has one phase at least.
    claim = ledger.epsilon()
    change = 'replaced' if self._replaces else 'added or removed'
    return [
      auditor.finding(
        'rounds',
        f'a user {change}, rounds: {self._num_rounds}'
        + (', cohorts known' if self._knows_cohorts else ''),
        findings.SIGNS if self._replaces else findings.IN_OUT,
        self._scores,
        self._canaries.coins,
        delta=ledger.delta if math.isfinite(claim) else 0.0,
        claim=claim,
        unit='rounds of one canary',
        note=_OWN_CLAIM if self._is_scaled else '',
      )
    ]


def matched(
  seen: Sequence[np.ndarray], turns: Sequence[np.ndarray], mechanism: Mechanism
) -> np.ndarray:
  """Returns canaries' scores.

  With what is seen of a canary s and where to look for it e, both float [rounds], let R
  make the noise of rounds independent. The best that can be made of R s = R (coin e + noise)
  is its product with R e. It is scaled to be as many rounds as e has, if the canary is there:

    sum(e) <R e, R s> / |R e|^2

  Args:
    seen: Of each round, canaries' components of what is released, float [members].
    turns: Of each round, where to look for canaries: 1 or 0, float [members].
    mechanism: Whose noise it is.

  Returns:
    Float [members]; zero for whom no round is looked at.
  """
  own, others = (np.array(mechanism.independent(each)) for each in (turns, seen))
  squares = np.sum(own**2, axis=0)
  products = np.sum(turns, axis=0) * np.sum(own * others, axis=0)
  return np.divide(products, squares, out=np.zeros_like(products), where=squares > 0)


class _AuditedPhase:
  """A program's process, with canaries as clients, and what it says of them."""

  def __init__(
    self,
    chosen: experiment_lib.Experiment,
    program: program_lib.Program,
    canaries: canaries_lib.Canaries,
    members: np.ndarray,
    replaces: bool,
    knows_cohorts: bool,
  ):
    process, mechanism = program.process, program.mechanism
    self._program = program
    self._canaries = canaries
    self._replaces = replaces
    self._knows_cohorts = knows_cohorts
    self._index = {canaries.ids[index]: index for index in members}
    self._next = stacked_batches.NextRound(process)
    self._batch_type = contract.batch_type(process)
    self._reads = contract.reads(process)
    self._stream = chosen.stream
    self._strength = audited_algorithm.strength(
      chosen.algorithm_settings, mechanism, audited_algorithm.num_weights(process)
    )
    self._denominator = mechanism.mean_denominator
    # Of each round, float [members]: what is seen of canaries, and where to look for them.
    self._seen: list[np.ndarray] = []
    self._turns: list[np.ndarray] = []

  def program(self) -> program_lib.Program:
    """Returns the program with canaries; nothing is evaluated on the way."""
    coins = self._canaries.coins
    absent = [name for name, index in self._index.items() if not coins[index]]
    self._sampler = canary_sampler.CanarySampler(
      self._program.sampler,
      list(self._index),
      self._canaries.seed,
      () if self._replaces else absent,
    )
    return dataclasses.replace(
      self._program,
      process=self,
      sampler=self._sampler,
      client_data=self._client_data,
      evaluate=lambda weights: {},
      selection=selection.Selection(),
    )

  def initialize(self) -> Any:
    """Returns the state to start from."""
    return self._program.process.initialize()

  def get_model_weights(self, state: Any) -> Any:
    """Returns the weights of a state."""
    return self._program.process.get_model_weights(state)

  def next(self, state: Any, cohort: '_Cohort') -> Any:
    """Runs a round, and looks at what it releases."""
    output = self._next(state, cohort)
    released = canaries_lib.released_update(state, output.state)
    seeds = [
      self._canaries.direction_seed(index, self._direction_of(cohort.round_number))
      for index in self._index.values()
    ]
    unit = output.metrics['aggregator'].get('clip', 1.0) / self._denominator
    found = canaries_lib.projections(released, np.array(seeds)).numpy() / unit
    turns = np.ones(len(found))
    if self._knows_cohorts or self._sampler.sampling == 'separated':
      # All that is seen of a canary in other rounds is noise.
      drawn = frozenset(self._sampler.drawn(cohort.round_number))
      turns = np.array([float(name in drawn) for name in self._index])
    self._seen.append(found)
    self._turns.append(turns)
    return output

  @property
  def scores(self) -> np.ndarray:
    """The scores of the phase's canaries so far, float [members]."""
    if not self._seen:
      return np.zeros(len(self._index))
    return matched(self._seen, self._turns, self._program.mechanism)

  def _direction_of(self, round_number: int) -> int:
    """Returns the round whose directions canaries take in a round."""
    return 0 if self._program.mechanism.worst_user_repeats else round_number

  def noise(self, num_rounds: int) -> list[np.ndarray]:
    """Makes rounds without any client; returns what they release.

    Returns:
      Of each round, float [weights], in units of the standard deviation that is accounted
      for; nothing where none is.
    """
    entry = self._program.mechanism.of_simulation().entry(self._program.user_group)
    multiplier = getattr(entry and entry.cost, 'noise_multiplier', 0.0)
    if not multiplier:
      return []
    state = self._program.process.initialize()
    noise: list[np.ndarray] = []
    while len(noise) < num_rounds and sum(each.size for each in noise) < _MOST_DRAWS:
      output = self._next(state, [])
      clip = output.metrics['aggregator']['clip']
      released = canaries_lib.released_update(state, output.state)
      noise.append(released * np.float32(self._denominator / (clip * multiplier)))
      state = output.state
    return self._program.mechanism.independent(noise)

  def _with_batches(self, change: Callable[[Any], Any], read: Any) -> Any:
    """Returns what a client reads, with changed batches; they come first."""
    if self._reads == (contract.BATCHES,):
      return change(read)
    batches, *others = read
    return (change(batches), *others)

  def _client_data(self, users: Sequence[str], round_number: int) -> '_Cohort':
    """Returns the batches of a round's users, and after them those of canaries."""
    theirs = [user for user in users if user not in self._index]
    data = [
      self._with_batches(canaries_lib.unmarked, read)
      for read in self._program.client_data(theirs, round_number)
    ]
    for name in users[len(theirs) :]:
      mark = self._canaries.mark(self._index[name], self._direction_of(round_number))
      batches = canaries_lib.canary_batches(self._batch_type, self._strength, mark)
      if self._reads == (contract.BATCHES,):
        data.append(batches)
      else:  # Canaries draw noise as users do.
        data.append((batches, [self._stream.words('canary', round_number, name)]))
    return _Cohort(data, round_number)


class _Cohort(list[Any]):
  """A round's data, which may be made before the round: so it says which one it is."""

  def __init__(self, data: Sequence[Any], round_number: int):
    super().__init__(data)
    self.round_number = round_number
