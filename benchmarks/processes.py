"""The contenders' processes: started together, asked in turn, ended with us."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

_ROOT = pathlib.Path(__file__).parents[1]
_PEER_PYTHON = _ROOT / 'build/peers/bin/python'
_EXIT_SECONDS = 20

# Module and arguments of each contender.
COMMANDS: dict[str, tuple[str, ...]] = {
  'ours': ('ours', '1', 'auto'),
  'ours_2_workers': ('ours', '2', 'auto'),
  # Its worker is open to the network: what keeping strangers out costs the others.
  'ours_open': ('ours', '1', 'off'),
  'plain_fast': ('plain', 'fast'),
  'pfl_research': ('pfl_research',),
  'plain_keras': ('plain', 'keras'),
  'tutorial': ('tutorial',),
}


class Process:
  """A contender's process, which answers requests line by line."""

  def __init__(self, name: str, folder: pathlib.Path):
    """Starts the process; its log goes to a file in `folder`."""
    self.name = name
    self._log = folder / f'{name}.log'
    module, *arguments = COMMANDS[name]
    python = str(_PEER_PYTHON) if module == 'pfl_research' else sys.executable
    if module == 'ours':
      arguments = [*arguments, str(folder / name)]
    environment = {**os.environ, 'PYTHONPATH': str(_ROOT), 'TF_CPP_MIN_LOG_LEVEL': '2'}
    if name == 'plain_fast':
      # What our workers have, so that the loop differs from them in nothing else.
      environment['TF_ENABLE_ONEDNN_OPTS'] = '1'
    with open(self._log, 'wb') as log:
      self._process = subprocess.Popen(
        [python, '-m', f'benchmarks.contenders.{module}', *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
        text=True,
        start_new_session=True,
      )

  def send(self, request: dict[str, Any]) -> None:
    """Sends a request; `receive` waits for its answer."""
    assert self._process.stdin is not None  # A pipe.
    print(json.dumps(request), file=self._process.stdin, flush=True)

  def receive(self) -> dict[str, Any]:
    """Returns the next answer."""
    assert self._process.stdout is not None  # A pipe.
    line = self._process.stdout.readline()
    if not line:
      log = self._log.read_text(errors='replace')[-3000:]
      raise RuntimeError(f'the contender {self.name} ended:\n{log}')
    return json.loads(line)

  def ask(self, request: dict[str, Any]) -> dict[str, Any]:
    """Sends a request and returns its answer."""
    self.send(request)
    return self.receive()

  def close(self) -> None:
    """Ends the process and whatever it started."""
    assert self._process.stdin is not None  # A pipe.
    self._process.stdin.close()
    try:
      self._process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
      os.killpg(self._process.pid, signal.SIGKILL)
      self._process.wait()


def start(
  names: Sequence[str], folder: pathlib.Path, stack: contextlib.ExitStack
) -> list[Process]:
  """Starts contenders and waits until all are ready.

  Args:
    names: Keys of `COMMANDS`.
    folder: Where their logs go.
    stack: What ends them.

  Returns:
    The contenders; without pfl-research if it is not installed.
  """
  started = []
  for name in names:
    if name == 'pfl_research' and not _PEER_PYTHON.exists():
      print('pfl_research is not installed; `make benchmark-peers` installs it')
      continue
    process = Process(name, folder)
    stack.callback(process.close)
    started.append(process)
  for process in started:
    process.receive()
  return started
