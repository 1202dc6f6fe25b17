"""Makes the run of an audit: the run itself, whose clients may be canaries."""

import contextlib
import dataclasses
import pathlib
import tempfile
from typing import Any

import numpy as np

from tff_textpriv.audits import (
  audited_algorithm,
  canary_words,
  findings,
  noise_audit,
  report_audit,
  training_audit,
)
from tff_textpriv.audits import canaries as canaries_lib
from tff_textpriv.privacy import count_mean_sketch
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import program as program_lib
from tff_textpriv.training import runner


class AuditedRun:
  """A run, audited while it trains."""

  def __init__(
    self,
    chosen: experiment_lib.Experiment,
    canaries: canaries_lib.Canaries,
    *,
    knows_cohorts: bool = False,
  ):
    """Prepares the run.

    Args:
      chosen: The experiment.
      canaries: Who is added to its users.
      knows_cohorts: Whether the attacker knows who is drawn in which round. Where users
        randomize their reports themselves, that is so anyway.
    """
    self._chosen = dataclasses.replace(
      chosen,
      algorithm=audited_algorithm.audited(chosen.algorithm),
      algorithm_settings=chosen.algorithm_settings.for_audit(),
      task_settings=hardly_evaluated(chosen.task_settings),
      privacy_settings=_drawn_as_accounted(chosen.privacy_settings),
    )
    self._canaries = canaries
    self._audit: report_audit.ReportAudit | training_audit.TrainingAudit
    if chosen.privacy_settings.randomizes_on_device:
      self._audit = report_audit.ReportAudit(self._chosen, canaries)
    else:
      self._audit = training_audit.TrainingAudit(
        self._chosen, canaries, knows_cohorts=knows_cohorts
      )
    self._word_scores: np.ndarray | None = None

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
      return runner.run(dataclasses.replace(self._chosen, machine=machine), self._train)

  def noise_checks(self) -> list[noise_audit.NoiseCheck]:
    """Returns what was found of the server's noise, after the run."""
    if isinstance(self._audit, report_audit.ReportAudit):
      return []
    return self._audit.noise_checks()

  def found(self, auditor: findings.Auditor) -> list[findings.Finding]:
    """Returns what was found out, after the run."""
    found = self._audit.found(auditor)
    if self._word_scores is not None:
      parameters = self._sketch()
      found.append(
        auditor.finding(
          'words',
          f'words for the tokenizer, of a user: {parameters.words_per_user}',
          ('one word', 'the other'),
          self._word_scores,
          self._canaries.coins,
          delta=0.0,
          claim=parameters.epsilon_per_user,
          unit='reports of the one less reports of the other',
        )
      )
    return found

  def _train(self, program: program_lib.Program, *run: Any) -> program_lib.Outcome:
    """Trains with canaries, after those of the tokenizer have reported.

    Args:
      program: What to train.
      *run: What else `program.train` takes.
    """
    source = getattr(self._chosen.task_settings, 'tokenizer_source', '')
    if source == 'heavy_hitters' and self._word_scores is None:
      self._word_scores = canary_words.scores(self._sketch(), self._canaries)
    return self._audit.train(program, *run)

  def _sketch(self) -> count_mean_sketch.SketchParameters:
    return self._chosen.task_settings.sketch(self._chosen.stream)


def _drawn_as_accounted(privacy_settings: Any) -> Any:
  """Returns settings with which users are drawn as in the deployment, whatever its size."""
  if not hasattr(privacy_settings, 'simulated_cohorts'):
    return privacy_settings
  return dataclasses.replace(privacy_settings, simulated_cohorts='as_accounted')


def hardly_evaluated(task_settings: Any) -> Any:
  """Returns settings with which no time is lost on the test of a model full of noise."""
  if not hasattr(task_settings, 'max_eval_users'):
    return task_settings
  return dataclasses.replace(task_settings, max_eval_users=1)
