"""The direction of imports, read from the source: see docs/design.md."""

import subprocess
import sys

import layers
import pytest


@pytest.mark.parametrize(
  'module',
  layers.modules(layers.PACKAGE),
  ids=lambda m: str(m.relative_to(layers.PACKAGE)),
)
def test_imports_point_in_one_direction(module):
  part, names = layers.part(module), layers.imports(module)
  ours = {name.split('.')[1] for name in names if name.startswith('tff_textpriv.')}
  if part == '__init__':
    # For type checkers; nothing is imported before it is asked for, see below.
    folders = {'aggregators', 'iterative_processes', 'privacy', 'tasks'}
    assert ours <= {'api', 'results', *folders}
    return
  assert ours - {part} <= layers.ALLOWED[part]
  if part in layers.NO_TFF:
    assert not any(name.startswith('tensorflow_federated') for name in names)


def test_importing_the_package_imports_none_of_its_modules():
  script = (
    'import sys, tff_textpriv;'
    'assert not any(name.startswith("tff_textpriv.") for name in sys.modules);'
    'assert set(tff_textpriv.__all__) <= set(dir(tff_textpriv));'
    'found = [getattr(tff_textpriv, name) for name in tff_textpriv.__all__'
    ' if name != "aggregators"];'
    'assert None not in found and callable(tff_textpriv.run);'
    'assert tff_textpriv.tasks.stackoverflow.TASK.name == "stackoverflow";'
    'sys.exit("tensorflow" in sys.modules)'
  )
  subprocess.run([sys.executable, '-c', script], check=True)


def test_results_are_read_by_a_python_without_packages():
  # -S leaves site-packages out, as in a notebook whose Python is not that of the runs.
  script = (
    f'import sys; sys.path.insert(0, {str(layers.ROOT)!r});'
    'import tff_textpriv; tff_textpriv.load'
  )
  subprocess.run([sys.executable, '-I', '-S', '-c', script], check=True)


def test_a_task_s_flags_are_read_without_importing_tensorflow():
  script = (
    'import sys; from tff_textpriv.tasks import base, help_pages, stackoverflow;'
    'base.parse(stackoverflow.TASK, ["--algo=dp_fed_avg", "--target_epsilon=2"]);'
    'help_pages.page(stackoverflow.TASK);'
    'sys.exit("tensorflow" in sys.modules)'
  )
  subprocess.run([sys.executable, '-c', script], check=True)
