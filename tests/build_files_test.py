"""The BUILD files say what the source says: modules, imports, and who may import."""

import ast
import pathlib
import sys

import layering_test
import pytest

import tff_textpriv

_PACKAGE = pathlib.Path(tff_textpriv.__file__).parent
_ROOT = _PACKAGE.parent
_BUILD_FILES = sorted(
  [_ROOT / 'BUILD', *_PACKAGE.rglob('BUILD'), _ROOT / 'tests/BUILD']
)
_MODULES = sorted(_PACKAGE.rglob('*.py'))

# Parts that are modules of the root folder; the others are folders.
_ROOT_PARTS = {path.stem for path in _PACKAGE.glob('*.py')} - {'__init__'}
_PARTS = sorted(layering_test._ALLOWED)

# Distributions whose names are not those of the modules that are imported.
_DISTRIBUTIONS = {
  'absl': 'absl_py',
  'google': 'protobuf',
  'grpc': 'grpcio',
  'tree': 'dm_tree',
}


def _targets(build_file):
  """Returns the attributes of a BUILD file's libraries by name; literals only."""
  calls = [
    node.value
    for node in ast.parse(build_file.read_text()).body
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
  ]
  attributes = [
    {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    for call in calls
    if ast.unparse(call.func) == 'py_library'
  ]
  return {each['name']: each for each in attributes}


def _target(part):
  """Returns the library of a part of the package."""
  folder = _PACKAGE if part in _ROOT_PARTS else _PACKAGE / part
  return _targets(folder / 'BUILD')[part]


def _label(part, seen_from=None):
  """Writes the label of a part, as in another folder or as in that of `seen_from`."""
  if part not in _ROOT_PARTS:
    return f'//tff_textpriv/{part}'
  return f':{part}' if seen_from in _ROOT_PARTS else f'//tff_textpriv:{part}'


def _dependency(part, name):
  """Returns the label of an imported name; `None` for the part and for Python's own."""
  first, *rest = name.split('.')
  if first == 'tff_textpriv':
    return None if rest[0] == part else _label(rest[0], seen_from=part)
  if first in sys.stdlib_module_names:
    return None
  return f'@pypi//{_DISTRIBUTIONS.get(first, first)}'


def test_every_module_is_a_source_of_exactly_one_target():
  sources = [
    build_file.parent / source
    for build_file in sorted(_PACKAGE.rglob('BUILD'))
    for target in _targets(build_file).values()
    for source in target['srcs']
  ]
  assert sorted(sources) == _MODULES


@pytest.mark.parametrize('part', _PARTS)
def test_dependencies_are_the_real_imports(part):
  modules = [module for module in _MODULES if layering_test._part(module) == part]
  imported = {
    _dependency(part, name)
    for module in modules
    for name in layering_test._imports(module)
  }
  dependencies = _target(part).get('deps', [])
  assert set(dependencies) == imported - {None}
  assert len(set(dependencies)) == len(dependencies)


@pytest.mark.parametrize('part', _PARTS)
def test_a_target_is_visible_to_those_who_may_import_it(part):
  importers = {
    f'//tff_textpriv/{other}:__pkg__'
    for other, allowed in layering_test._ALLOWED.items()
    if part in allowed - {other} and other not in _ROOT_PARTS
  }
  # Targets of one folder see each other; the whole package names every folder.
  whole = set() if part in _ROOT_PARTS else {'//tff_textpriv:__pkg__'}
  assert set(_target(part)['visibility']) == importers | whole | {'//tests:__pkg__'}


def test_the_whole_package_depends_on_every_part():
  whole = _targets(_PACKAGE / 'BUILD')['tff_textpriv']
  assert set(whole['deps']) == {_label(part, seen_from='settings') for part in _PARTS}
  assert whole['visibility'] == ['//visibility:public']


@pytest.mark.parametrize('build_file', _BUILD_FILES, ids=lambda f: str(f.parent.name))
def test_what_a_build_file_calls_it_has_loaded(build_file):
  known = {'exports_files', 'glob', 'load', 'package'}
  for node in ast.walk(ast.parse(build_file.read_text())):
    if isinstance(node, ast.Call):
      name = ast.unparse(node.func)
      if name == 'load':
        assert ast.literal_eval(node.args[0]) == '@rules_python//python:defs.bzl'
        known |= {ast.literal_eval(argument) for argument in node.args[1:]}
      assert name in known
