"""How a worker of this machine is reached: through a port, or by its run alone.

A door outlives the worker behind it: the one that takes its place has its address.
"""

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from tff_textpriv.runtime import isolated_launcher

# Starts a worker in a network namespace of its own; alone, tries whether one can.
ISOLATED = (sys.executable, '-I', '-S', isolated_launcher.__file__)
# Nobody else has a port there, so that any will do.
_PORT_INSIDE = 10000
_NAME = 'worker'


class PortInUseError(ValueError):
  """Another program listens on the port that a worker was to use."""


class Entrance(NamedTuple):
  """What it takes to start a worker behind a door.

  Attributes:
    port: The port for the worker to listen on.
    launcher: The program, and its arguments, that starts it; empty if it needs none.
    descriptors: The open files that the launcher needs.
  """

  port: int
  launcher: tuple[str, ...] = ()
  descriptors: tuple[int, ...] = ()


class Door(Protocol):
  """The way to a worker."""

  @property
  def address(self) -> str:
    """What gRPC connects to; known once a worker has been started."""

  def prepared(self) -> contextlib.AbstractContextManager[Entrance]:
    """Makes ready for a worker, which is to be started and listen in the context."""

  def answers(self) -> bool:
    """Tells whether a worker takes connections."""

  def close(self) -> None:
    """Gives up what the door holds; its worker has been stopped."""


class OpenPort:
  """A port on all network interfaces: whoever reaches the machine can come in.

  Attributes:
    port: Its number; None, for a free one, until a worker is started.
  """

  def __init__(self, port: int | None = None):
    self.port = port

  @property
  def address(self) -> str:
    """Host and port, as seen from this machine."""
    return f'localhost:{self.port}'

  @contextlib.contextmanager
  def prepared(self) -> Iterator[Entrance]:
    """Keeps the port from others during the start.

    The worker binds its port with SO_REUSEPORT: two workers on one port would both
    start and share the connections. So the port is checked without that option, and
    then held with it until the worker has it.

    Raises:
      PortInUseError: If something listens on the port.
    """
    try:
      with socket.create_server(('', self.port or 0)) as probe:
        free_port = probe.getsockname()[1]
    except OSError as error:
      raise PortInUseError(
        f'port {self.port} cannot be used: {error.strerror}'
      ) from error
    with socket.socket() as holder:
      holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
      holder.bind(('', free_port))
      self.port = free_port
      yield Entrance(free_port)

  def answers(self) -> bool:
    """Tells whether something accepts connections on the port."""
    if self.port is None:
      return False
    try:
      socket.create_connection(('localhost', self.port), timeout=1).close()
    except OSError:
      return False
    return True

  def close(self) -> None:
    """A port is held by its worker only."""


class PrivateSocket:
  """A Unix socket of which only this process knows the way.

  The worker behind it has a network namespace of its own, and so no port that anybody
  else could reach. The socket has mode 0600, in a folder of mode 0700, and both are
  deleted as soon as they are made: what is left is an open file of this process, by
  which the socket is still found. So nothing remains of a run that is killed, and no
  cleaning of /tmp cuts a long run off.
  """

  _way = isolated_launcher.PASS_ON

  def __init__(self) -> None:
    # Later the socket; its number, and so the address, is the same for all workers.
    self._handle = os.open('/', os.O_PATH)

  @property
  def _path(self) -> str:
    return f'/proc/self/fd/{self._handle}'

  @property
  def address(self) -> str:
    """The socket's address, of use in this process only."""
    return f'unix:{self._path}'

  @contextlib.contextmanager
  def prepared(self) -> Iterator[Entrance]:
    """Makes a socket for the launcher to listen on."""
    with socket.socket(socket.AF_UNIX) as server:
      self._bind(server)
      descriptor = server.fileno()
      yield Entrance(
        _PORT_INSIDE,
        (*ISOLATED, self._way, str(descriptor), str(_PORT_INSIDE)),
        (descriptor,),
      )

  def answers(self) -> bool:
    """Tells whether the worker takes connections through the socket."""
    try:
      self.connect().close()
    except ConnectionRefusedError:
      return False
    return True

  def connect(self) -> socket.socket:
    """Returns a new connection to the worker."""
    client = socket.socket(socket.AF_UNIX)
    try:
      client.connect(self._path)
    except OSError:
      client.close()
      raise
    return client

  def close(self) -> None:
    """Forgets the socket."""
    os.close(self._handle)

  def _bind(self, server: socket.socket) -> None:
    """Gives the socket a name for a moment, and takes hold of it."""
    with tempfile.TemporaryDirectory() as folder:
      self._hold(folder)
      # By way of the handle, since a socket's name must not be long.
      server.bind(f'{self._path}/{_NAME}')
      path = os.path.join(folder, _NAME)
      os.chmod(path, 0o600)
      self._hold(path)

  def _hold(self, path: str) -> None:
    """Makes the handle one of another file."""
    opened = os.open(path, os.O_PATH)
    try:
      os.dup2(opened, self._handle, inheritable=False)
    finally:
      os.close(opened)


class HandedSocket(PrivateSocket):
  """A private socket through which connections to the worker itself are handed out.

  Who has bytes to pass on anyway, from a network, saves passing them on twice.
  """

  _way = isolated_launcher.HAND_OUT

  def connect(self) -> socket.socket:
    """Returns a new connection to the worker; `ConnectionError` if there is none."""
    with super().connect() as client:
      _, descriptors, _, _ = socket.recv_fds(client, 100, 1)
    if not descriptors:
      raise ConnectionRefusedError('the worker takes no connection')
    return socket.socket(fileno=descriptors[0])
