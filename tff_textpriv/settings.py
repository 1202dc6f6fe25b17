"""Typed settings: the single source of flags, defaults, help texts and checks.

A group of settings is a frozen dataclass derived from `Settings`, whose fields
are made with `setting(...)`. `tff_textpriv.flags` turns the fields into
command-line flags; constructing the dataclass checks every value. Nothing here
imports TensorFlow, so that `--help` and argument errors answer at once.
"""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any

# The default of a setting that has none: it must be given.
REQUIRED: Any = dataclasses.MISSING
_MOST_SUGGESTIONS = 3
# No file has a longer name, and no other value is longer: it is rather somebody's data.
_LONGEST_NAME = 255
_LONGEST_SHOWN = 100
# What settings were called before, and what they are called now.
_RENAMED = {'dropout_rate': 'device_failure_rate'}
# What people type for short, where there is no flag of that name.
SHORT_NAMES = {'epsilon': 'target_epsilon'}


class SettingsError(ValueError):
  """A setting has a value that cannot be used; the message names its flag."""

  def __init__(self, name: str, value: Any, problem: str):
    self.name = shown(name)
    given = '' if value is None else f'={shown(format_value(value))}'
    super().__init__(f'--{self.name}{given}: {problem}')


class IncompatibleSettingsError(ValueError):
  """Settings that are each valid but cannot be used together."""


def setting(
  default: Any,
  help_text: str,
  *,
  low: float | None = None,
  above: float | None = None,
  high: float | None = None,
  below: float | None = None,
  choices: Sequence[str] | None = None,
  positional: bool = False,
  key: str = '',
) -> Any:
  """Declares one setting: a dataclass field with its help and allowed range.

  Args:
    default: The value when the flag is not given; `None` means "not set", `REQUIRED`
      that it must be given.
    help_text: What the setting does, for `--help`.
    low: The smallest allowed number.
    above: A number that the value must exceed.
    high: The largest allowed number.
    below: A number that the value must stay under.
    choices: The allowed strings.
    positional: Whether it is an argument without a name, a `str` or, as the last one,
      a `tuple[str, ...]`, instead of a flag.
    key: What the first page of help says of it in a few words, if it is one of the
      flags that matter most; goes for fields that take its place in derived classes.

  Returns:
    A `dataclasses.field` that carries the above as metadata.
  """
  limits = {'low': low, 'above': above, 'high': high, 'below': below}
  return dataclasses.field(
    default=default,
    metadata={
      'help': help_text,
      'limits': {key: bound for key, bound in limits.items() if bound is not None},
      'choices': tuple(choices) if choices is not None else None,
      'positional': positional,
      'key': key,
    },
  )


@dataclasses.dataclass(frozen=True)
class Settings:
  """Base of all setting groups; checks each field against its declaration."""

  def __post_init__(self) -> None:
    for field in dataclasses.fields(self):
      _check(field, getattr(self, field.name))


def key_text(cls: type[Settings], name: str) -> str:
  """Returns a field's `key`, declared in the class or in one that it inherits."""
  declared = (vars(each).get('__dataclass_fields__', {}) for each in cls.__mro__)
  texts = (fields[name].metadata['key'] for fields in declared if name in fields)
  return next(filter(None, texts), '')


def value_type(field: dataclasses.Field) -> tuple[type, bool]:
  """Returns a field's element type and whether it is a comma-separated list."""
  annotation: Any = field.type
  if isinstance(annotation, types.UnionType):
    annotation = next(a for a in annotation.__args__ if a is not type(None))
  if typing.get_origin(annotation) is tuple:
    return typing.get_args(annotation)[0], True
  return annotation, False


def allowed_range(field: dataclasses.Field) -> str:
  """Describes a field's allowed values, e.g. `a number > 0 and <= 1`."""
  if field.metadata['choices'] is not None:
    return 'one of ' + ', '.join(field.metadata['choices'])
  element_type, is_list = value_type(field)
  name = {
    int: 'an integer',
    float: 'a number',
    bool: 'true or false',
    str: 'a string',
  }[element_type]
  if is_list:
    name = f'a comma-separated list, each {name}'
  signs = {'low': '>=', 'above': '>', 'high': '<=', 'below': '<'}
  bounds = [
    f'{signs[key]} {bound:g}' for key, bound in field.metadata['limits'].items()
  ]
  return f'{name} {" and ".join(bounds)}'.strip()


def did_you_mean(name: Any, known: Iterable[str]) -> str:
  """Returns a hint, `; did you mean X or Y?`, if known names are like a wrong one.

  Alike are names that differ in underscores and capitals only (`fedavg`, `fed_avg`), begin
  with the wrong one, have it as a word (`epsilon` in `target_epsilon`), or differ in a few
  letters, in this order; the first kind leaves no doubt. Dashes before all of
  them do not matter. A name that a setting had before leads to the one it has now.
  """
  wrong = str(name)
  known = list(known)
  bare = wrong.lstrip('-')
  now = wrong.removesuffix(bare) + _RENAMED.get(bare, '')
  if now in known:
    return f'; it is called {now} now'
  same = [other for other in known if _letters(other) == _letters(wrong)]
  if same:
    return f'; did you mean {same[0]}?'
  alike = [other for other in known if other.startswith(f'{wrong}_')]
  alike += [other for other in known if f'_{bare}_' in f'{other}_']
  alike += difflib.get_close_matches(wrong, known, 1)
  *others, last = list(dict.fromkeys(alike))[:_MOST_SUGGESTIONS] or ['']
  names = f'{", ".join(others)} or {last}' if others else last
  return f'; did you mean {names}?' if names else ''


def _letters(name: str) -> str:
  return name.replace('_', '').replace('-', '').lower()


def format_value(value: Any) -> str:
  """Writes a value as one would type it after `--flag=`."""
  if isinstance(value, bool):
    return str(value).lower()
  if isinstance(value, tuple | list):
    return ','.join(format_value(element) for element in value)
  return str(value)


def shown(text: str) -> str:
  """Returns a name or a value for a message; if it may be data, only its length."""
  if len(text) <= _LONGEST_SHOWN and text.isprintable():
    return text
  return f'(a text of {len(text):,} characters)'


def _check(field: dataclasses.Field, value: Any) -> None:
  """Raises `SettingsError` unless `value` is allowed for `field`."""
  if value is None:
    if isinstance(field.type, types.UnionType) and type(None) in field.type.__args__:
      return
    raise SettingsError(field.name, value, f'must be {allowed_range(field)}')
  element_type, is_list = value_type(field)
  elements = value if is_list and isinstance(value, tuple | list) else (value,)
  for element in elements:
    if not isinstance(element, str | int | float):
      # Perhaps somebody's data: its kind is told, and nothing of what is in it.
      raise SettingsError(
        field.name,
        None,
        f'must be {allowed_range(field)}, and no {type(element).__name__}',
      )
    if isinstance(element, str) and not _is_name(element):
      raise SettingsError(
        field.name,
        None,
        f'must be {allowed_range(field)} in one line that could be the name of a file, '
        f'and no text of {len(element):,} characters',
      )
    if not _is_allowed(field, element_type, element):
      hint = did_you_mean(element, field.metadata['choices'] or ())
      raise SettingsError(field.name, value, f'must be {allowed_range(field)}{hint}')


def _is_name(text: str) -> bool:
  """Tells whether a text could be a name or a path, and not a document."""
  return text.isprintable() and all(
    len(part) <= _LONGEST_NAME for part in text.split('/')
  )


def _is_allowed(field: dataclasses.Field, element_type: type, element: Any) -> bool:
  """Tells whether one element has the declared type and lies in its range."""
  if element_type is float and type(element) is int:
    element = float(element)
  if type(element) is not element_type:
    return False
  if field.metadata['choices'] is not None:
    return element in field.metadata['choices']
  if element != element:  # NaN, which the range of no setting includes.
    return False
  within = {
    'low': lambda bound: element >= bound,
    'above': lambda bound: element > bound,
    'high': lambda bound: element <= bound,
    'below': lambda bound: element < bound,
  }
  return all(within[key](bound) for key, bound in field.metadata['limits'].items())
