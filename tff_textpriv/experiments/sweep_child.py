"""The process in which runs of a sweep are made, one after the other.

It reads an order a line: a task, its flags, and a file for what the run prints. It
answers a line each: how the run ended. TensorFlow Federated, which takes long to
import, is imported once.
"""

import json
import os
import pathlib
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from tff_textpriv import flags
from tff_textpriv.tasks import base


def serve() -> None:
  """Makes the runs that stdin asks for, until it ends."""
  answers = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
  for line in sys.stdin:
    order = json.loads(line)
    _print_to(pathlib.Path(order['log']))
    print(json.dumps(_answer(order['task'], order['argv'])), file=answers, flush=True)


def _answer(task: str, argv: Sequence[str]) -> dict[str, Any]:
  """Makes a run; returns its exit code, or the sentence that says why it failed."""
  try:
    return {'code': base.run(base.parse(base.find(task), argv))}
  except Exception as error:  # Told to the sweep, which goes on with the next run.
    if flags.is_mistake(error):
      sentence = str(error)
      print(f'error: {sentence}', file=sys.stderr)
    else:
      sentence = f'{type(error).__name__}: {error}'.strip().splitlines()[0]
      traceback.print_exc()
    return {'error': sentence}


def _print_to(log_file: pathlib.Path) -> None:
  """Appends all that this process prints, TensorFlow's C++ too, to a file."""
  log_file.parent.mkdir(parents=True, exist_ok=True)
  with open(log_file, 'ab') as log:
    os.dup2(log.fileno(), sys.stdout.fileno())
    os.dup2(log.fileno(), sys.stderr.fileno())
