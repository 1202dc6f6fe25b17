"""The course of a run: what its kind of task adds to the one runner."""

import abc
import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.privacy.mechanism import Mechanism
from tff_textpriv.training import experiment, phases, program, selection, workbench


@dataclasses.dataclass(frozen=True)
class PhaseEnd:
  """Where a phase left off: its outcome, and what goes with its weights."""

  phase: phases.Phase
  bench: workbench.Workbench
  mechanism: Mechanism
  process: Any
  outcome: program.Outcome


class Course(abc.ABC):
  """A run on one kind of task: its data, its workbenches and its words.

  Attributes:
    selection: Which round's model counts.
  """

  selection: selection.Selection

  def __init__(self, chosen: experiment.Experiment):
    """Reads the data.

    Raises:
      ValueError: If the settings cannot work together, or the data cannot be read.
    """
    self._chosen = chosen

  @property
  @abc.abstractmethod
  def users(self) -> Sequence[str]:
    """Everybody who may train."""

  @property
  @abc.abstractmethod
  def data_summary(self) -> Sequence[str]:
    """What was said of the data when they were read; perhaps nothing."""

  @abc.abstractmethod
  def describe(self, all_phases: Sequence[phases.Phase]) -> list[str]:
    """Says, in lines, what is about to be trained and on whom."""

  @abc.abstractmethod
  def make_bench(
    self, phase: phases.Phase, before: PhaseEnd | None, folder: pathlib.Path
  ) -> workbench.Workbench:
    """Makes the workbench of a phase; nothing is written yet.

    Args:
      phase: The phase.
      before: The end of the one before; `None` for the first, or the first of a resumed
        run.
      folder: The run's folder.
    """

  @abc.abstractmethod
  def begin(
    self, phase: phases.Phase, bench: workbench.Workbench, folder: pathlib.Path
  ) -> str:
    """Keeps what the phase's workbench was made of; returns a line about the phase."""

  @abc.abstractmethod
  def open_ledger(self, ledger: ledger_lib.Ledger) -> None:
    """Enters what is settled before the first round."""

  def go_on(
    self,
    before: PhaseEnd,
    phase: phases.Phase,
    bench: workbench.Workbench,
    process: Any,
    folder: pathlib.Path,
  ) -> Callable[[], Any] | None:
    """Prepares a further phase; returns what makes its first state, if not the process.

    By default the process does: the phase begins anew.
    """
    del before, phase, bench, process, folder  # Nothing is carried over.
    return None

  @abc.abstractmethod
  def finish(
    self, end: PhaseEnd, metrics: Mapping[str, float], folder: pathlib.Path
  ) -> tuple[dict[str, Any], str]:
    """Writes what only this kind of task leaves.

    Args:
      end: The end of the last phase.
      metrics: The figures of the test.
      folder: The run's folder.

    Returns:
      More figures for results.json, and what to print of the test.
    """
