"""Computing on workers that may die: they are replaced, and the call is repeated."""

import sys
from collections.abc import Callable
from typing import Any

from tff_textpriv.runtime import execution, worker_process

_MAX_DEATHS = 3


def on_workers(
  runtime: execution.Runtime, call: Callable[..., Any], *arguments: Any
) -> Any:
  """Computes on the workers; one that dies is replaced and the call repeated.

  Raises:
    WorkerDiedError: If that happens again and again, or too few workers are left.
  """
  deaths = 0
  while True:
    try:
      if deaths:
        runtime.restart()
      return call(*arguments)
    except execution.TooFewWorkersError:
      raise
    except worker_process.WorkerDiedError as error:
      deaths += 1
      if deaths == _MAX_DEATHS:
        raise
      print(f'{error}\n{runtime.remedy} and repeating the round', file=sys.stderr)


def given_up(
  error: worker_process.WorkerDiedError, round_number: int
) -> worker_process.WorkerDiedError:
  """Returns the error of a round that is not repeated any more."""
  why = (
    'too few workers are left'
    if isinstance(error, execution.TooFewWorkersError)
    else f'a worker died {_MAX_DEATHS} times in a row'
  )
  return worker_process.WorkerDiedError(
    f'Round {round_number} was given up, because {why}. All is saved up to round '
    f'{round_number - 1}: repeat the command to go on from there. {error}'
  )
