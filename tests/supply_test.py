"""The lock has hashes for everything, and the page of licences is that of the lock."""

import pathlib
import re
import runpy

import dependencies
import layers
import setuptools

_ROOT = pathlib.Path(__file__).parents[1]


def test_every_requirement_is_pinned_with_hashes():
  lines = (_ROOT / 'requirements.lock').read_text().replace('\\\n', ' ').splitlines()
  requirements = [line for line in lines if line and not line.startswith('#')]
  assert len(requirements) > 50
  for requirement in requirements:
    assert re.match(r'[\w.-]+==\S+ +--hash=sha256:[0-9a-f]{64}', requirement)


def test_the_page_of_licences_is_that_of_the_lock():
  assert (_ROOT / 'docs' / 'dependencies.md').read_text() == dependencies.page(), (
    'docs/dependencies.md is old: run `make dependencies`'
  )


def test_every_package_states_a_licence():
  without = [name for name in dependencies.pins() if not dependencies.licence(name)]
  assert not without


# Required without an import of ours: what it is for.
_NOT_IMPORTED = {
  'setuptools',  # tensorflow-hub, which tensorflow-text imports, needs pkg_resources.
  'tensorflow-privacy',  # For its aggregation queries.
}


def test_what_the_package_imports_is_what_it_requires(monkeypatch):
  asked = {}
  monkeypatch.setattr(setuptools, 'setup', asked.update)
  runpy.run_path(str(_ROOT / 'setup.py'))
  required = {re.split('[<>=]', each)[0] for each in asked['install_requires']}
  names = set().union(*(layers.imports(m) for m in layers.modules(layers.PACKAGE)))
  imported = layers.distributions(names)
  assert imported <= required
  assert required - imported <= _NOT_IMPORTED
