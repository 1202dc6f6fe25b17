"""Folders as runs leave them, with weights drawn at random in the place of training."""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from tff_textpriv.export import runs


@dataclasses.dataclass(frozen=True)
class Made:
  """A run's folder, and what it was made of."""

  folder: pathlib.Path
  experiment: Any
  bench: Any
  weights: list[np.ndarray]

  @property
  def run(self) -> runs.FinishedRun:
    """The folder, read again."""
    return runs.read(str(self.folder))


def make(task, given, folder) -> Made:
  """Makes the folder of a task's run with flags."""
  from tff_textpriv.privacy import ledger
  from tff_textpriv.privacy.no_mechanism import NoMechanism
  from tff_textpriv.tasks import base
  from tff_textpriv.training import output, phases, program, reporting, runner

  where = [f'--root_output_dir={folder.parent}', f'--experiment_name={folder.name}']
  if task.kind == 'language_model':
    where.append(f'--data_dir={folder.parent / "data"}')
  experiment = base.parse(task, [*given, *where])
  output.OutputFolder(folder).claim(experiment.config)
  course = runner._COURSES[task.kind](experiment)
  (phase,) = phases.lay_out(experiment, course.users)
  bench = course.make_bench(phase, None, folder)
  course.begin(phase, bench, folder)
  weights = _drawn(bench.functional.initial_weights[0])
  if task.kind == 'language_model':
    # Some tokens are much more likely than others, and single bytes are not.
    weights[-1] *= 8
    weights[-1][[p.startswith('<0x') for p in bench.tokenizer.pieces]] -= 8
  elif not experiment.algorithm.has_whole_model:
    weights = weights[1:]
  mechanism = NoMechanism('nothing was trained')
  outcome = program.Outcome(
    weights=weights, state=None, ledger=ledger.Ledger.of(mechanism), rounds_done=1,
    ended='finished', signal_number=None, selected_weights=weights, selected_round=1,
    target_round=None,
  )  # fmt: skip
  card = reporting.write_card(experiment, outcome, mechanism, None, folder)
  reporting.write_results(
    outcome, card, {}, bench.to_keras(weights), bench.usage(folder), folder
  )
  return Made(folder, experiment, bench, weights)


def _drawn(weights):
  """Draws weights that tell inputs apart, unlike zeros and tiny numbers."""
  rng = np.random.default_rng(0)
  return [
    (weight + rng.normal(scale=0.3, size=weight.shape)).astype(np.float32)
    for weight in weights
  ]
