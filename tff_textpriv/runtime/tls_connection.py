"""A connection under TLS, for one thread that reads and another one that writes.

Python's own TLS sockets must not be read and written at the same time. Here the cipher
works on memory, under a lock, and the threads wait for the network outside of it.
"""

import contextlib
import pathlib
import socket
import ssl
import threading
import time

from tff_textpriv.runtime import certificates

# gRPC's protocol, HTTP/2, by its name in TLS.
_PROTOCOL = 'h2'

# As much as the relay passes on at a time.
_BUFFER_BYTES = 2**18


def server_context(key_file: pathlib.Path) -> ssl.SSLContext:
  """Returns what a host of workers makes its TLS connections of.

  Args:
    key_file: The host's key file.

  Raises:
    KeyFileError: If it cannot be used.
  """
  keys = certificates.read(key_file)
  context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
  context.minimum_version = ssl.TLSVersion.TLSv1_3
  context.verify_mode = ssl.CERT_REQUIRED
  try:
    context.load_cert_chain(key_file)
    context.load_verify_locations(cadata=keys.authority.decode())
  except (ssl.SSLError, UnicodeDecodeError):
    # Without its cause, which may quote a part of the key.
    raise certificates.KeyFileError(f'{key_file} has damaged certificates') from None
  context.set_alpn_protocols([_PROTOCOL])
  context.sslobject_class = _Named
  context.sni_callback = _remember
  return context


class _Named(ssl.SSLObject):
  """TLS that remembers by which name the server was called."""

  name = ''


class TlsConnection:
  """The server's end of a connection, with the calls of a socket that a relay needs.

  Attributes:
    heard: When something came from the other side last, by the monotonic clock.
  """

  def __init__(self, connection: socket.socket, context: ssl.SSLContext):
    """Does not speak yet.

    Args:
      connection: A connection that was just accepted.
      context: Made by `server_context`.
    """
    self._socket = connection
    self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
    self._lock = threading.Lock()
    self._received = bytearray(_BUFFER_BYTES)
    self.heard = time.monotonic()

  @property
  def server_name(self) -> str:
    """The name by which the other side called; known after the handshake."""
    assert isinstance(self._tls, _Named)  # As the context was told.
    return self._tls.name

  def shake_hands(self, seconds: float) -> None:
    """Finds out whether the other side may come in.

    Args:
      seconds: How long that may take in all.

    Raises:
      OSError: If it may not (`ssl.SSLError`), is too slow or hangs up.
    """
    deadline = time.monotonic() + seconds
    while True:
      self._socket.settimeout(max(0.001, deadline - time.monotonic()))
      try:
        self._tls.do_handshake()
        break
      except ssl.SSLWantReadError:
        self._socket.sendall(self._outgoing.read())
        if not self._receive():
          raise ConnectionAbortedError('it hung up') from None
      except ssl.SSLError:
        with contextlib.suppress(OSError):  # It may not care to know why.
          self._socket.sendall(self._outgoing.read())
        raise
    self._socket.sendall(self._outgoing.read())
    self._socket.settimeout(None)

  def recv_into(self, buffer: memoryview) -> int:
    """Fills a buffer with what is there, once there is something; 0 at the end."""
    while True:
      with self._lock:
        count = self._decrypt(buffer)
      if count is not None:
        return count
      if not self._receive():
        return 0

  def sendall(self, data: memoryview) -> None:
    """Sends all of `data`."""
    with self._lock:
      self._tls.write(data)
      encrypted = self._outgoing.read()
    self._socket.sendall(encrypted)

  def shutdown(self, how: int) -> None:
    """Hangs up, whoever is reading or writing."""
    self._socket.shutdown(how)

  def close(self) -> None:
    """Closes the socket."""
    self._socket.close()

  def _receive(self) -> bool:
    """Waits for bytes; tells whether there are any to come."""
    count = self._socket.recv_into(self._received)
    self.heard = time.monotonic()
    if count:
      with self._lock:
        self._incoming.write(memoryview(self._received)[:count])
    return bool(count)

  def _decrypt(self, buffer: memoryview) -> int | None:
    """Returns how many bytes of the buffer are filled; `None` if more must come."""
    filled = 0
    try:
      while filled < len(buffer):
        # A record, of at most 16 kB, at a time.
        data = self._tls.read(len(buffer) - filled)
        if not data:
          break
        buffer[filled : filled + len(data)] = data
        filled += len(data)
      return filled
    except ssl.SSLWantReadError:
      return filled or None
    except ssl.SSLError as error:
      raise ConnectionAbortedError(str(error)) from error


def _remember(tls: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
  """Takes note of the name by which a client calls."""
  del context  # It is the same for all.
  assert isinstance(tls, _Named)
  tls.name = name or ''
