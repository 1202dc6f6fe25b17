"""Hosts of one's own: networks that are joined by a switch, and by nothing else.

This machine's own network is left alone. Cables can be pulled, of which neither end
learns anything: that is not a network that is down, but one that is silent. They can be
slow, too.
"""

import contextlib
import ctypes
import fcntl
import os
import queue
import random
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

# Constants of Linux that Python has no names for.
_TUNSETIFF = 0x400454CA
_IFF_TAP_WITHOUT_HEADER = 0x1002


class NoNetworksError(Exception):
  """No networks can be made here."""


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

  def replace_cable(self) -> int:
    """Takes the cable away; returns an open file for the packets in its place."""
    _ip('-n', self._name, 'link', 'delete', 'cable')
    opened: list[int] = []

    def open_there() -> None:  # In a thread, which alone enters the network.
      with open(self.path) as network:
        if ctypes.CDLL(None).setns(network.fileno(), 0):
          raise NoNetworksError(self.path)
      opened.append(os.open('/dev/net/tun', os.O_RDWR))
      request = struct.pack('16sH22x', b'cable', _IFF_TAP_WITHOUT_HEADER)
      fcntl.ioctl(opened[0], _TUNSETIFF, request)

    thread = threading.Thread(target=open_there)
    thread.start()
    thread.join()
    _ip('-n', self._name, 'addr', 'add', f'{self.address}/24', 'dev', 'cable')
    _ip('-n', self._name, 'link', 'set', 'cable', 'up')
    return opened[0]

  def disconnect(self) -> None:
    """Forgets the network."""
    _ip('netns', 'delete', self._name)


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
  """Makes so many hosts; `NoNetworksError` where that is not possible."""
  if os.geteuid() or shutil.which('ip') is None:
    raise NoNetworksError('to make networks needs root and iproute2')
  switch = f'switch-{os.getpid()}'
  with contextlib.ExitStack() as stack:
    try:
      _ip('netns', 'add', switch)
      stack.callback(_ip, 'netns', 'delete', switch)
      _ip('-n', switch, 'link', 'add', 'bridge', 'type', 'bridge')
      _ip('-n', switch, 'link', 'set', 'bridge', 'up')
    except subprocess.CalledProcessError as error:
      raise NoNetworksError(error.stderr.decode()) from error
    made = [Host(switch, number) for number in range(1, count + 1)]
    for host in made:
      host.connect()
      stack.callback(host.disconnect)
    yield made


def far_apart(hosts: Sequence[Host], seconds: float, loss: float) -> None:
  """Puts a slow hub in the place of the switch.

  Args:
    hosts: All hosts.
    seconds: What a packet takes from one to another.
    loss: The share of packets that do not arrive.
  """
  taps = [host.replace_cable() for host in hosts]
  rng = random.Random(0)
  for tap in taps:
    others = [other for other in taps if other != tap]
    late: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
    for work in (_receive, _deliver):
      threading.Thread(
        target=work, args=(tap, others, late, seconds, loss, rng), daemon=True
      ).start()


def _receive(tap, others, late, seconds, loss, rng) -> None:
  """Takes packets from a host."""
  del others
  while packet := os.read(tap, 2**16):
    if rng.random() >= loss:
      late.put((time.monotonic() + seconds, packet))


def _deliver(tap, others, late, seconds, loss, rng) -> None:
  """Gives a host's packets to all others, when it is time."""
  del tap, seconds, loss, rng
  while True:
    due, packet = late.get()
    time.sleep(max(0.0, due - time.monotonic()))
    for other in others:
      os.write(other, packet)


def _ip(*arguments: str) -> None:
  subprocess.run(['ip', *arguments], check=True, capture_output=True)
