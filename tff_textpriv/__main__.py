"""What there is to run: `python -m tff_textpriv` lists tasks and tools, `demo` is the first.

python -m tff_textpriv demo
"""

import pathlib
import runpy
import sys
from collections.abc import Sequence

from tff_textpriv import settings as settings_lib

_PACKAGE = pathlib.Path(__file__).parent

_FOLDERS = ('tasks', 'tools')
_DEMO = (
  'demo          train three private language models on generated text, in minutes, and '
  'write a page to look at'
)
_DEMO_FLAGS = _PACKAGE / 'experiments' / 'demo.flags'
_FIRST_STEPS = """\
python -m tff_textpriv NAME [--flag=value ...]     the same as python -m tff_textpriv.tasks.NAME
python -m tff_textpriv NAME --help                 what it does and which flags matter most
"""


def main(argv: Sequence[str]) -> int:
  """Runs what is named, or says what there is; returns the exit code."""
  if not argv or argv[0] in ('--help', '-h', 'help'):
    print(_page())
    return 0
  name, *given = argv
  commands = _commands()
  if name == 'demo':
    name, given = 'study', [*_demo_flags(), *given]
  if name not in commands:
    hint = settings_lib.did_you_mean(name, ['demo', *commands])
    print(
      f'error: {settings_lib.shown(name)} is no task and no tool{hint}; '
      'python -m tff_textpriv lists them',
      file=sys.stderr,
    )
    return 2
  sys.argv = [name, *given]
  runpy.run_module(commands[name], run_name='__main__', alter_sys=True)
  return 0


def _commands() -> dict[str, str]:
  """Returns the modules of all commands by name, tasks first."""
  return {
    file.stem: f'tff_textpriv.{folder}.{file.stem}'
    for folder in _FOLDERS
    for file in sorted((_PACKAGE / folder).glob('*.py'))
    if "if __name__ == '__main__':" in file.read_text(encoding='utf-8')
  }


def _page() -> str:
  """Lists what can be run, with the first sentence of each."""
  lines = [_FIRST_STEPS]
  for folder in _FOLDERS:
    lines.append(f'{folder}:')
    lines += ['  ' + _DEMO] * (folder == 'tasks')
    lines += [
      f'  {name:<14}{_summary(module)}'
      for name, module in _commands().items()
      if f'.{folder}.' in module
    ]
    lines.append('')
  return '\n'.join(lines).rstrip()


def _summary(module: str) -> str:
  """Returns the first line of a module's docstring, without importing it."""
  file = _PACKAGE.parent / f'{module.replace(".", "/")}.py'
  return file.read_text(encoding='utf-8').split('"""')[1].splitlines()[0]


def _demo_flags() -> list[str]:
  """Returns the flags of the demo themselves: its page shows them, to be repeated."""
  lines = _DEMO_FLAGS.read_text(encoding='utf-8').splitlines()
  return [line for line in lines if line.startswith('--')]


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
