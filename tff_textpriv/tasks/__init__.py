"""Tasks: client data, text encoding, model and metrics, each run as a command.

`tasks.stackoverflow.TASK` is one of them; `tff_textpriv.task` opens it as an object.
"""

import importlib
import importlib.util
from typing import Any


def __getattr__(name: str) -> Any:
  """Imports the module of a task when it is first asked for."""
  if name.startswith('_') or importlib.util.find_spec(f'{__name__}.{name}') is None:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  return importlib.import_module(f'{__name__}.{name}')
