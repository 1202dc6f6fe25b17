"""Makes the run of an audit: the run itself, whose clients may be canaries."""

import contextlib
import dataclasses
import pathlib
import tempfile
from typing import Any

import numpy as np

from tff_textpriv.attacks import audited_algorithm, canary_words
from tff_textpriv.attacks import canaries as canaries_lib
from tff_textpriv.iterative_processes import algorithm_settings
from tff_textpriv.privacy import count_mean_sketch, local, local_gaussian
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.runtime import execution
from tff_textpriv.tools import audit_findings, audit_reports, audit_training
from tff_textpriv.training import classification, language_modeling
from tff_textpriv.training import experiment as experiment_lib
from tff_textpriv.training import program as program_lib


class AuditedRun:
  """A run, audited while it trains."""

  def __init__(
    self, chosen: experiment_lib.Experiment, canaries: canaries_lib.Canaries
  ):
    """Prepares the run.

    Args:
      chosen: The experiment.
      canaries: Who is added to its users.
    """
    settings = chosen.algorithm_settings
    if isinstance(settings, algorithm_settings.FedAttSettings):
      # What users send does not depend on how the server weighs it, and the mean of one
      # report is the report.
      settings = dataclasses.replace(settings, attention='uniform')
    self._chosen = dataclasses.replace(
      chosen,
      algorithm=audited_algorithm.AuditedAlgorithm.of(chosen.algorithm),
      algorithm_settings=settings,
      task_settings=_hardly_evaluated(chosen.task_settings),
    )
    self._canaries = canaries
    self._audit: audit_reports.ReportAudit | audit_training.TrainingAudit
    if isinstance(
      chosen.privacy_settings,
      local.LocalPrivacySettings | local_gaussian.LocalGaussianSettings,
    ):
      self._audit = audit_reports.ReportAudit(self._chosen, canaries)
    else:
      self._audit = audit_training.TrainingAudit(self._chosen, canaries)
    self._word_scores: np.ndarray | None = None

  def run(self, folder: pathlib.Path) -> int:
    """Makes the run in a scratch folder; what it prints goes to run.log.

    Returns:
      The exit code of the run.
    """
    module = (
      classification
      if self._chosen.task.kind == 'classification'
      else language_modeling
    )
    folder.mkdir(parents=True, exist_ok=True)
    with (
      tempfile.TemporaryDirectory(prefix='.run_', dir=folder) as scratch,
      open(folder / 'run.log', 'w', encoding='utf-8') as log,
      contextlib.redirect_stdout(log),
    ):
      machine = dataclasses.replace(
        self._chosen.machine, root_output_dir=scratch, experiment_name='run'
      )
      return module.run(dataclasses.replace(self._chosen, machine=machine), self._train)

  def findings(self, auditor: audit_findings.Auditor) -> list[audit_findings.Finding]:
    """Returns what was found out, after the run."""
    found = self._audit.findings(auditor)
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

  def _train(
    self,
    program: program_lib.Program,
    ledger: ledger_lib.Ledger,
    folder: pathlib.Path,
    runtime: execution.Runtime,
  ) -> program_lib.Outcome:
    """Trains with canaries, after those of the tokenizer have reported."""
    source = getattr(self._chosen.task_settings, 'tokenizer_source', '')
    if source == 'heavy_hitters' and self._word_scores is None:
      self._word_scores = canary_words.scores(
        self._sketch(),
        self._canaries,
        getattr(self._chosen.privacy_settings, 'noise_source', 'seeded'),
      )
    return self._audit.train(program, ledger, folder, runtime)

  def _sketch(self) -> count_mean_sketch.SketchParameters:
    return self._chosen.task_settings.sketch(self._chosen.run.seed)


def _hardly_evaluated(task_settings: Any) -> Any:
  """Returns settings with which no time is lost on the test of a model full of noise."""
  if not hasattr(task_settings, 'max_eval_users'):
    return task_settings
  return dataclasses.replace(task_settings, max_eval_users=1)
