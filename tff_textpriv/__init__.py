"""Private federated learning for text, on TensorFlow Federated."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from tff_textpriv import aggregators, iterative_processes, privacy, tasks
  from tff_textpriv import iterative_processes as algorithms
  from tff_textpriv.api import execution, register, run
  from tff_textpriv.results import Result, load
  from tff_textpriv.tasks.objects import open_task as task
  from tff_textpriv.tasks.own_data import from_client_data, from_frame, from_records

__version__ = '0.1.0'
__all__ = [
  'Result', 'load', 'run', 'register', 'execution', 'task',
  'from_client_data', 'from_frame', 'from_records',
  'aggregators', 'algorithms', 'iterative_processes', 'privacy', 'tasks',
]  # fmt: skip

# The module where a name is, and the name there if it is not the module itself.
_PLACES = {
  'Result': 'results:Result',
  'load': 'results:load',
  'run': 'api:run',
  'register': 'api:register',
  'execution': 'api:execution',
  'task': 'tasks.objects:open_task',
  'from_client_data': 'tasks.own_data:from_client_data',
  'from_frame': 'tasks.own_data:from_frame',
  'from_records': 'tasks.own_data:from_records',
  'algorithms': 'iterative_processes',
}


def __getattr__(name: str) -> Any:
  """Imports a part of the Python API when it is first asked for: commands stay quick."""
  if name not in __all__:
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
  module, _, attribute = _PLACES.get(name, name).partition(':')
  found = importlib.import_module(f'{__name__}.{module}')
  return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
