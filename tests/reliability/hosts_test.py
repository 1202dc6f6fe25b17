"""Faults of hosts and of cables: what a run on two other hosts makes of each.

`pytest -m slow tests/reliability/hosts_test.py -s` prints the rows of the table in
docs/reliability.md. Hosts are networks of the tests' own; see `networks`.
"""

import contextlib
import dataclasses
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import disturbed_runs
import finished_runs
import networks
import processes
import psutil
import pytest

from tff_textpriv.runtime import certificates

pytestmark = [pytest.mark.slow, processes.needs_isolation]
_ROOT = pathlib.Path(__file__).parents[2]
_ROUNDS = 40
_SETTINGS = (
  '--algo=dp_fed_avg', '--noise_multiplier=1', '--num_users=20',
  '--clients_per_round=8', '--vocab_size=300', '--max_eval_users=2',
  f'--total_rounds={_ROUNDS}', '--rounds_per_eval=20', '--rounds_per_checkpoint=20',
)  # fmt: skip
# After a silence of 20 s, asked for every 5 s.
_MOST_SECONDS = 30
_EQUAL = 'equal'


class _Host:
  """A host of workers."""

  def __init__(self, host: networks.Host, key_file: pathlib.Path, log: pathlib.Path):
    self.host = host
    self.name = f'{host.address}:10000'
    self._key_file = key_file
    self._log = log
    self.start()

  def start(self) -> None:
    command = [sys.executable, '-m', 'tff_textpriv.tools.worker']
    with open(self._log, 'ab') as log:
      self.tool = subprocess.Popen(
        [*self.host.prefix, *command, f'--key_file={self._key_file}'],
        stdout=subprocess.PIPE,
        stderr=log,
        cwd=self._log.parent,
        env={'PYTHONPATH': str(_ROOT), 'PATH': '/usr/sbin:/usr/bin:/sbin:/bin'},
      )
    assert b'Serving' in self.tool.stdout.readline()

  def workers(self) -> list[psutil.Process]:
    return psutil.Process(self.tool.pid).children()

  def lose_power(self) -> None:
    """Without a word to anybody."""
    self.host.unplug()
    self.tool.kill()
    self.tool.wait()

  def get_power_back(self) -> None:
    self.start()
    self.host.plug()

  def stop(self) -> None:
    self.tool.kill()
    self.tool.communicate()


@dataclasses.dataclass(frozen=True)
class _Place:
  """Where runs are made, on which hosts, with which keys."""

  root: pathlib.Path
  home: networks.Host
  hosts: list[_Host]
  key_file: pathlib.Path

  def start(self, folder: str, *more: str) -> disturbed_runs.Command:
    named = ','.join(host.name for host in self.hosts)
    return disturbed_runs.Command(
      disturbed_runs.Settings(
        'stackoverflow',
        (*_SETTINGS, f'--workers={named}', f'--workers_key={self.key_file}', *more),
      ),
      self.root / folder,
      self.root / f'{folder}.log',
      self.home.path,
    )


@pytest.fixture(scope='module')
def place(tmp_path_factory):
  root = tmp_path_factory.mktemp('hosts')
  run_file, worker_file = certificates.make(root / 'keys', days=1)
  with networks.hosts(3) as (home, *others), contextlib.ExitStack() as stack:
    hosts = []
    for number, other in enumerate(others):
      hosts.append(_Host(other, worker_file, root / f'host_{number}.txt'))
      stack.callback(hosts[-1].stop)
    yield _Place(root, home, hosts, run_file)


@pytest.fixture(scope='module')
def undisturbed(place):
  command = place.start('undisturbed')
  assert command.wait() == 0, command.log
  return command.folder


@dataclasses.dataclass(frozen=True)
class _Fault:
  """A fault of the second host.

  Attributes:
    strike: What happens.
    mend: What happens later; None: nothing.
    seconds: How much later.
    says: What the run says when it notices; empty if it does not.
    flags: Of the run.
  """

  strike: Callable[[_Host], None]
  mend: Callable[[_Host], None] | None = None
  seconds: float = 0.0
  says: str = ''
  flags: tuple[str, ...] = ()


def _restart(host: _Host) -> None:
  host.tool.kill()
  host.tool.wait()
  host.start()


def _each(method: str) -> Callable[[_Host], None]:
  def call(host: _Host) -> None:
    for worker in host.workers():
      getattr(worker, method)()

  return call


_UNPLUG: Callable[[_Host], None] = lambda host: host.host.unplug()  # noqa: E731
_PLUG: Callable[[_Host], None] = lambda host: host.host.plug()  # noqa: E731
_MADE_GOOD = {
  'cable pulled for 5 s': _Fault(_UNPLUG, _PLUG, 5),
  'cable pulled for 40 s': _Fault(_UNPLUG, _PLUG, 40, 'no answer'),
  'host without power for 10 s': _Fault(
    _Host.lose_power, _Host.get_power_back, 10, ':'
  ),
  'host without power for 40 s': _Fault(
    _Host.lose_power, _Host.get_power_back, 40, 'no answer'
  ),
  'tools.worker killed and restarted': _Fault(_restart, says='The TFF worker at'),
  'worker process killed': _Fault(_each('kill'), says='The TFF worker at'),
  'worker process halted': _Fault(_each('suspend'), says='no answer'),
}


def _reach(command: disturbed_runs.Command, round_number: int) -> None:
  assert command.wait_until(
    lambda: disturbed_runs.rounds_done(command.folder) >= round_number
  )


def _noticed(command: disturbed_runs.Command, says: str) -> float:
  start = time.monotonic()
  assert command.wait_until(lambda: says in command.log), command.log
  return time.monotonic() - start


@pytest.mark.parametrize('name', _MADE_GOOD)
def test_a_fault_that_passes_is_made_good(place, undisturbed, name):
  fault = _MADE_GOOD[name]
  command = place.start(name.replace(' ', '_'), *fault.flags)
  _reach(command, 5)
  victim = place.hosts[1]
  fault.strike(victim)
  mend = threading.Timer(fault.seconds, fault.mend or (lambda _: None), (victim,))
  mend.start()
  seconds = _noticed(command, fault.says) if fault.says else None
  assert seconds is None or seconds < _MOST_SECONDS
  mend.join()
  assert command.wait() == 0, command.log
  finished_runs.assert_same(command.folder, undisturbed)
  assert ('repeating the round' in command.log) == bool(fault.says)
  _row(name, seconds, 'made good', _EQUAL)


def test_a_host_that_stays_away_is_left_out_and_later_taken_back(place, undisturbed):
  command = place.start('away', '--worker_patience=5', '--total_rounds=2000')
  _reach(command, 5)
  place.hosts[1].host.unplug()
  seconds = _noticed(command, 'going on without it until it answers')
  assert seconds < _MOST_SECONDS + 5
  left_out_from = disturbed_runs.rounds_done(command.folder)
  _reach(command, left_out_from + 5)
  place.hosts[1].host.plug()
  assert command.wait_until(lambda: 'takes part again' in command.log)
  _reach(command, disturbed_runs.rounds_done(command.folder) + 5)
  command.send(signal.SIGINT)
  assert command.wait() == 128 + signal.SIGINT, command.log
  rows = (command.folder / 'metrics.csv').read_text().splitlines()
  column = rows[0].split(',').index('left_out_workers')
  left_out = [row.split(',')[column] for row in rows[1:]]
  assert left_out[:5] == [''] * 5 and left_out[-1] == ''
  assert sum(float(each or 0) for each in left_out) >= 5
  _row('host away for good', seconds, 'left out after --worker_patience', 'no')


def test_a_run_without_any_host_ends_with_a_sentence_and_goes_on_later(
  place, undisturbed
):
  command = place.start('alone', '--worker_patience=5')
  _reach(command, 5)
  for host in place.hosts:
    host.host.unplug()
  seconds = _noticed(command, 'no answer')
  assert command.wait() == 2, command.log
  for host in place.hosts:
    host.host.plug()
  assert 'too few workers are left' in command.log
  assert all(f'{host.name}: no answer' in command.log for host in place.hosts)
  _assert_goes_on(place, 'alone', undisturbed)
  _row('both cables pulled for good', seconds, 'ended with a sentence', _EQUAL)


@pytest.mark.parametrize('times', [1, 2])
def test_ctrl_c_ends_a_stuck_round_with_a_checkpoint(place, undisturbed, times):
  command = place.start(f'stuck_{times}', '--worker_patience=300')
  _reach(command, 5)
  place.hosts[1].host.unplug()
  time.sleep(1)  # The round that is under way is stuck by then.
  start = time.monotonic()
  for _ in range(times):
    command.send(signal.SIGINT)
    time.sleep(0.5)
  assert command.wait() == 128 + signal.SIGINT, command.log
  seconds = time.monotonic() - start
  place.hosts[1].host.plug()
  assert 'repeat the command to go on' in command.log
  assert seconds < (40 if times == 1 else 15)
  _assert_goes_on(place, f'stuck_{times}', undisturbed)
  how = 'Ctrl-C' if times == 1 else 'Ctrl-C twice'
  _row(f'cable pulled, {how}', seconds, 'stopped with a checkpoint', _EQUAL)


@pytest.mark.parametrize('is_cut_off', [False, True])
def test_a_run_that_is_killed_leaves_no_worker_behind(place, undisturbed, is_cut_off):
  name = 'killed_silently' if is_cut_off else 'killed'
  command = place.start(name)
  _reach(command, 5)
  workers = [worker for host in place.hosts for worker in host.workers()]
  assert len(workers) == 2
  if is_cut_off:
    place.home.unplug()
  command.send(signal.SIGKILL)
  command.wait()
  start = time.monotonic()
  assert all(processes.ends(worker, 75) for worker in workers)
  seconds = time.monotonic() - start
  assert seconds < 5 or is_cut_off
  place.home.plug()
  _assert_goes_on(place, name, undisturbed)
  what = 'run killed, its cable pulled' if is_cut_off else 'run killed'
  _row(what, seconds, 'its workers ended', _EQUAL)


def _assert_goes_on(place: _Place, folder: str, undisturbed: pathlib.Path) -> None:
  command = place.start(folder)
  assert command.wait() == 0, command.log
  finished_runs.assert_same(command.folder, undisturbed)


def _row(fault: str, seconds: float | None, ending: str, equal: str) -> None:
  noticed = 'not noticed' if seconds is None else f'{seconds:.0f} s'
  print(f'\n| {fault} | {noticed} | {ending} | {equal} |')
