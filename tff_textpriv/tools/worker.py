"""Serves TFF workers on this machine to training runs on other ones.

  python -m tff_textpriv.tools.certificates     (once, where the runs are)
  python -m tff_textpriv.tools.worker --port=10000 --key_file=worker.pem

The run then names this machine: `--workers=host:10000,... --workers_key=keys/run.pem`.
Nobody without that key gets in.
"""

import dataclasses
import logging
import os
import pathlib
import signal
import socket
import sys

from tff_textpriv import flags
from tff_textpriv.runtime import isolation, tls_connection, worker_host
from tff_textpriv.runtime.doors import OpenPort, PortInUseError
from tff_textpriv.runtime.worker_process import (
  Limits,
  WorkerDiedError,
  WorkerProcess,
  share_cores,
)
from tff_textpriv.settings import (
  IncompatibleSettingsError,
  Settings,
  SettingsError,
  setting,
)

_WARNING = (
  'WARNING: with --insecure a TFF worker has no authentication and no encryption, and'
  ' listens on all network interfaces. Whoever reaches its port can run computations and'
  ' read and write files as you. Use it on a private network or behind a tunnel only.'
)


@dataclasses.dataclass(frozen=True)
class WorkerSettings(Settings):
  """How to serve workers."""

  port: int = setting(10000, 'The port to listen on.', low=1, high=65535)
  key_file: str | None = setting(
    None,
    'worker.pem of `python -m tff_textpriv.tools.certificates`, which lets in only runs'
    ' with the run.pem that was made with it.',
  )
  insecure: bool = setting(
    False,
    'Let in whoever reaches the port, without encryption: TFF’s worker as it is, for'
    ' machines where it cannot have a network of its own.',
  )
  max_concurrent_clients: int = setting(
    0, 'Clients to train at a time; 0 means as many as there are cores.', low=0
  )
  log_file: str = setting('tff_worker.log', 'The file to append its output to.')

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.insecure == (self.key_file is not None):
      raise IncompatibleSettingsError(
        'give --key_file=worker.pem (`python -m tff_textpriv.tools.certificates` makes'
        ' it), or --insecure to let in whoever reaches the port'
      )


def main(settings: WorkerSettings) -> int:
  """Serves until it is told to stop.

  Returns:
    The exit code: 0 after Ctrl-C or SIGTERM, 1 if an insecure worker ended by itself.

  Raises:
    SettingsError: If the port is in use, or a worker cannot be isolated.
    KeyFileError: If the key file cannot be used.
  """
  previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
  limits = share_cores(len(os.sched_getaffinity(0)), settings.max_concurrent_clients)
  try:
    if settings.key_file is None:
      _serve_openly(settings, limits)
    else:
      _serve(settings, pathlib.Path(settings.key_file), limits)
  except KeyboardInterrupt:
    print('Stopped.')
    return 0
  except WorkerDiedError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except PortInUseError as error:
    raise SettingsError(
      'port', settings.port, f'{error}; choose another port'
    ) from error
  finally:
    signal.signal(signal.SIGTERM, previous)
  return 0


def _serve(settings: WorkerSettings, key_file: pathlib.Path, limits: Limits) -> None:
  """Serves runs with the right key, each by workers of its own."""
  context = tls_connection.server_context(key_file)
  problem = isolation.obstacle()
  if problem is not None:
    raise SettingsError(
      'key_file',
      settings.key_file,
      f'TFF’s worker would be open to whoever reaches this machine: {problem}.'
      ' --insecure serves it all the same',
    )
  logging.basicConfig(format='%(asctime)s %(message)s', level=logging.INFO)
  with _listening(settings.port) as server:
    _say_ready(settings, '--workers_key=keys/run.pem')
    worker_host.WorkerHost(
      server, context, pathlib.Path(settings.log_file), limits
    ).serve()


def _serve_openly(settings: WorkerSettings, limits: Limits) -> None:
  """Starts a worker that is open to all and waits for its end, which is an error."""
  print(_WARNING, file=sys.stderr)
  worker = WorkerProcess(
    pathlib.Path(settings.log_file), OpenPort(settings.port), limits
  )
  try:
    _say_ready(settings, '--insecure_workers')
    worker.wait()
    raise worker.died_error()
  finally:
    worker.stop()


def _listening(port: int) -> socket.socket:
  """Returns a socket that listens on all interfaces; `PortInUseError` if it cannot."""
  family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
  try:
    return socket.create_server(
      ('', port), family=family, dualstack_ipv6=family is socket.AF_INET6
    )
  except OSError as error:
    raise PortInUseError(f'port {port} cannot be used: {error.strerror}') from error


def _say_ready(settings: WorkerSettings, flag: str) -> None:
  """Says how a run uses what is served."""
  print(
    f'Serving on port {settings.port}, log in {settings.log_file}. Ctrl-C stops it.'
    f' Use it with --workers={socket.gethostname()}:{settings.port} {flag}',
    flush=True,
  )


if __name__ == '__main__':
  flags.run(main, WorkerSettings, __doc__.splitlines()[0])
