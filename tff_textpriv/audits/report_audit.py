"""Audits what users randomize themselves: each canary's reports, seen one by one.

The collector sees every report, so that a canary reports alone: a round of one client,
of the process that the run has. What a server makes of reports does not matter to it.
"""

import collections
import dataclasses
import math
from typing import Any

import numpy as np
import tqdm

from tff_textpriv.audits import audited_algorithm, bound, canary_sampler, findings
from tff_textpriv.audits import canaries as canaries_lib
from tff_textpriv.iterative_processes import contract, stacked_batches
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import program as program_lib


class ReportAudit:
  """Lets canaries report in the rounds in which they are drawn, and scores them.

  The coin decides the sign of a canary's update. Its score is the sum over its reports
  of their component along the canary's direction of the round.

  With randomized bits, each bit is a guess at the sign of its coordinate, too, which is
  the coin's times the direction's: as good as a coin of its own.
  """

  def __init__(
    self, chosen: experiment_lib.Experiment, canaries: canaries_lib.Canaries
  ):
    """Prepares the audit.

    Args:
      chosen: The experiment, of an audited algorithm with local privacy.
      canaries: Who reports.
    """
    self._chosen = chosen
    self._canaries = canaries
    self._scores = np.zeros([canaries.number])
    self._mechanism: Mechanism
    self._ledger: ledger_lib.Ledger
    self._num_coordinates = 0
    self._num_reports: collections.Counter[int] = collections.Counter()
    self._num_positive = 0
    self._num_guessed_bits = 0
    self._num_right_bits = 0

  def train(self, program: program_lib.Program, *run: Any) -> program_lib.Outcome:
    """Collects the reports of canaries; nobody trains. See `AuditedRun`."""
    process = program.process
    self._mechanism = program.mechanism
    self._ledger = ledger_lib.Ledger.of(self._mechanism)
    self._num_coordinates = audited_algorithm.num_weights(process)
    strength = audited_algorithm.strength(
      self._chosen.algorithm_settings, self._mechanism, self._num_coordinates
    )
    batch_type = contract.batch_type(process)
    sampler = canary_sampler.CanarySampler(
      program.sampler, self._canaries.ids, self._canaries.seed
    )
    index_of = {name: index for index, name in enumerate(self._canaries.ids)}
    next_round, state = stacked_batches.NextRound(process), process.initialize()
    rounds = range(1, program.total_rounds + 1)
    drawn = {number: sampler.canaries(number) for number in rounds}
    # `disable=None` is tqdm's way to show no bar where there is no terminal.
    with tqdm.tqdm(
      total=sum(map(len, drawn.values())), unit='report', disable=None
    ) as bar:
      for number, names in drawn.items():
        self._ledger.charge(self._mechanism, names)
        for name in names:
          mark = self._canaries.mark(index_of[name], number)
          batches = canaries_lib.canary_batches(batch_type, strength, mark)
          seed = self._chosen.stream.words('canary', number, name)
          output = next_round(state, [(batches, [seed])])
          report = canaries_lib.released_update(state, output.state)
          self._see(index_of[name], report, mark)
          bar.update()
    return program_lib.train(dataclasses.replace(program, total_rounds=0), *run)

  def found(self, auditor: findings.Auditor) -> list[findings.Finding]:
    """Returns what the reports say of the guarantee of a user's, and of a bit."""
    most = max(self._num_reports.values(), default=0)
    found = [
      auditor.finding(
        'reports',
        f'a user’s reports, at most: {most}',
        findings.SIGNS,
        self._scores,
        self._canaries.coins,
        delta=self._mechanism.delta,
        claim=self._ledger.epsilon(),
        unit='along the canary’s direction',
      )
    ]
    if self._mechanism.epsilon_per_coordinate is not None:
      num_coins = self._num_reports.total() * self._num_coordinates
      guesses = bound.made(
        num_coins,
        self._num_guessed_bits,
        self._num_right_bits,
        0.0,
        auditor.confidence,
      )
      claims = self._mechanism.no_guarantee_reason is None
      found.append(
        findings.Finding(
          'bits',
          'one bit',
          findings.SIGNS,
          self._num_positive,
          num_coins,
          guesses,
          0.0,
          self._mechanism.epsilon_per_coordinate if claims else math.inf,
        )
      )
    return found

  def _see(self, index: int, report: np.ndarray, mark: np.ndarray) -> None:
    """Scores a report."""
    direction = canaries_lib.signs(mark[1:], len(report)).numpy()
    self._num_reports[index] += 1
    self._scores[index] += report @ direction / math.sqrt(len(report))
    if self._mechanism.epsilon_per_coordinate is not None:
      positive = mark[0] * direction > 0
      reported = report != 0
      self._num_positive += int(positive.sum())
      self._num_guessed_bits += int(reported.sum())
      self._num_right_bits += int(np.sum(((report > 0) == positive) & reported))
