"""How a contender is asked for rounds: lines of JSON over stdin and stdout.

Contenders stay up, so that their rounds can be interleaved with those of others.
Needs NumPy alone: it runs in the peers' environment too.
"""

import json
import os
import pathlib
import sys
import time
from typing import Any, Protocol

import numpy as np

from benchmarks import workloads


class Contender(Protocol):
  """A framework that trains the round of a workload."""

  def prepare(self, workload: workloads.Workload) -> None:
    """Builds what the rounds need; weights are the workload's."""

  def run_round(self) -> None:
    """Trains one round, from the weights that the last one left."""

  def weights(self) -> list[np.ndarray]:
    """Returns the weights, in our order."""


def serve(contender: Contender) -> None:
  """Answers requests until stdin ends.

  Requests are `{"prepare": folder}`, `{"round": true}`, answered with the seconds
  that the round took, and `{"weights": file}`.
  """
  # TFF's default context hands our stdout to a worker: let that be the log.
  answers = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
  os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
  print(json.dumps({'ready': True}), file=answers, flush=True)
  for line in sys.stdin:
    print(json.dumps(_answer(contender, json.loads(line))), file=answers, flush=True)


def _answer(contender: Contender, request: dict[str, Any]) -> dict[str, Any]:
  match request:
    case {'prepare': folder}:
      contender.prepare(workloads.load(pathlib.Path(folder)))
      return {'prepared': folder}
    case {'round': True}:
      started = time.perf_counter()
      contender.run_round()
      return {'seconds': time.perf_counter() - started}
    case {'weights': file}:
      # Of processes that make a round together, the first one answers for all.
      if os.environ.get('RANK', '0') == '0':
        workloads.save_weights(pathlib.Path(file), contender.weights())
      return {'weights': file}
  raise ValueError(f'no such request: {request}')
