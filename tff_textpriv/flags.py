"""Command lines from typed settings: absl flags, grouped help, one-line errors.

Every field of a `Settings` class becomes a flag of the same name. Fields of the
same name in several groups (all algorithms have a client learning rate) share
one flag; each group keeps its own default and range. A field that is declared
`positional` is not a flag: it takes the arguments without a name, in order.
"""

import dataclasses
import os
import sys
import textwrap
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from absl import flags as absl_flags

from tff_textpriv import settings as settings_lib

_SettingsT = TypeVar('_SettingsT', bound=settings_lib.Settings)
FULL_HELP = '--helpfull'
_HELP_FLAGS = ('--help', '-help', '-h', FULL_HELP)
HELP_WIDTH = 96


@dataclasses.dataclass(frozen=True)
class Group:
  """Settings that stand together in `--help` under a title."""

  title: str
  settings: type[settings_lib.Settings]

  def fields(self) -> tuple[dataclasses.Field, ...]:
    """Returns the group's fields, one flag each, its own before inherited ones."""
    own = self.settings.__annotations__
    fields = dataclasses.fields(self.settings)
    return tuple(sorted(fields, key=lambda field: field.name not in own))


class UsageError(ValueError):
  """The command line cannot be understood."""


class HelpRequested(Exception):
  """`--help` stands on the command line."""


def without_help(argv: Sequence[str]) -> list[str]:
  """Returns the arguments of a command line that do not ask for help."""
  return [argument for argument in argv if argument not in _HELP_FLAGS]


def expand_flagfiles(argv: Sequence[str]) -> list[str]:
  """Replaces each `--flagfile=F` by the flags that the file holds."""
  files = [part for part in argv if part.lstrip('-').startswith('flagfile')]
  try:
    expanded = absl_flags.FlagValues().read_flags_from_files(list(argv))
  except absl_flags.Error as error:
    raise UsageError(str(error)) from error
  except UnicodeDecodeError as error:
    raise UsageError(
      f'{" ".join(files)} is no text in UTF-8 with a flag a line: {error}'
    ) from None
  # Such a file may be anything, users' text too: nothing of it is told.
  if any(not part.startswith('-') and part not in argv for part in expanded):
    raise UsageError(f'{" ".join(files)} has a line that is no flag, --name=value')
  return expanded


def parse(argv: Sequence[str], groups: Sequence[Group]) -> dict[str, Any]:
  """Reads the flags that were given on a command line, not yet converted.

  Flags and arguments without a name may be mixed; `--` ends the flags.

  Args:
    argv: The arguments, without the program's name. `--flagfile=F` is absl's.
    groups: Every group whose flags are known.

  Returns:
    A map from the names of the settings that were given to their texts; a positional
    list is a tuple of texts.

  Raises:
    HelpRequested: If help is asked for.
    UsageError: For an unknown flag, a flag without value, a stray argument or a
      missing one.
  """
  if len(without_help(argv)) < len(argv):
    raise HelpRequested()
  values = absl_flags.FlagValues()
  values.set_gnu_getopt()
  fields = _unique_fields(groups)
  for field in fields:
    if field.metadata['positional']:
      continue
    define = (
      absl_flags.DEFINE_boolean if _is_switch(field) else absl_flags.DEFINE_string
    )
    define(field.name, None, field.metadata['help'], flag_values=values)
  try:
    typed = [in_full(part, values) for part in expand_flagfiles(argv)]
    arguments = values(['program', *typed])[1:]
  except absl_flags.UnrecognizedFlagError as error:
    unknown = f'--{error.flagname}'
    hint = settings_lib.did_you_mean(unknown, [f'--{name}' for name in values])
    raise UsageError(f'{unknown} is not a flag of this command{hint}') from error
  except absl_flags.Error as error:
    raise UsageError(str(error)) from error
  except RecursionError as error:  # absl's search for names that are alike.
    longest = max(expand_flagfiles(argv), key=len)
    raise UsageError(
      f'--{longest.lstrip("-")[:40]}... is not a flag of this command'
    ) from error
  given = {
    name: settings_lib.format_value(values[name].value)
    for name in values
    if values[name].present
  }
  return given | _assign(arguments, _positionals(fields))


def in_full(argument: str, known: Container[str]) -> str:
  """Returns an argument with the name of the flag that is meant by a short one.

  Args:
    argument: `--epsilon=2`, or what is no short name, and stays.
    known: The names of the flags that there are; a short name among them is meant.
  """
  name, equals, value = argument.partition('=')
  short = name.lstrip('-')
  meant = settings_lib.SHORT_NAMES.get(short)
  if not name.startswith('-') or meant is None or short in known or meant not in known:
    return argument
  return f'--{meant}{equals}{value}'


def make(cls: type[_SettingsT], given: Mapping[str, Any]) -> _SettingsT:
  """Makes settings of a class; what is not given has its default.

  Args:
    cls: The class.
    given: Texts of flags or Python values, by name; names of other classes are passed
      over.
  """
  return cls(
    **{
      field.name: _convert(field, given[field.name])
      for field in dataclasses.fields(cls)
      if field.name in given
    }
  )


def format_help(usage: str, description: str, groups: Sequence[Group]) -> str:
  """Writes the help page: usage, what the command does, and flags by group."""
  lines = [
    f'usage: {usage}',
    '',
    *textwrap.wrap(description, HELP_WIDTH, break_on_hyphens=False),
  ]
  for group in groups:
    if not group.fields():
      continue
    lines += ['', f'{group.title}:']
    for field in group.fields():
      lines.append(f'  {_shown_name(field)}')
      lines += textwrap.wrap(
        f'{field.metadata["help"]} ({_facts(field)})',
        HELP_WIDTH,
        initial_indent=' ' * 6,
        subsequent_indent=' ' * 6,
      )
  return '\n'.join(lines)


def run(
  main: Callable[[_SettingsT], int | None],
  settings_class: type[_SettingsT],
  description: str,
) -> NoReturn:
  """Runs a tool whose arguments are the fields of one settings class, and exits.

  Args:
    main: The tool; returns its exit code (`None` means 0).
    settings_class: The tool's settings.
    description: What the tool does, for `--help`.
  """
  spec = sys.modules['__main__'].__spec__
  groups = [Group('Flags', settings_class)]
  shown = [_shown_name(field) for field in _positionals(_unique_fields(groups))]
  usage = ' '.join(
    ['python -m', spec.name if spec else sys.argv[0], *shown, '[--flag=value ...]']
  )

  def parse_and_run() -> int | None:
    return main(make(settings_class, parse(sys.argv[1:], groups)))

  exit_with_sentences(parse_and_run, lambda: format_help(usage, description, groups))


def exit_with_sentences(
  command: Callable[[], int | None], help_page: Callable[[], str]
) -> NoReturn:
  """Runs `command` and exits; an error of the user's becomes one sentence.

  The message of a mistake goes to stderr and the exit code is 2. Any other exception
  is ours and keeps its traceback.
  """
  silence_tensorflow()
  try:
    try:
      code = command()
    except HelpRequested:
      _print_page(help_page())
      code = 0
  except KeyboardInterrupt:
    print('stopped', file=sys.stderr)
    code = 130
  except ValueError as error:
    if not is_mistake(error):
      raise
    print(f'error: {error}', file=sys.stderr)
    code = 2
  sys.exit(code or 0)


def _print_page(page: str) -> None:
  """Prints a page whose reader may leave before its end, as `| head` does."""
  try:
    print(page, flush=True)
  except BrokenPipeError:
    # Python tries once more as it exits, and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_mistake(error: BaseException) -> bool:
  """Tells whether an error is the user's to mend.

  Such are the `ValueError`s of this package: of settings, data files, privacy.
  """
  return isinstance(error, ValueError) and type(error).__module__.startswith(
    'tff_textpriv'
  )


def silence_tensorflow() -> None:
  """Before TensorFlow is imported: its remarks on the machine are no news to users."""
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')


def _unique_fields(groups: Sequence[Group]) -> list[dataclasses.Field]:
  """Returns the groups' fields, the first one of each name."""
  by_name: dict[str, dataclasses.Field] = {}
  for group in groups:
    for field in group.fields():
      by_name.setdefault(field.name, field)
  return list(by_name.values())


def _positionals(fields: Sequence[dataclasses.Field]) -> list[dataclasses.Field]:
  """Returns the fields that take arguments without a name, in their order."""
  return [field for field in fields if field.metadata['positional']]


def _assign(
  arguments: Sequence[str], fields: Sequence[dataclasses.Field]
) -> dict[str, str | tuple[str, ...]]:
  """Deals the arguments without a name to the fields; a list takes all that are left."""
  given: dict[str, str | tuple[str, ...]] = {}
  left = list(arguments)
  for field in fields:
    if not left:
      if field.default is settings_lib.REQUIRED:
        raise UsageError(f'{_shown_name(field)} is missing: {field.metadata["help"]}')
    elif settings_lib.value_type(field)[1]:
      given[field.name] = tuple(left)
      left = []
    else:
      given[field.name] = left.pop(0)
  if left and fields:
    raise UsageError(f'{left[0]!r} is one argument too many')
  if left:
    raise UsageError(f'{left[0]!r} is not a flag; flags look like --name=value')
  return given


def _shown_name(field: dataclasses.Field) -> str:
  """Writes a field's name as it stands in the usage and in the help."""
  if field.metadata['positional']:
    return f'<{field.name}{"..." if settings_lib.value_type(field)[1] else ""}>'
  return f'--[no]{field.name}' if _is_switch(field) else f'--{field.name}'


def _facts(field: dataclasses.Field) -> str:
  """Writes what a field may be, and what it is if it is not given."""
  if field.default is settings_lib.REQUIRED:
    default = 'must be given'
  elif field.default is None:
    default = 'default: not set'
  else:
    default = f'default: {settings_lib.format_value(field.default)}'
  if field.metadata['positional']:
    return default
  return f'{settings_lib.allowed_range(field)}; {default}'


def _is_switch(field: dataclasses.Field) -> bool:
  """Tells whether a field is a single boolean."""
  return settings_lib.value_type(field) == (bool, False)


def _convert(field: dataclasses.Field, given: Any) -> Any:
  """Converts a flag's text, or a Python value like it, to its field's type."""
  if field.metadata['positional']:
    return given
  element_type, is_list = settings_lib.value_type(field)
  if not isinstance(given, str):
    return _python_value(given, element_type)
  text = given
  elements = [text]
  if is_list:
    elements = [part.strip() for part in text.split(',')] if text else []
  if element_type is bool:
    converted: list[Any] = [element == 'true' for element in elements]
  else:
    try:
      converted = [element_type(element) for element in elements]
    except ValueError:
      # What Python says quotes the text, however long it is.
      raise settings_lib.SettingsError(
        field.name, text, f'must be {settings_lib.allowed_range(field)}'
      ) from None
  return tuple(converted) if is_list else converted[0]


def _python_value(given: Any, element_type: type) -> Any:
  """Returns lists as tuples, paths as texts, and numbers as the type of the field."""
  if isinstance(given, list | tuple):
    return tuple(_python_value(element, element_type) for element in given)
  if isinstance(given, os.PathLike):
    return os.fspath(given)
  value = given.item() if getattr(given, 'shape', None) == () else given
  return float(value) if element_type is float and type(value) is int else value
