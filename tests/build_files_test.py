"""The BUILD files say what the source says: modules, imports, and who may import."""

import build_files
import layers
import pytest


def _committed():
  """Returns the BUILD files of the repository with their content."""
  folders = [layers.PACKAGE, layers.ROOT / 'tests', layers.ROOT / 'benchmarks']
  files = [layers.ROOT / 'BUILD', *(f for d in folders for f in d.rglob('BUILD'))]
  return {file: file.read_text() for file in files}


def test_the_build_files_are_those_of_the_source():
  assert _committed() == build_files.contents(), (
    'BUILD files are old: run `make build-files`'
  )


def test_every_module_of_the_package_is_a_source_of_a_target():
  folders = {file.parent: text for file, text in _committed().items()}
  for module in layers.modules(layers.PACKAGE):
    assert f'"{module.name}"' in folders[module.parent]


def _allow_models_to_write_files(monkeypatch):
  monkeypatch.setitem(layers.ALLOWED, 'models', frozenset({'text', 'files'}))


def _let_a_module_import_another_package(monkeypatch):
  real = layers.imports
  monkeypatch.setattr(
    layers,
    'imports',
    lambda module: (
      real(module)
      | ({'scipy.stats'} if module == layers.PACKAGE / 'files.py' else set())
    ),
  )


def _add_a_module(monkeypatch):
  real = layers.modules
  monkeypatch.setattr(
    layers,
    'modules',
    lambda folder: (
      [*real(folder), folder / 'new.py'] if folder.name == 'text' else real(folder)
    ),
  )
  real_imports = layers.imports
  monkeypatch.setattr(
    layers,
    'imports',
    lambda module: set() if module.name == 'new.py' else real_imports(module),
  )


@pytest.mark.parametrize(
  'change, old',
  [
    (_allow_models_to_write_files, 'tff_textpriv'),
    (_let_a_module_import_another_package, 'tff_textpriv'),
    (_add_a_module, 'text'),
  ],
)
def test_a_change_of_the_source_makes_a_build_file_old(monkeypatch, change, old):
  change(monkeypatch)
  committed = _committed()
  differing = [
    file.parent.name
    for file, content in build_files.contents().items()
    if content != committed[file]
  ]
  assert differing == [old]
