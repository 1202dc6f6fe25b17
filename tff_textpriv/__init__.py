"""Private federated learning for text, on TensorFlow Federated."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from tff_textpriv.api import run
  from tff_textpriv.results import Result, load

__version__ = '0.1.0'
__all__ = ['Result', 'load', 'run']

_MODULES = {'Result': 'results', 'load': 'results', 'run': 'api'}


def __getattr__(name: str) -> Any:
  """Imports a part of the Python API when it is first asked for: commands stay quick."""
  if name not in _MODULES:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  return getattr(importlib.import_module(f'{__name__}.{_MODULES[name]}'), name)


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
