"""The lock has hashes for everything, and the page of licences is that of the lock."""

import importlib.util
import pathlib
import re

_ROOT = pathlib.Path(__file__).parents[1]


def _dependencies():
  """Imports the script that makes the page."""
  script = _ROOT / '.ci' / 'dependencies.py'
  spec = importlib.util.spec_from_file_location('dependencies', script)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def test_every_requirement_is_pinned_with_hashes():
  lines = (_ROOT / 'requirements.lock').read_text().replace('\\\n', ' ').splitlines()
  requirements = [line for line in lines if line and not line.startswith('#')]
  assert len(requirements) > 50
  for requirement in requirements:
    assert re.match(r'[\w.-]+==\S+ +--hash=sha256:[0-9a-f]{64}', requirement)


def test_the_page_of_licences_is_that_of_the_lock():
  dependencies = _dependencies()
  assert (_ROOT / 'docs' / 'dependencies.md').read_text() == dependencies.page(), (
    'docs/dependencies.md is old: run `make dependencies`'
  )


def test_every_package_states_a_licence():
  dependencies = _dependencies()
  without = [name for name in dependencies.pins() if not dependencies.licence(name)]
  assert not without
