"""Hosts of the tests' own: networks that are joined by a switch, and by nothing else.

This machine's own network is left alone. Cables can be pulled, of which neither end
learns anything: that is not a network that is down, but one that is silent.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest


class Host:
  """A network with an address.

  Attributes:
    address: Its address.
    prefix: What runs a program there.
    path: The file that stands for the network.
  """

  def __init__(self, switch: str, number: int):
    self.address = f'10.0.0.{number}'
    self._switch = switch
    self._port = f'port{number}'
    self._name = f'{switch}-{number}'
    self.prefix = ('ip', 'netns', 'exec', self._name)
    self.path = f'/run/netns/{self._name}'

  def plug(self) -> None:
    """Puts its cable into the switch."""
    _ip('-n', self._switch, 'link', 'set', self._port, 'master', 'bridge')

  def unplug(self) -> None:
    """Pulls its cable."""
    _ip('-n', self._switch, 'link', 'set', self._port, 'nomaster')

  def limit(self, rate: str) -> None:
    """Slows down what leaves the host, say to `10mbit`."""
    limit = ('tbf', 'rate', rate, 'burst', '32kbit', 'latency', '400ms')
    command = (*self.prefix, 'tc', 'qdisc', 'replace', 'dev', 'cable', 'root', *limit)
    subprocess.run(command, check=True)

  def connect(self) -> None:
    """Makes the network, and its cable to the switch."""
    _ip('netns', 'add', self._name)
    cable = ('name', 'cable', 'type', 'veth', 'peer', self._port, 'netns', self._switch)
    _ip('-n', self._name, 'link', 'add', *cable)
    _ip('-n', self._name, 'addr', 'add', f'{self.address}/24', 'dev', 'cable')
    for device in ('lo', 'cable'):
      _ip('-n', self._name, 'link', 'set', device, 'up')
    _ip('-n', self._switch, 'link', 'set', self._port, 'up')
    self.plug()

  def disconnect(self) -> None:
    """Forgets the network."""
    _ip('netns', 'delete', self._name)


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
  """Makes so many hosts; skips the test where that is not possible."""
  if os.geteuid() or shutil.which('ip') is None:
    pytest.skip('to make networks needs root and iproute2')
  switch = f'switch-{os.getpid()}'
  with contextlib.ExitStack() as stack:
    try:
      _ip('netns', 'add', switch)
      stack.callback(_ip, 'netns', 'delete', switch)
      _ip('-n', switch, 'link', 'add', 'bridge', 'type', 'bridge')
      _ip('-n', switch, 'link', 'set', 'bridge', 'up')
    except subprocess.CalledProcessError as error:
      pytest.skip(f'no network can be made here: {error.stderr.decode()}')
    made = [Host(switch, number) for number in range(1, count + 1)]
    for host in made:
      host.connect()
      stack.callback(host.disconnect)
    yield made


def _ip(*arguments: str) -> None:
  subprocess.run(['ip', *arguments], check=True, capture_output=True)
