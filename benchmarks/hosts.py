"""Rounds on two other hosts, which are networks of this machine, over slow cables.

  python -m benchmarks.hosts [RATE [DELAY_SECONDS LOSS [KEYS [CLIENTS]]]]

RATE is what a host sends at most, such as 10mbit; `full` for all there is. KEYS is
`insecure` to encrypt nothing. Needs root and iproute2. Prints seconds per round, and
what the run itself has sent and received.
"""

import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time

from benchmarks import networks
from tff_textpriv.runtime import certificates

_SIZES = (1000, 64, 128, 1)
_SENTENCES, _ROUNDS = 16, 20
_PORT = 10000


def main(
  rate: str = 'full',
  delay: str = '0',
  loss: str = '0',
  keys: str = 'secure',
  clients: str = '16',
) -> None:
  """Starts hosts, and the rounds on the first one."""
  with (
    tempfile.TemporaryDirectory() as folder,
    networks.hosts(3) as hosts,
    contextlib.ExitStack() as stack,
  ):
    run_file, worker_file = certificates.make(pathlib.Path(folder, 'keys'), days=1)
    is_secure = keys != 'insecure'
    if float(delay) or float(loss):
      networks.far_apart(hosts, float(delay), float(loss))
    if rate != 'full':
      for host in hosts:
        host.limit(rate)
    home, *others = hosts
    for number, host in enumerate(others):
      command = [sys.executable, '-m', 'tff_textpriv.tools.worker']
      log_file = f'--log_file={folder}/{number}.log'
      worker = subprocess.Popen(
        [
          *host.prefix,
          *command,
          f'--port={_PORT}',
          f'--key_file={worker_file}' if is_secure else '--insecure',
          log_file,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
      )
      stack.callback(worker.terminate)
      worker.stdout.readline()
    addresses = ','.join(f'{host.address}:{_PORT}' for host in others)
    inside = [
      sys.executable,
      '-m',
      'benchmarks.hosts',
      'rounds',
      addresses,
      str(run_file) if is_secure else '',
      clients,
    ]
    subprocess.run([*home.prefix, *inside], check=True)


def rounds(addresses: str, key_file: str, clients: str) -> None:
  """Trains on two hosts; runs on the first one."""
  from benchmarks import scale_rounds
  from tff_textpriv.runtime import execution

  with (
    tempfile.TemporaryDirectory() as folder,
    execution.execution(
      workers=addresses.split(','),
      workers_key=key_file or None,
      insecure_workers=not key_file,
      log_dir=pathlib.Path(folder),
      connect_seconds=60,
    ),
  ):
    training = scale_rounds.synthetic('hosts', _SIZES, int(clients), _SENTENCES)
    cohort = training.make_cohort(1)
    training.train(cohort)  # Which sends the computations.
    sent, received, started = *_traffic(), time.monotonic()
    for _ in range(_ROUNDS):
      training.train(cohort)
    seconds = (time.monotonic() - started) / _ROUNDS
    sent, received = (
      (after - before) / _ROUNDS / 1e6
      for before, after in zip((sent, received), _traffic(), strict=True)
    )
  print(
    f'{scale_rounds.num_parameters(_SIZES):,} parameters: {seconds:.2f} s per round,'
    f' {sent:.1f} MB sent, {received:.1f} MB received'
  )


def _traffic() -> tuple[int, int]:
  """Returns the bytes that this host has sent and received."""
  statistics = pathlib.Path('/sys/class/net/cable/statistics')
  return tuple(
    int((statistics / f'{which}_bytes').read_text()) for which in ('tx', 'rx')
  )


if __name__ == '__main__':
  if sys.argv[1:2] == ['rounds']:
    rounds(*sys.argv[2:])
  else:
    main(*sys.argv[1:])
