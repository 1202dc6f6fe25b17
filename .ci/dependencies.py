"""Prints docs/dependencies.md: what requirements.lock installs, under which licences."""

import importlib.metadata
import pathlib
import re

_LOCK = pathlib.Path(__file__).parents[1] / 'requirements.lock'
_INTRODUCTION = """\
# Dependencies

What `requirements.lock` installs, with the licence that each package states of itself. Made by
`make dependencies`; a test compares it with the lock. For known weaknesses see [reliability.md](reliability.md#supply).

| package | version | licence |
| --- | --- | --- |"""


def pins() -> dict[str, str]:
  """Returns the versions in the lock, by package."""
  return dict(re.findall(r'^([\w.-]+)==([\w.]+)', _LOCK.read_text(), re.MULTILINE))


def licence(package: str) -> str:
  """Returns the licence that an installed package names, or an empty string."""
  facts = importlib.metadata.metadata(package)
  expression = facts.get('License-Expression')
  if expression:
    return expression
  classifiers = [
    line.rsplit(' :: ', 1)[1]
    for line in facts.get_all('Classifier') or []
    if line.startswith('License :: ') and not line.endswith('OSI Approved')
  ]
  if classifiers:
    return ', '.join(classifiers)
  # Some packages put the whole text there; its first line is the name.
  return (facts.get('License') or '').strip().split('\n')[0]


def page() -> str:
  """Writes the page."""
  rows = [
    f'| {package} | {version} | {licence(package)} |'
    for package, version in sorted(pins().items())
  ]
  return '\n'.join([_INTRODUCTION, *rows, ''])


if __name__ == '__main__':
  print(page(), end='')
