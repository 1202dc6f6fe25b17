"""Writes the BUILD files: what `layers` knows of modules, imports and who may import.

Run by `make build-files`; tests/build_files_test.py compares them with the source.
"""

import pathlib
from collections.abc import Iterable

import layers

_LOAD = 'load("@rules_python//python:defs.bzl", "py_library")\n'
_TO_ALL = ['//visibility:public']
_TO_TESTS = '//tests:__pkg__'
# Modules of the benchmarks whose packages are not in the lock (`make benchmark-peers`).
_PEERS = 'contenders/peers'

_ROOT_FILE = '''\
"""The root of the repository, for use as a Bazel module or repository of your own.

The targets name third-party packages as `@pypi//...`: let `pip.parse` of rules_python
make a hub of that name from requirements.lock, with a Python 3.11 toolchain. Commands
run from a py_binary with `main_module = "tff_textpriv.tasks.stackoverflow"`, say, that
depends on //tff_textpriv.

What each target may depend on is the layering of docs/design.md: `deps` are the real
imports and `visibility` says who may import. `make build-files` writes all BUILD files.
"""

{load}
exports_files([
    "LICENSE",
    "requirements.lock",
])

{scripts}'''
_PACKAGE_DOC = (
  'The package as one target, and the modules on which all its parts stand.'
)
_TESTS_DOC = """\
The tests, which may reach every part of the package.

They are pytest functions: `make test` runs them, as does any pytest rule of your own
that depends on this target.
"""
_BENCHMARKS_DOC = (
  'Measurements of speed, scale and start-up; nothing else depends on them.'
)


def contents() -> dict[pathlib.Path, str]:
  """Returns what the BUILD files should hold."""
  folders = [part for part in layers.ALLOWED if not _in_root(part)]
  return {
    layers.ROOT / 'BUILD': _ROOT_FILE.format(load=_LOAD, scripts=_scripts()),
    layers.ROOT / 'tests/BUILD': _file(_TESTS_DOC, _tests()),
    layers.ROOT / 'benchmarks/BUILD': _file(_BENCHMARKS_DOC, _benchmarks()),
    layers.PACKAGE / 'BUILD': _file(_PACKAGE_DOC, _whole(), *_root_parts()),
    **{_folder(part) / 'BUILD': _file(_doc(part), _part(part)) for part in folders},
  }


def _in_root(part: str) -> bool:
  """Tells whether a part is a module beside the package's `__init__`."""
  return (layers.PACKAGE / f'{part}.py').is_file()


def _folder(part: str) -> pathlib.Path:
  return layers.PACKAGE if _in_root(part) else layers.PACKAGE / part


def _doc(part: str) -> str:
  """Returns the first line of the docstring of a part's folder."""
  text = (_folder(part) / '__init__.py').read_text()
  return text.split('\n')[0].removeprefix('"""').removesuffix('"""')


def _whole() -> str:
  return _library(
    name=layers.PACKAGE.name,
    srcs=['__init__.py'],
    data=_data(layers.PACKAGE),
    visibility=_TO_ALL,
    deps=[_label(part, layers.PACKAGE) for part in layers.ALLOWED],
  )


def _root_parts() -> list[str]:
  return [_part(part) for part in sorted(layers.ALLOWED) if _in_root(part)]


def _part(part: str) -> str:
  """Writes the library of a part of the package."""
  folder = _folder(part)
  if _in_root(part):
    modules = [folder / f'{part}.py']
    to_whole = []  # Targets of one folder see each other.
  else:
    modules = layers.modules(folder)
    to_whole = [f'//{layers.PACKAGE.name}:__pkg__']
  importers = [
    f'//{layers.PACKAGE.name}/{other}:__pkg__'
    for other, allowed in layers.ALLOWED.items()
    if part in allowed and other != part and not _in_root(other)
  ]
  return _library(
    name=part,
    srcs=[module.relative_to(folder).as_posix() for module in modules],
    data=[] if _in_root(part) else _data(folder),
    visibility=[_TO_TESTS, *to_whole, *importers],
    deps=[*_parts(part, modules), *_packages(modules)],
  )


def _tests() -> str:
  folder = layers.ROOT / 'tests'
  modules = layers.modules(folder)
  scripts = layers.modules(layers.ROOT / '.ci')
  neighbours = ['benchmarks', *(module.stem for module in [*modules, *scripts])]
  return _library(
    name='tests',
    testonly=True,
    srcs=_Expression('glob(["**/*.py"])'),
    visibility=_TO_ALL,
    deps=[
      '//:ci',
      '//benchmarks',
      f'//{layers.PACKAGE.name}',
      *(_label(part, folder) for part in layers.ALLOWED),
      *_packages(modules, neighbours),
    ],
  )


def _benchmarks() -> str:
  folder = layers.ROOT / 'benchmarks'
  modules = [
    each for each in layers.modules(folder) if not each.is_relative_to(folder / _PEERS)
  ]
  return _library(
    name='benchmarks',
    testonly=True,
    srcs=_Expression(
      f'glob(\n        ["**/*.py"],\n        exclude = ["{_PEERS}/**"],\n    )'
    ),
    visibility=[_TO_TESTS],
    deps=[f'//{layers.PACKAGE.name}', *_packages(modules, ['benchmarks'])],
  )


def _scripts() -> str:
  """Writes the library of the scripts beside this one, which tests import."""
  scripts = layers.modules(layers.ROOT / '.ci')
  return _library(
    name='ci',
    testonly=True,
    srcs=[script.relative_to(layers.ROOT).as_posix() for script in scripts],
    imports=['.ci'],
    visibility=[_TO_TESTS],
  )


def _label(part: str, seen_from: pathlib.Path) -> str:
  """Writes the label of a part, as it stands in the BUILD file of a folder."""
  if not _in_root(part):
    return f'//{layers.PACKAGE.name}/{part}'
  return (
    '' if seen_from == layers.PACKAGE else f'//{layers.PACKAGE.name}'
  ) + f':{part}'


def _data(folder: pathlib.Path) -> list[str]:
  """Returns the files of a folder of the package that are installed as they are."""
  own = [file.name for file in folder.iterdir() if file.is_file()]
  # Folders of data have no modules; those of the package are parts of their own.
  data = [
    str(file.relative_to(folder))
    for file in folder.rglob('*.toml')
    if folder != layers.PACKAGE
  ]
  return [name for name in own if not name.endswith('.py') and name != 'BUILD'] + data


def _parts(part: str, modules: Iterable[pathlib.Path]) -> list[str]:
  """Returns the labels of the other parts that a part's modules import."""
  names = set[str]().union(*(layers.imports(module) for module in modules))
  prefix = f'{layers.PACKAGE.name}.'
  others = {name.split('.')[1] for name in names if name.startswith(prefix)} - {part}
  return [_label(other, _folder(part)) for other in others]


def _packages(
  modules: Iterable[pathlib.Path], neighbours: Iterable[str] = ()
) -> list[str]:
  """Returns the labels of the packages that modules import.

  Args:
    modules: The modules.
    neighbours: Names of modules of the repository that are imported as such.
  """
  names = set[str]().union(*(layers.imports(module) for module in modules))
  tops = {name.split('.')[0] for name in names} - set(neighbours)
  return [f'@pypi//{name.replace("-", "_")}' for name in layers.distributions(tops)]


class _Expression(str):
  """A value that is written as it is."""


def _file(doc: str, *libraries: str) -> str:
  return '\n'.join([f'"""{doc}"""\n', _LOAD, '\n'.join(libraries)])


def _library(**attributes: object) -> str:
  """Writes a `py_library`, formatted as Bazel's formatter would."""
  lines = [
    f'    {name} = {_value(value)},\n' for name, value in attributes.items() if value
  ]
  return f'py_library(\n{"".join(lines)})\n'


def _value(value: object) -> str:
  """Writes a text, an expression, a truth value or a list of texts."""
  if isinstance(value, _Expression | bool):
    return str(value)
  if isinstance(value, str):
    return f'"{value}"'
  assert isinstance(value, list)
  texts = [f'"{each}"' for each in sorted(set(value), key=_order)]
  if len(texts) == 1:
    return f'[{texts[0]}]'
  return '[\n' + ''.join(f'        {text},\n' for text in texts) + '    ]'


def _order(label: str) -> tuple[int, str]:
  """Sorts labels: those of the folder, of the repository, of others."""
  return ':/@'.find(label[0]), label.replace(':', '!')


if __name__ == '__main__':
  for file, content in contents().items():
    file.write_text(content)
