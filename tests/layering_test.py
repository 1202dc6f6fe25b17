"""The direction of imports, read from the source: see docs/design.md."""

import ast
import pathlib
import subprocess
import sys

import pytest

import tff_textpriv

_PACKAGE = pathlib.Path(tff_textpriv.__file__).parent
_BASE = {'files', 'settings', 'flags', 'randomness'}

# What each part may import of the package, besides itself.
_ALLOWED = {
  'settings': set(),
  'results': {'settings', 'files', 'models'},
  'flags': {'settings'},
  'randomness': set(),
  'files': set(),
  'text': set(),
  'privacy': _BASE,
  'models': {'text'},
  'datasets': _BASE | {'text'},
  'aggregators': _BASE | {'privacy'},
  'iterative_processes': _BASE | {'text', 'privacy', 'models', 'aggregators'},
  'runtime': _BASE,
  'reports': {'files', 'settings'},
  'export': {'files', 'text', 'models'},
  'training': _BASE
  | {'text', 'privacy', 'models', 'datasets', 'iterative_processes', 'runtime'},
}
_ALLOWED['attacks'] = _BASE | {
  'text',
  'privacy',
  'models',
  'datasets',
  'aggregators',
  'iterative_processes',
}
_ALLOWED['tasks'] = _ALLOWED['training'] | {'training', 'reports'}
_ALLOWED['tools'] = _ALLOWED['tasks'] | {'tasks', 'attacks', 'export', 'results'}
_ALLOWED['api'] = _ALLOWED['tasks'] | {'tasks', 'results'}
_NO_TFF = _BASE | {'results', 'text', 'privacy', 'models', 'reports', 'export'}

_MODULES = sorted(_PACKAGE.rglob('*.py'))


def _part(module: pathlib.Path) -> str:
  relative = module.relative_to(_PACKAGE)
  return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def _imports(module: pathlib.Path) -> set[str]:
  """Returns the dotted names that a module imports, at any depth."""
  names = set()
  for node in ast.walk(ast.parse(module.read_text())):
    if isinstance(node, ast.Import):
      names |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f'{module}: relative import'
      names |= {f'{node.module}.{alias.name}' for alias in node.names}
  return names


@pytest.mark.parametrize('module', _MODULES, ids=lambda m: str(m.relative_to(_PACKAGE)))
def test_imports_point_in_one_direction(module):
  part = _part(module)
  ours = {n.split('.')[1] for n in _imports(module) if n.startswith('tff_textpriv.')}
  if part == '__init__':
    # For type checkers; nothing is imported before it is asked for, see below.
    assert ours <= {'api', 'results'}
    return
  assert ours - {part} <= _ALLOWED[part]
  if part in _NO_TFF:
    assert not any(name.startswith('tensorflow_federated') for name in _imports(module))


def test_importing_the_package_imports_none_of_its_modules():
  script = (
    'import sys, tff_textpriv;'
    'assert not any(name.startswith("tff_textpriv.") for name in sys.modules);'
    'assert {"run", "load", "Result"} <= set(dir(tff_textpriv));'
    'assert callable(tff_textpriv.run);'
    'sys.exit("tensorflow" in sys.modules)'
  )
  subprocess.run([sys.executable, '-c', script], check=True)


def test_results_are_read_by_a_python_without_packages():
  # -S leaves site-packages out, as in a notebook whose Python is not that of the runs.
  script = (
    f'import sys; sys.path.insert(0, {str(_PACKAGE.parent)!r});'
    'import tff_textpriv; tff_textpriv.load'
  )
  subprocess.run([sys.executable, '-I', '-S', '-c', script], check=True)


def test_a_task_s_flags_are_read_without_importing_tensorflow():
  script = (
    'import sys; from tff_textpriv.tasks import base, stackoverflow;'
    'base.parse(stackoverflow.TASK, ["--algo=dp_fed_avg", "--target_epsilon=2"]);'
    'base.help_page(stackoverflow.TASK);'
    'sys.exit("tensorflow" in sys.modules)'
  )
  subprocess.run([sys.executable, '-c', script], check=True)
