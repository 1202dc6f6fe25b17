"""What there is to run: `python -m tff_textpriv` lists tasks and tools, `demo` is the first.

python -m tff_textpriv demo
"""

import importlib.util
import pkgutil
import runpy
import sys
from collections.abc import Sequence

import tff_textpriv
from tff_textpriv import settings as settings_lib

_FOLDERS = ('tasks', 'tools')
_DEMO = (
  'demo          train three private language models on generated text, in minutes, and '
  'write a page to look at'
)
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
    name, given = 'study', [f'--flagfile={_demo_flags()}', *given]
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
  found = {}
  for folder in _FOLDERS:
    path = f'{tff_textpriv.__path__[0]}/{folder}'
    for module in pkgutil.iter_modules([path]):
      if "if __name__ == '__main__':" in _source(f'{path}/{module.name}.py'):
        found[module.name] = f'tff_textpriv.{folder}.{module.name}'
  return found


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
  spec = importlib.util.find_spec(module)
  assert spec is not None and spec.origin is not None  # It was found.
  return _source(spec.origin).split('"""')[1].splitlines()[0]


def _source(path: str) -> str:
  with open(path, encoding='utf-8') as file:
    return file.read()


def _demo_flags() -> str:
  return f'{tff_textpriv.__path__[0]}/experiments/demo.flags'


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
