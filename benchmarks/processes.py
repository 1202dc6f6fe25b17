"""The contenders' processes: started together, asked in turn, ended with us."""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

_ROOT = pathlib.Path(__file__).parents[1]
_PEERS = _ROOT / 'build/peers'
_EXIT_SECONDS = 20
_CORES = len(os.sched_getaffinity(0))
# One device for each core; what else XLA can be told about threads made no difference.
_XLA = {'XLA_FLAGS': f'--xla_force_host_platform_device_count={_CORES}'}


@dataclasses.dataclass(frozen=True)
class Command:
  """How a contender is started.

  Attributes:
    module: Its module in `benchmarks.contenders`.
    arguments: The module's arguments.
    peers: The environment that it needs, one of `benchmarks/peers`; `None` for ours.
    variables: What it needs in the variables of its process.
    num_processes: How many processes make a round together.
  """

  module: str
  arguments: tuple[str, ...] = ()
  peers: str | None = None
  variables: dict[str, str] = dataclasses.field(default_factory=dict)
  num_processes: int = 1

  @property
  def python(self) -> pathlib.Path:
    """The interpreter of its environment."""
    if self.peers is None:
      return pathlib.Path(sys.executable)
    return _PEERS / self.peers / 'bin/python'

  @property
  def is_installed(self) -> bool:
    """Whether its environment is there, and complete."""
    return self.peers is None or (_PEERS / self.peers / '.installed').exists()


COMMANDS = {
  'ours': Command('ours', ('1', 'auto')),
  'ours_2_workers': Command('ours', ('2', 'auto')),
  # Its worker is open to the network: what keeping strangers out costs the others.
  'ours_open': Command('ours', ('1', 'off')),
  'plain_jax': Command('peers.plain_jax', peers='jax', variables=_XLA),
  'fedjax': Command('peers.fedjax_rounds', peers='fedjax', variables=_XLA),
  'flower': Command('peers.flower_rounds', peers='flower'),
  # What our workers have, so that the loop differs from them in nothing else.
  'plain_fast': Command('plain', ('fast',), variables={'TF_ENABLE_ONEDNN_OPTS': '1'}),
  'plain_torch': Command('peers.plain_torch', peers='torch', num_processes=_CORES),
  'pfl_research': Command('peers.pfl_research', peers='torch'),
  'pfl_research_2': Command('peers.pfl_research', peers='torch', num_processes=2),
  'plain_keras': Command('plain', ('keras',)),
  'tutorial': Command('tutorial'),
}


class Process:
  """A contender, which answers requests line by line: a process, or several."""

  def __init__(self, name: str, folder: pathlib.Path):
    """Starts the contender; its logs go to files in `folder`."""
    self.name = name
    command = COMMANDS[name]
    arguments = list(command.arguments)
    if command.module == 'ours':
      arguments.append(str(folder / name))
    self._logs = [folder / f'{name}_{i}.log' for i in range(command.num_processes)]
    self._processes = []
    for log, rank in zip(self._logs, _ranks(command.num_processes), strict=True):
      with open(log, 'wb') as log_file:
        process = subprocess.Popen(
          [
            str(command.python),
            '-m',
            f'benchmarks.contenders.{command.module}',
            *arguments,
          ],
          stdin=subprocess.PIPE,
          stdout=subprocess.PIPE,
          stderr=log_file,
          env={
            **os.environ,
            'PYTHONPATH': str(_ROOT),
            'TF_CPP_MIN_LOG_LEVEL': '2',
            **command.variables,
            **rank,
          },
          text=True,
          start_new_session=True,
        )
      self._processes.append(process)

  def send(self, request: dict[str, Any]) -> None:
    """Sends a request; `receive` waits for its answer."""
    for process in self._processes:
      assert process.stdin is not None  # A pipe.
      print(json.dumps(request), file=process.stdin, flush=True)

  def receive(self) -> dict[str, Any]:
    """Returns the next answer, that of the slowest process."""
    answers = []
    for process, log in zip(self._processes, self._logs, strict=True):
      assert process.stdout is not None  # A pipe.
      line = process.stdout.readline()
      if not line:
        text = log.read_text(errors='replace')[-3000:]
        raise RuntimeError(f'the contender {self.name} ended:\n{text}')
      answers.append(json.loads(line))
    return max(answers, key=lambda answer: answer.get('seconds', 0.0))

  def ask(self, request: dict[str, Any]) -> dict[str, Any]:
    """Sends a request and returns its answer."""
    self.send(request)
    return self.receive()

  def close(self) -> None:
    """Ends the processes and whatever they started."""
    for process in self._processes:
      assert process.stdin is not None  # A pipe.
      process.stdin.close()
    for process in self._processes:
      try:
        process.wait(_EXIT_SECONDS)
      except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ranks(num_processes: int) -> list[dict[str, str]]:
  """Returns the variables by which processes of PyTorch find each other."""
  if num_processes == 1:
    return [{}]
  with socket.socket() as free:
    free.bind(('localhost', 0))
    port = str(free.getsockname()[1])
  addresses = ','.join([f'localhost:{port}'] * num_processes)
  return [
    {
      'MASTER_ADDR': 'localhost',
      'MASTER_PORT': port,
      'WORLD_SIZE': str(num_processes),
      'RANK': str(rank),
      'PFL_WORKER_ADDRESSES': addresses,
      'PFL_WORKER_RANK': str(rank),
      'OMP_NUM_THREADS': '1',
    }
    for rank in range(num_processes)
  ]


def start(
  names: Sequence[str], folder: pathlib.Path, stack: contextlib.ExitStack
) -> list[Process]:
  """Starts contenders and waits until all are ready.

  Args:
    names: Keys of `COMMANDS`.
    folder: Where their logs go.
    stack: What ends them.

  Returns:
    The contenders; without those whose environment is not installed.
  """
  started = []
  for name in names:
    if not COMMANDS[name].is_installed:
      print(f'{name} is left out: `make benchmark-peers` installs what it needs')
      continue
    process = Process(name, folder)
    stack.callback(process.close)
    started.append(process)
  for process in started:
    process.receive()
  return started
