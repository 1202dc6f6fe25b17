"""Reads study files: the papers' tables and figures as data, or one of your own.

A file that is `based_on` a name takes what it does not say itself from the file of that
name in `studies/common/`. Everything is checked here: keys, flags, columns, tasks.
"""

import pathlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from tff_textpriv import metrics
from tff_textpriv import settings as settings_lib
from tff_textpriv.experiments import study as study_lib
from tff_textpriv.tasks import base, command_flags

_FOLDER = pathlib.Path(__file__).parent / 'studies'
_COMMON = _FOLDER / 'common'
_TABLE = (dict,)
_NUMBER = (int, float)


def names() -> list[str]:
  """Returns the names of the studies that come with the package."""
  return sorted(file.stem for file in _FOLDER.glob('*.toml'))


def load(name: str) -> study_lib.Study:
  """Reads a study.

  Args:
    name: The name of one that comes with the package, or the path of a file that ends
      in `.toml`.

  Raises:
    SettingsError: If there is no such study.
    StudyError: If the file cannot be read or is wrong; names the file and the key.
  """
  if name.endswith('.toml'):
    return _read(pathlib.Path(name))
  if name not in names():
    hint = settings_lib.did_you_mean(name, names())
    raise settings_lib.SettingsError(
      'study',
      name,
      f'must be the path of a .toml file, or one of {", ".join(names())}{hint}',
    )
  return _read(_FOLDER / f'{name}.toml')


class _Table:
  """A table of a file, from which keys are taken until none is left."""

  def __init__(self, content: Mapping[str, Any], file: str, path: str = ''):
    self._left = dict(content)
    self._file = file
    self._path = path

  def take(self, key: str, kinds: tuple[type, ...], default: Any = None) -> Any:
    """Returns the value of a key, of one of some types; must be there if no default."""
    if key not in self._left and default is not None:
      return default
    value = self._left.pop(key, None)
    if type(value) not in kinds or (int in kinds and not _is_scalar(value)):
      expected = ' or '.join(kind.__name__ for kind in kinds)
      raise self.error(key, f'must be there and be {expected}')
    return value

  def texts(self, key: str, default: list[str] | None = None) -> list[str]:
    """Returns a list of texts."""
    values = self.take(key, (list,), default)
    if not all(isinstance(value, str) for value in values):
      raise self.error(key, 'must be a list of texts')
    return values

  def table(self, key: str) -> '_Table':
    """Returns a table in this one; an empty one if there is none."""
    return _Table(self.take(key, _TABLE, {}), self._file, f'{self._path}{key}.')

  def tables(self, key: str) -> dict[str, '_Table']:
    """Returns the tables of a table, by name."""
    inner = self.table(key)
    return {name: inner.table(name) for name in list(inner._left)}

  def rest(self) -> dict[str, Any]:
    """Returns all that is left."""
    left, self._left = self._left, {}
    return left

  def end(self, known: Iterable[str]) -> None:
    """Refuses keys that are left."""
    for key in self._left:
      hint = settings_lib.did_you_mean(key, known)
      raise self.error(key, f'is not a key of a study file{hint}')

  def error(self, key: str, problem: str) -> study_lib.StudyError:
    """Returns the error of a key."""
    return study_lib.StudyError(f'{self._file}: {self._path}{key}: {problem}')


def _parse(file: pathlib.Path) -> dict[str, Any]:
  try:
    return tomllib.loads(file.read_text(encoding='utf-8'))
  except (OSError, ValueError, RecursionError) as error:
    raise study_lib.StudyError(f'{file}: cannot be read ({error})') from error


def _read(file: pathlib.Path) -> study_lib.Study:
  content = _parse(file)
  based_on = content.pop('based_on', None)
  if based_on is not None:
    known = sorted(each.stem for each in _COMMON.glob('*.toml'))
    if based_on not in known:
      raise study_lib.StudyError(f'{file}: based_on: must be one of {", ".join(known)}')
    content = _merged(_parse(_COMMON / f'{based_on}.toml'), content)
  return _study(_Table(content, str(file)), file)


def _merged(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
  """Joins two files; of tables in both, what the second one says counts."""
  merged = {**common, **own}
  for key in common.keys() & own.keys():
    if isinstance(common[key], dict) and isinstance(own[key], dict):
      merged[key] = {**common[key], **own[key]}
  return merged


def _study(table: _Table, file: pathlib.Path) -> study_lib.Study:
  tasks = table.texts('tasks')
  flags = _known_flags(table, tasks)
  columns = table.texts('columns')
  for column in columns:
    _check_column(table, 'columns', column)
  made = study_lib.Study(
    name=file.stem,
    file=str(file),
    title=table.take('title', (str,)),
    question=table.take('question', (str,)),
    tasks=tasks,
    rows=table.take('rows', (str,)),
    columns=columns,
    plot=_plot(table.table('plot')),
    flags=_flags(table.table('flags'), flags),
    task_flags={
      _one_of(table, 'task_flags', name, tasks): _flags(inner, flags)
      for name, inner in table.tables('task_flags').items()
    },
    parts={name: _flags(inner, flags) for name, inner in table.tables('parts').items()},
    entries=_entries(table, tasks, columns, flags),
    reference=table.take('reference', (str,), ''),
  )
  table.end(study_lib.Study.__annotations__)
  return made


def _known_flags(table: _Table, tasks: list[str]) -> set[str]:
  """Returns the flags of all tasks of a study."""
  if not tasks:
    raise table.error('tasks', 'must name a task')
  known = {'algo'}
  for task in tasks:
    try:
      groups = command_flags.groups(base.find(task))
    except settings_lib.SettingsError as error:
      raise table.error('tasks', str(error)) from error
    known |= {field.name for group in groups for field in group.fields()}
  return known


def _plot(table: _Table) -> study_lib.Plot:
  given = table.take('metric', (str, list))
  names = given if isinstance(given, list) else [given]
  if not names or not all(isinstance(name, str) for name in names):
    raise table.error('metric', 'must be a figure, or a list of figures')
  for name in names:
    _check_column(table, 'metric', name)
  kind = _one_of(
    table, 'kind', table.take('kind', (str,), 'bars'), ('bars', 'lines', 'rounds')
  )
  scale = _one_of(
    table, 'x_scale', table.take('x_scale', (str,), 'log'), ('log', 'linear')
  )
  x_label = table.take('x_label', (str,), '')
  table.end(('metric', 'kind', 'x_label', 'x_scale'))
  return study_lib.Plot(tuple(names), kind, x_label, scale)


def _flags(table: _Table, known: Iterable[str]) -> dict[str, Any]:
  """Returns flags and their values, which the study's tasks must know."""
  flags = table.rest()
  for name, value in flags.items():
    if name not in known:
      hint = settings_lib.did_you_mean(name, known)
      raise table.error(name, f'is not a flag of the study’s tasks{hint}')
    for element in value if isinstance(value, list) else [value]:
      if not _is_scalar(element):
        raise table.error(name, 'is not the value of a flag')
  return flags


def _entries(
  table: _Table, tasks: list[str], columns: list[str], flags: Iterable[str]
) -> list[study_lib.Entry]:
  entries = []
  for number, content in enumerate(table.take('arms', (list,))):
    if not isinstance(content, dict):
      raise table.error('arms', 'must be tables')
    inner = _Table(content, table._file, f'arms[{number}].')
    entries.append(_entry(inner, tasks, columns, flags))
  return entries


def _entry(
  table: _Table, tasks: list[str], columns: list[str], flags: Iterable[str]
) -> study_lib.Entry:
  grid = table.table('grid').rest()
  for name, values in grid.items():
    if not isinstance(values, list) or not values:
      raise table.error(f'grid.{name}', 'must be a list of values')
    if not all(map(_is_scalar, values)):
      raise table.error(f'grid.{name}', 'must be a list of texts, numbers or switches')
  made = study_lib.Entry(
    label=table.take('label', (str,)),
    use=table.texts('use', []),
    flags=_flags(table.table('flags'), flags),
    grid=grid,
    tasks=[
      _one_of(table, 'tasks', task, tasks) for task in table.texts('tasks', tasks)
    ],
    needs_flag=table.take('needs_flag', (str,), ''),
    curve=table.take('curve', (str,), ''),
    x=table.take('x', (str, *_NUMBER), ''),
    branch_from=table.take('branch_from', (str,), ''),
    at_round=table.take('at_round', (str, int), 0),
    paper={
      _one_of(table, 'paper', task, tasks): _paper(figures, grid, columns)
      for task, figures in table.tables('paper').items()
    },
  )
  if made.needs_flag and made.needs_flag not in flags:
    raise table.error('needs_flag', f'{made.needs_flag!r} is not a flag')
  table.end(study_lib.Entry.__annotations__)
  return made


def _paper(
  table: _Table, grid: Mapping[str, list[Any]], columns: list[str]
) -> dict[str, Any]:
  """Returns the paper's figures, which must have the shape of the grid."""
  figures = table.rest()
  for column, values in figures.items():
    _one_of(table, column, column, columns)
    sizes = [len(each) for each in grid.values()]
    if not _has_shape(values, sizes):
      shape = ' by '.join(map(str, sizes)) or 'one'
      raise table.error(column, f'must be numbers in the shape of the grid ({shape})')
  return figures


def _is_scalar(value: Any) -> bool:
  """Tells whether a value is a text, a switch or a number; integers have 64 bits."""
  is_too_large = isinstance(value, int) and abs(value) >= 2**63
  return isinstance(value, str | int | float | bool) and not is_too_large


def _has_shape(values: Any, sizes: list[int]) -> bool:
  if not sizes:
    return _is_scalar(values) and type(values) in _NUMBER
  return (
    isinstance(values, list)
    and len(values) == sizes[0]
    and all(_has_shape(each, sizes[1:]) for each in values)
  )


def _one_of(table: _Table, key: str, value: str, known: Iterable[str]) -> str:
  if value not in known:
    raise table.error(key, f'{value!r} is not one of {", ".join(known)}')
  return value


def _check_column(table: _Table, key: str, column: str) -> None:
  """Refuses a figure that no run has; `validation_auc@5` is one of round 5."""
  name, at, round_number = column.partition('@')
  if not metrics.is_known(name) or (
    at and not re.fullmatch('[0-9]{1,9}', round_number)
  ):
    hint = settings_lib.did_you_mean(name, metrics.METRICS)
    raise table.error(key, f'{column!r} is not a figure of runs{hint}')
