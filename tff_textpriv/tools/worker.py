"""Runs a TFF worker on this machine, for a training run on another one.

  python -m tff_textpriv.tools.worker --port=10000

The run then names it: `--workers=host:10000,...`.
"""

import dataclasses
import os
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

from tff_textpriv import flags
from tff_textpriv.runtime.doors import OpenPort, PortInUseError
from tff_textpriv.runtime.worker_process import (
  WorkerDiedError,
  WorkerProcess,
  share_cores,
)
from tff_textpriv.settings import Settings, SettingsError, setting

_WARNING = (
  'WARNING: a TFF worker has no authentication and no encryption, and listens on all'
  ' network interfaces. Whoever reaches its port can run computations and read and'
  ' write files as you. Use it on a private network or behind a tunnel only.'
)


@dataclasses.dataclass(frozen=True)
class WorkerSettings(Settings):
  """How to run the worker."""

  port: int = setting(10000, 'The port to listen on.', low=1, high=65535)
  max_concurrent_clients: int = setting(
    0, 'Clients to train at a time; 0 means as many as there are cores.', low=0
  )
  log_file: str = setting('tff_worker.log', 'The file to append its output to.')


def main(settings: WorkerSettings) -> int:
  """Runs the worker until it is told to stop.

  Returns:
    The exit code: 0 after Ctrl-C or SIGTERM, 1 if the worker ended by itself.

  Raises:
    SettingsError: If the port is in use.
  """
  print(_WARNING, file=sys.stderr)
  previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
  try:
    _serve(settings)
  except KeyboardInterrupt:
    print('Stopped.')
    return 0
  except WorkerDiedError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  finally:
    signal.signal(signal.SIGTERM, previous)


def _serve(settings: WorkerSettings) -> NoReturn:
  """Starts the worker and waits for its end, which only an error brings."""
  try:
    worker = WorkerProcess(
      Path(settings.log_file),
      OpenPort(settings.port),
      share_cores(len(os.sched_getaffinity(0)), settings.max_concurrent_clients),
    )
  except PortInUseError as error:
    raise SettingsError(
      'port', settings.port, f'{error}; choose another port'
    ) from error
  try:
    print(
      f'Serving on port {settings.port}, log in {settings.log_file}. Ctrl-C stops it.'
      f' Use it with --workers={socket.gethostname()}:{settings.port}',
      flush=True,
    )
    worker.wait()
    raise worker.died_error()
  finally:
    worker.stop()


if __name__ == '__main__':
  flags.run(main, WorkerSettings, __doc__.splitlines()[0])
