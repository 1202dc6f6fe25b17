"""What a study is: runs side by side, and the paper's figures beside ours.

A study is data, a file of `studies/`; `study_files` reads it. Here is what it amounts to:
the arms on a task, whose flags are filled in.
"""

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tff_textpriv import settings as settings_lib
from tff_textpriv.experiments import templates
from tff_textpriv.iterative_processes import registry

_LONGEST_LABEL = 100
# Names for placeholders that are no flags themselves, and the flag that they are made of.
MADE_OF = {'model_size': 'model'}


class StudyError(ValueError):
  """A study file is wrong; the message names the file and the key."""


@dataclasses.dataclass(frozen=True)
class Plot:
  """What a study draws.

  Attributes:
    metrics: Figures, of `metrics.METRICS`; drawn is the first that the task's runs have.
    kind: `bars` (one for each arm), `lines` (over the arms' `x`) or `rounds`.
    x_label: What the arms differ in, for lines.
    x_scale: `log` or `linear`.
  """

  metrics: tuple[str, ...]
  kind: str = 'bars'
  x_label: str = ''
  x_scale: str = 'log'


@dataclasses.dataclass(frozen=True)
class Arm:
  """One run of a study, for each seed.

  Attributes:
    label: The row's name, e.g. `BPE sample`.
    flags: What this run has and others do not, `algo` among them.
    paper: The paper's figures for it, by column.
    curve: The line of a plot that its point belongs to; empty if there is none.
    x: Its place on the plot's axis.
    branch_from: The label of an arm that is the same run up to `at_round`, if any.
    at_round: The last round that both share.
    derived: The flags whose values are made of the same flag of the command line.
  """

  label: str
  flags: Mapping[str, Any]
  paper: Mapping[str, float] = dataclasses.field(default_factory=dict)
  curve: str = ''
  x: float | None = None
  branch_from: str = ''
  at_round: int = 0
  derived: frozenset[str] = frozenset()

  @property
  def slug(self) -> str:
    """The label as the name of a folder."""
    return re.sub(r'[^a-z0-9.]+', '_', self.label.lower()).lstrip('.')

  @property
  def has_closed_vocabulary(self) -> bool:
    """Whether its perplexity leaves out the words that it does not know."""
    return self.flags.get('tokenizer') == 'word'


@dataclasses.dataclass(frozen=True)
class Entry:
  """One `[[arms]]` of a file: an arm, or one for each combination of the grid.

  Attributes:
    label: The arms' label; this and what follows may have placeholders.
    use: The names of parts whose flags the arms have, later ones count more.
    flags: The arms' own flags, which count most.
    grid: Values by name; the last name changes fastest.
    tasks: The tasks that have these arms.
    needs_flag: A flag without which there are no such arms; empty for none.
    curve: See `Arm`.
    x: See `Arm`; empty for none.
    branch_from: See `Arm`.
    at_round: See `Arm`.
    paper: The paper's figures by task and column, in the shape of the grid; not a number
      where it has none.
  """

  label: str
  use: Sequence[str]
  flags: Mapping[str, Any]
  grid: Mapping[str, Sequence[Any]]
  tasks: Sequence[str]
  needs_flag: str
  curve: str
  x: Any
  branch_from: str
  at_round: Any
  paper: Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Study:
  """Runs that answer one question.

  Attributes:
    name: The value of `--study`: the name of its file.
    file: The file, for errors.
    title: What it is about, and where the paper has it.
    question: What it answers.
    tasks: The tasks it can be run on, the usual one first.
    rows: What the rows of the table are.
    columns: Which figures the table shows; `validation_auc@5` for one of round 5.
    plot: What is drawn.
    flags: Flags of all runs that have them; those of the command line count more.
    task_flags: The same by task.
    parts: Flags by a name that arms can use.
    entries: The arms, before the task and the scale are known.
    reference: The label of the arm that others are compared with; the first if empty.
  """

  name: str
  file: str
  title: str
  question: str
  tasks: Sequence[str]
  rows: str
  columns: Sequence[str]
  plot: Plot
  flags: Mapping[str, Any]
  task_flags: Mapping[str, Mapping[str, Any]]
  parts: Mapping[str, Mapping[str, Any]]
  entries: Sequence[Entry]
  reference: str = ''

  def defaults(self, task: str) -> dict[str, Any]:
    """Returns the flags of all runs on a task, with their placeholders."""
    return {**self.flags, **self.task_flags.get(task, {})}

  def filled_defaults(self, task: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the flags of all runs on a task, with their placeholders filled in."""
    return {
      name: self._filled(value, names, f'flags.{name}')
      for name, value in self.defaults(task).items()
    }

  def names_used(self) -> set[str]:
    """Returns the names that placeholders of arms' flags use."""
    values = [value for entry in self.entries for value in entry.flags.values()]
    values += [value for part in self.parts.values() for value in part.values()]
    return set().union(*map(templates.names_in, values))

  def arms(self, task: str, names: Mapping[str, Any]) -> list[Arm]:
    """Makes the arms.

    Args:
      task: The name of the task.
      names: Flags of the runs, which placeholders may name.

    Raises:
      StudyError: If a placeholder cannot be filled in, or arms do not fit together.
    """
    arms = [
      arm
      for number, entry in enumerate(self.entries)
      if task in entry.tasks and (not entry.needs_flag or names.get(entry.needs_flag))
      for arm in self._expanded(number, entry, task, names)
    ]
    self._check(arms)
    return arms

  def reference_arm(self, arms: Sequence[Arm], names: Mapping[str, Any]) -> Arm:
    """Returns the arm that the others are compared with."""
    if not self.reference:
      return arms[0]
    label = self._filled(self.reference, names, 'reference')
    for arm in arms:
      if arm.label == label:
        return arm
    raise StudyError(f'{self.file}: reference: there is no arm {label!r}')

  def _filled(self, value: Any, names: Mapping[str, Any], key: str) -> Any:
    """Fills in the placeholders of a key."""
    try:
      return templates.expand(value, names)
    except templates.TemplateError as error:
      raise StudyError(f'{self.file}: {key}: {error}') from error

  def _expanded(
    self, number: int, entry: Entry, task: str, names: Mapping[str, Any]
  ) -> Iterator[Arm]:
    """Makes the arms of an entry."""
    for places in itertools.product(*(range(len(v)) for v in entry.grid.values())):
      point = {
        name: values[place]
        for (name, values), place in zip(entry.grid.items(), places, strict=True)
      }
      try:
        yield self._arm(entry, task, {**names, **point}, places)
      except templates.TemplateError as error:
        raise StudyError(f'{self.file}: arms[{number}]: {error}') from error

  def _arm(
    self, entry: Entry, task: str, names: Mapping[str, Any], places: Sequence[int]
  ) -> Arm:
    label = templates.expand(entry.label, names)
    raw: dict[str, Any] = {}
    for part in entry.use:
      chosen = templates.expand(part, names)
      if chosen not in self.parts:
        raise StudyError(f'{self.file}: the arm {label!r}: there is no part {chosen!r}')
      raw |= self.parts[chosen]
    raw |= entry.flags
    x = None if entry.x == '' else templates.expand(entry.x, names)
    at_round = templates.expand(entry.at_round, names)
    for key, value, kinds in (
      ('x', x or 0, (int, float)),
      ('at_round', at_round, (int,)),
    ):
      if type(value) not in kinds:
        raise StudyError(
          f'{self.file}: the arm {label!r}: {key} is no number but {value!r}'
        )
    flags = {name: templates.expand(value, names) for name, value in raw.items()}
    algo = str(flags.get('algo'))
    if algo not in registry.ALGORITHMS:
      hint = settings_lib.did_you_mean(algo, registry.ALGORITHMS)
      raise StudyError(
        f'{self.file}: the arm {label!r}: there is no algo {algo!r}{hint}'
      )
    return Arm(
      str(label),
      flags,
      _figures(entry.paper.get(task, {}), places),
      str(templates.expand(entry.curve, names)),
      None if x is None else float(x),
      str(templates.expand(entry.branch_from, names)),
      int(at_round),
      frozenset(name for name in raw if _is_derived(name, raw[name])),
    )

  def _check(self, arms: Sequence[Arm]) -> None:
    """Refuses arms that cannot stand beside each other."""
    if not arms:
      raise StudyError(f'{self.file}: there are no arms')
    by_label = {arm.label: arm for arm in arms}
    slugs = {arm.slug for arm in arms}
    for arm in arms:
      if not arm.slug or len(arm.label) > _LONGEST_LABEL:
        raise StudyError(f'{self.file}: {arm.label[:200]!r} cannot be an arm’s label')
      if arm.branch_from:
        trunk = by_label.get(arm.branch_from)
        if trunk is None or trunk.branch_from or trunk is arm:
          raise StudyError(
            f'{self.file}: the arm {arm.label!r}: branch_from is {arm.branch_from!r}, '
            'which is no arm, or itself a branch'
          )
    if len(slugs) < len(arms):
      raise StudyError(
        f'{self.file}: two arms would have the same folder: labels must differ in letters '
        'or digits, at this scale too'
      )


def _is_derived(name: str, value: Any) -> bool:
  """Tells whether the value of a flag is made of the same flag of the command line."""
  return name in {MADE_OF.get(used, used) for used in templates.names_in(value)}


def _figures(paper: Mapping[str, Any], places: Sequence[int]) -> dict[str, float]:
  """Returns the paper's figures at a place of the grid, where it has some."""
  found = {}
  for column, figures in paper.items():
    for place in places:
      figures = figures[place]
    if not math.isnan(figures):
      found[column] = float(figures)
  return found
