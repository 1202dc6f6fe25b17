"""The federated algorithms, one builder a file, and the registry of their names.

Each has a class of settings and a builder of a TFF learning process, which is given a
functional model, the settings and a mechanism of `tff_textpriv.privacy`. All of them are
attributes of this package, as `FedAvgSettings` and `build_fed_avg`.
"""

from typing import Any


def _parts() -> dict[str, Any]:
  """Returns settings, builders and privacy settings of the algorithms by their names."""
  from tff_textpriv.iterative_processes import registry

  parts: list[Any] = []
  for algorithm in registry.ALGORITHMS.values():
    parts += [algorithm.settings, algorithm.build, algorithm.privacy]
    parts += algorithm.mechanisms.values()
  return {part.__name__: part for part in parts}


def __getattr__(name: str) -> Any:
  # Modules of the package are asked for here, too, before they are imported.
  if name.startswith('build_') or name.endswith('Settings'):
    parts = _parts()
    if name in parts:
      return parts[name]
  raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def __dir__() -> list[str]:
  return sorted({*globals(), *_parts()})
