"""What each part of the package may import, and what its modules do import.

The one source of tests/layering_test.py, which holds the package to it, and of
`.ci/build_files.py`, which writes it into BUILD files. docs/design.md explains it.
"""

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / 'tff_textpriv'
BASE = frozenset({'files', 'settings', 'flags', 'randomness'})

# What each part may import of the package, besides itself.
ALLOWED: dict[str, frozenset[str]] = {
  '__main__': frozenset({'settings'}),
  'settings': frozenset(),
  'metrics': frozenset(),
  'sanity': frozenset({'metrics'}),
  'run_folder': frozenset({'files'}),
  'results': frozenset(
    {'flags', 'settings', 'run_folder', 'models', 'export', 'reports'}
  ),
  'flags': frozenset({'settings'}),
  'randomness': frozenset(),
  'files': frozenset(),
  'text': frozenset(),
  'privacy': BASE,
  'models': frozenset({'text'}),
  'datasets': BASE | {'text'},
  'aggregators': BASE | {'privacy'},
  'iterative_processes': BASE | {'text', 'privacy', 'models', 'aggregators'},
  'runtime': BASE,
  'reports': frozenset(
    {'files', 'settings', 'privacy', 'metrics', 'sanity', 'run_folder'}
  ),
  'export': frozenset({'files', 'run_folder', 'text', 'models'}),
}
ALLOWED['training'] = BASE | {
  'metrics',
  'sanity',
  'text',
  'privacy',
  'models',
  'datasets',
  'iterative_processes',
  'runtime',
}
ALLOWED['attacks'] = ALLOWED['training'] | {'aggregators', 'training', 'reports'}
ALLOWED['audits'] = ALLOWED['attacks']
ALLOWED['tasks'] = ALLOWED['training'] | {'training', 'reports'}
ALLOWED['experiments'] = ALLOWED['tasks'] | {'tasks', 'run_folder'}
ALLOWED['tools'] = ALLOWED['experiments'] | {
  'experiments',
  'attacks',
  'audits',
  'export',
  'results',
  'tasks',
}
ALLOWED['api'] = ALLOWED['tasks'] | {'tasks', 'results'}

# The parts that never import TFF.
NO_TFF = BASE | {
  'metrics',
  'sanity',
  'run_folder',
  'results',
  'text',
  'privacy',
  'models',
  'reports',
  'export',
}

# Distributions whose names are not those of the modules that are imported.
_DISTRIBUTIONS = {
  'IPython': 'ipython',
  'PIL': 'pillow',
  'absl': 'absl-py',
  'google': 'protobuf',
  'grpc': 'grpcio',
  'sklearn': 'scikit-learn',
  'tree': 'dm-tree',
}


def modules(folder: pathlib.Path) -> list[pathlib.Path]:
  """Returns the modules in a folder, at any depth."""
  return sorted(folder.rglob('*.py'))


def part(module: pathlib.Path) -> str:
  """Returns the part of the package to which a module belongs."""
  relative = module.relative_to(PACKAGE)
  return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports(module: pathlib.Path) -> set[str]:
  """Returns the dotted names that a module imports, at any depth."""
  names = set()
  for node in ast.walk(ast.parse(module.read_text())):
    if isinstance(node, ast.Import):
      names |= {alias.name for alias in node.names}
    elif isinstance(node, ast.ImportFrom):
      assert node.level == 0, f'{module}: relative import'
      names |= {f'{node.module}.{alias.name}' for alias in node.names}
  return names


def distributions(names: set[str]) -> set[str]:
  """Returns the distributions of imported names; not Python's own, nor this one."""
  tops = {name.split('.')[0] for name in names} - {PACKAGE.name}
  return {
    _DISTRIBUTIONS.get(top, top.replace('_', '-'))
    for top in tops - sys.stdlib_module_names
  }
