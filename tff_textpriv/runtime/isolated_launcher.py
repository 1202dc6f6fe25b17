"""Becomes a program that has a network of its own, with one way in; run as a script.

  python -I -S isolated_launcher.py WAY SOCKET PORT PROGRAM [ARGUMENT...]

TFF's worker listens on all network interfaces and asks nobody for a password. Here it
gets a network namespace of its own, whose one interface is a loopback that nobody else
has. Unix sockets cross namespaces, so a small process beside it takes connections from
one, the open file SOCKET, and, as WAY says, passes their bytes to PORT, or answers with
connections to PORT, which are good outside, too. It begins to listen when the
program does, and the kernel kills it when the program ends.

The program takes the launcher's place, with its process id, parent and death signal.
Without arguments the launcher only tries whether a namespace can be made. Its exit code
is `REFUSED` if the kernel does not allow it.

Nothing of the package is imported: a worker starts in no time, and the few megabytes of
this interpreter stay with it.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

REFUSED = 3
# The two ways.
PASS_ON = 'pass-on'
HAND_OUT = 'hand-out'

# Constants of Linux that Python 3.11 has no names for.
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1

_LOOPBACK = '127.0.0.1'
_POLL_SECONDS = 0.02
# Of those tried, from 64 kB to 1 MB, the fastest for a model; splice() is no faster.
_BUFFER_BYTES = 2**18


class Connection(Protocol):
  """What is asked of a connection to be joined to another one; sockets have it."""

  def recv_into(self, buffer: memoryview, /) -> int:
    """Fills a buffer, at least in part; returns 0 at the end."""

  def sendall(self, data: memoryview, /) -> None:
    """Sends all of `data`."""

  def shutdown(self, how: int, /) -> None:
    """Hangs up."""


def main(arguments: Sequence[str]) -> None:
  """Isolates this process, and turns it into the program."""
  try:
    isolate()
  except OSError as error:
    print(error, file=sys.stderr)
    sys.exit(REFUSED)
  if not arguments:
    return
  way, descriptor, port, *program = arguments
  server = socket.socket(fileno=int(descriptor))
  server.set_inheritable(False)  # The program does not get it.
  program_pid = os.getpid()
  if os.fork():
    os.execv(program[0], program)
  _end_with(program_pid)
  serve(server, int(port), {PASS_ON: pass_on, HAND_OUT: hand_out}[way])


def isolate() -> None:
  """Moves this process to a new network namespace and brings its loopback up.

  Only root may make one. Others may in a user namespace of their own, which changes
  nothing in what they can do to files.
  """
  try:
    _call('unshare', _CLONE_NEWNET)
  except OSError as error:
    if error.errno != errno.EPERM:
      raise
    _call('unshare', _CLONE_NEWUSER | _CLONE_NEWNET)
  with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack('16sh22x', b'lo', _IFF_UP))


def serve(
  server: socket.socket,
  port: int,
  connect: Callable[[socket.socket, socket.socket], None],
) -> NoReturn:
  """Connects who comes through a Unix socket to a port, once something listens.

  Args:
    server: A bound socket that does not listen yet.
    port: The port on the loopback.
    connect: What to do with a client and its connection to the port.
  """
  while not _listens(port):
    time.sleep(_POLL_SECONDS)
  server.listen()
  while True:
    client, _ = server.accept()
    threading.Thread(target=_connect, args=(client, port, connect), daemon=True).start()


def _connect(
  client: socket.socket,
  port: int,
  connect: Callable[[socket.socket, socket.socket], None],
) -> None:
  """Gives a client a connection to the port."""
  with client, socket.socket() as program:
    program.connect((_LOOPBACK, port))
    program.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connect(client, program)


def hand_out(client: socket.socket, program: socket.socket) -> None:
  """Gives a connection away as it is."""
  socket.send_fds(client, [HAND_OUT.encode()], [program.fileno()])


def pass_on(one: Connection, other: Connection) -> None:
  """Passes bytes between two connections, both ways, until either ends."""
  answers = threading.Thread(target=_forward, args=(other, one), daemon=True)
  answers.start()
  _forward(one, other)
  answers.join()


def _forward(source: Connection, sink: Connection) -> None:
  """Passes bytes on until either side hangs up, and then hangs up on both."""
  buffer = memoryview(bytearray(_BUFFER_BYTES))
  # A side that hung up is the usual end of a connection, which the other is told.
  with contextlib.suppress(ConnectionError):
    while count := source.recv_into(buffer):
      sink.sendall(buffer[:count])
  for side in (source, sink):
    with contextlib.suppress(OSError):  # It has hung up already.
      side.shutdown(socket.SHUT_RDWR)


def _listens(port: int) -> bool:
  with socket.socket() as client:
    return client.connect_ex((_LOOPBACK, port)) == 0


def _end_with(parent: int) -> None:
  """Has the kernel kill this process when its parent ends, or ends it now."""
  _call('prctl', _PR_SET_PDEATHSIG, signal.SIGKILL)
  if os.getppid() != parent:
    sys.exit('the program is gone')


def _call(function: str, *arguments: int) -> None:
  """Calls a function of the C library; `OSError` if it fails."""
  if getattr(ctypes.CDLL(None, use_errno=True), function)(*arguments):
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), function)


if __name__ == '__main__':
  main(sys.argv[1:])
