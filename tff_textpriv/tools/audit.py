"""Audits the privacy figure of a run: canary users, and a lower bound on epsilon.

    python -m tff_textpriv.tools.audit runs/imdb_dp_fed_avg
    python -m tff_textpriv.tools.audit --task=imdb --algo=dp_fed_avg \
      --cohort_sampling=poisson --total_rounds=4 --target_epsilon=4

Exits with 1 if the bound exceeds what is claimed, or the noise is not what is accounted
for.
"""

import dataclasses
import functools
import json
import pathlib
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tff_textpriv import flags, results
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes.algorithm import Keeps
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base, shared_flags
from tff_textpriv.training import experiment as experiment_lib


@dataclasses.dataclass(frozen=True)
class AuditSettings(settings_lib.Settings):
  """Flags of the command itself."""

  run: str | None = setting(
    None,
    'The folder of a run, whose settings are audited; or else --task, --algo and their '
    'flags. Flags that are given besides take the place of the run’s.',
    positional=True,
  )
  task: str | None = setting(None, 'The task, where no run is named.')
  canaries: int = setting(
    1000, 'Canary users, each with a coin; more of them show more.', low=1
  )
  vocabulary_canaries: int = setting(
    0,
    'Audit the tokenizer that the run learns instead of its rounds: so many canary users '
    'write strings of their own, and it is counted which of them the tokenizer and the '
    'samples hold.',
    low=0,
  )
  confidence: float = setting(
    0.95, 'The probability with which the lower bound holds.', above=0.5, below=1
  )
  guess_shares: tuple[float, ...] = setting(
    (0.05, 0.15, 0.3, 0.6, 1.0),
    'Shares of the canaries to guess, half of them with the highest scores and half '
    'with the lowest. The best one counts, and each has its part of the error that '
    '--confidence allows.',
    above=0,
    high=1,
  )
  audit_runs: int = setting(
    1,
    'Independent runs, with seeds that count on from --seed, whose canaries are judged '
    'together: each adds --canaries of them.',
    low=1,
  )
  known_cohorts: bool = setting(
    False,
    'Let the attacker know who is drawn in which round, as whoever knows the seed of '
    'seeded cohorts does: what is claimed because cohorts are secret is lost.',
  )
  audit_dir: str | None = setting(
    None,
    'The folder to write; by default audit in that of the run, or '
    'runs/audits/TASK_ALGO.',
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if (self.run is None) == (self.task is None):
      raise flags.UsageError('name the folder of a run, or else --task and --algo')
    if not self.guess_shares:
      raise settings_lib.SettingsError('guess_shares', (), 'must name one at least')


_GROUPS = [flags.Group('Audit', AuditSettings)]


def main(argv: Sequence[str]) -> int:
  """Audits, writes and prints what was found.

  Args:
    argv: The arguments, without the program's name.

  Returns:
    The exit code: 1 if a bound exceeds the claim, or a check of the noise fails.
  """
  own, passed_on = shared_flags.split(argv, AuditSettings)
  names = [argument for argument in passed_on if not argument.startswith('-')]
  chosen = flags.make(AuditSettings, flags.parse([*own, *names], _GROUPS))
  given = [argument for argument in passed_on if argument not in names]
  experiment = make_experiment(chosen, given)
  _check(experiment)
  if chosen.vocabulary_canaries:
    return _audit_vocabulary(chosen, experiment, argv)
  # Only now is TensorFlow needed: help and wrong flags are answered before.
  from tff_textpriv.audits import audited_run, findings, noise_audit
  from tff_textpriv.audits import canaries as canaries_lib

  folder = _folder(chosen, experiment)
  print(
    f'audit of {experiment.algorithm.name} on {experiment.task.name} with '
    f'{chosen.canaries * chosen.audit_runs:,} canaries',
    flush=True,
  )
  auditor = findings.Auditor(chosen.confidence, chosen.guess_shares)
  runs: list[list[findings.Finding]] = []
  noise: list[noise_audit.NoiseCheck] = []
  for seeded in _seeded(experiment, chosen.audit_runs):
    audited = audited_run.AuditedRun(
      seeded,
      canaries_lib.Canaries(chosen.canaries, seeded.run.seed),
      knows_cohorts=chosen.known_cohorts,
    )
    code = audited.run(folder)
    if code:
      return code
    runs.append(audited.found(auditor))
    # Noise is checked once: to look at several runs would be to have several chances.
    noise = noise or audited.noise_checks()
  found = findings.pooled(runs, auditor)
  print(f'\n{findings.write(found, noise, _facts(argv, experiment), folder)}\n')
  for finding in found:
    print(findings.sentence(finding))
  failed = [check for check in noise if check.verdict == noise_audit.FAILED]
  for check in failed:
    print(findings.noise_sentence(check))
  print(f'written: {folder}/ (audit.json, audit.md, audit_*.png, run.log)')
  return int(bool(failed) or any(one.verdict == findings.EXCEEDED for one in found))


def _audit_vocabulary(
  chosen: AuditSettings, experiment: experiment_lib.Experiment, argv: Sequence[str]
) -> int:
  """Audits what a run publishes of its tokenizers; see `main`."""
  if not experiment.algorithm_settings.learns_tokenizer:
    raise settings_lib.SettingsError(
      'vocabulary_canaries',
      chosen.vocabulary_canaries,
      f'--algo={experiment.algorithm.name} learns no tokenizer from its model; '
      'subword_resample does',
    )
  from tff_textpriv.audits import findings, vocabulary_audit

  folder = _folder(chosen, experiment)
  number = chosen.vocabulary_canaries * chosen.audit_runs
  print(
    f'audit of the tokenizer of {experiment.algorithm.name} on {experiment.task.name} '
    f'with {number:,} canaries',
    flush=True,
  )
  auditor = findings.Auditor(chosen.confidence, chosen.guess_shares)
  found, counts = [], []
  for seeded in _seeded(experiment, chosen.audit_runs):
    audited = vocabulary_audit.VocabularyRun(seeded, chosen.vocabulary_canaries)
    code = audited.run(folder)
    if code:
      return code
    found.append([audited.finding(auditor)])
    counts.append(audited.counts())
  total = functools.reduce(vocabulary_audit.Found.plus, counts)
  (finding,) = findings.pooled(found, auditor)
  finding = dataclasses.replace(finding, note=total.sentence)
  facts = {**_facts(argv, experiment), 'strings': total._asdict()}
  print(f'\n{findings.write([finding], [], facts, folder)}\n')
  print(findings.sentence(finding))
  print(f'written: {folder}/ (audit.json, audit.md, audit_*.png, run.log)')
  return int(finding.verdict == findings.EXCEEDED)


def _seeded(
  experiment: experiment_lib.Experiment, number: int
) -> Iterator[experiment_lib.Experiment]:
  """Yields an experiment so many times, with seeds that count on from its own."""
  for more in range(number):
    run = dataclasses.replace(experiment.run, seed=experiment.run.seed + more)
    yield dataclasses.replace(experiment, run=run)


def _facts(
  argv: Sequence[str], experiment: experiment_lib.Experiment
) -> dict[str, Any]:
  """Says what was audited."""
  return {
    'command': shlex.join(['python', '-m', 'tff_textpriv.tools.audit', *argv]),
    'config': experiment.config,
  }


def help_page() -> str:
  """Writes the command's help."""
  return flags.format_help(
    'python -m tff_textpriv.tools.audit <run> [--flag=value ...]',
    'Trains as a run would, with canary users among its users, each of whom takes part '
    'by the toss of a coin and sends as much as the mechanism lets through. From what is '
    'released it guesses the coins, and from the number of right guesses follows a lower '
    'bound on epsilon: a bound above the claim is a bug. All other flags are those of '
    'the task and of the algorithm (see the help of the task).',
    _GROUPS,
  )


def make_experiment(
  chosen: AuditSettings, given: Sequence[str]
) -> experiment_lib.Experiment:
  """Makes the experiment that is audited."""
  if chosen.run is None:
    assert chosen.task is not None  # By the settings.
    return base.parse(base.find(chosen.task), given)
  file = pathlib.Path(chosen.run) / 'config.json'
  if not file.exists():
    raise results.ResultsError(
      f'{chosen.run} is not the folder of a run: it has no config.json'
    )
  config = json.loads(file.read_text())
  of_run = [
    f'--{name}={settings_lib.format_value(value)}'
    for name, value in config.items()
    if value is not None and name != 'task'
  ]
  return base.parse(base.find(config['task']), [*of_run, *given])


def _check(experiment: experiment_lib.Experiment) -> None:
  """Refuses what has neither a claim nor clients that could be canaries."""
  algorithm = experiment.algorithm
  if algorithm.gathers_data or algorithm.keeps is not Keeps.NOTHING:
    raise settings_lib.IncompatibleSettingsError(
      f'--algo={algorithm.name} claims no privacy figure, so that there is nothing to '
      'audit; python -m tff_textpriv.tools.attack shows what its messages reveal'
    )
  experiment.task.check(experiment.task_settings)


def _folder(
  chosen: AuditSettings, experiment: experiment_lib.Experiment
) -> pathlib.Path:
  """Returns where to write."""
  if chosen.audit_dir is not None:
    return pathlib.Path(chosen.audit_dir)
  if chosen.run is not None:
    return pathlib.Path(chosen.run) / 'audit'
  name = f'{experiment.task.name}_{experiment.algorithm.name}'
  return pathlib.Path('runs/audits') / name


if __name__ == '__main__':
  flags.exit_with_sentences(lambda: main(sys.argv[1:]), help_page)
