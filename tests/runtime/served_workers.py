"""A host of workers in this process, and a cable to it that can be cut."""

import contextlib
import pathlib
import socket
import ssl
import threading

from tff_textpriv.runtime import certificates, tls_connection, worker_host
from tff_textpriv.runtime.worker_process import NO_LIMITS

HERE = '127.0.0.1'


def make_keys(folder: pathlib.Path) -> None:
  """Writes keys that belong together, and their authority alone."""
  run_file, _ = certificates.make(folder, days=1)
  (folder / 'authority.pem').write_bytes(certificates.read(run_file).authority)


class Served:
  """A host of workers, on a port of the loopback."""

  def __init__(self, keys: pathlib.Path, folder: pathlib.Path, port: int = 0):
    self._keys = keys
    self._server = socket.create_server((HERE, port))
    self.port = self._server.getsockname()[1]
    self._host = worker_host.WorkerHost(
      self._server,
      tls_connection.server_context(keys / 'worker.pem'),
      folder / 'worker.log',
      NO_LIMITS,
    )
    self._thread = threading.Thread(target=self._serve, daemon=True)
    self._thread.start()

  @property
  def address(self) -> str:
    """What a run calls."""
    return f'{HERE}:{self.port}'

  def connect(self, name: str) -> ssl.SSLSocket | None:
    """Connects by a name, and hears the worker's first words; `None` if it has none."""
    context = ssl.create_default_context(cafile=self._keys / 'authority.pem')
    context.load_cert_chain(self._keys / 'run.pem')
    context.set_alpn_protocols(['h2'])
    plain = socket.create_connection((HERE, self.port))
    tls = context.wrap_socket(plain, server_hostname=f'{name}.worker.tff-textpriv')
    tls.settimeout(5)
    return tls if tls.recv(1) else None

  def close(self) -> None:
    """Ends all workers."""
    self._server.close()
    self._thread.join()

  def _serve(self) -> None:
    with contextlib.suppress(OSError):  # The socket was closed.
      self._host.serve()


class Cable:
  """A port of the loopback that leads to another one, until it is cut.

  As with a cable, or a tunnel, neither end learns of the cut: nothing arrives.
  """

  def __init__(self, port: int):
    self._target = port
    self._whole = threading.Event()
    self._whole.set()
    self._server = socket.create_server((HERE, 0))
    self.address = f'{HERE}:{self._server.getsockname()[1]}'
    threading.Thread(target=self._accept, daemon=True).start()

  def cut(self) -> None:
    """Lets nothing through any more."""
    self._whole.clear()

  def mend(self) -> None:
    """Lets all through, what was sent meanwhile too."""
    self._whole.set()

  def close(self) -> None:
    """Takes it away."""
    self.mend()
    self._server.close()

  def _accept(self) -> None:
    with contextlib.suppress(OSError):  # The socket was closed.
      while True:
        threading.Thread(
          target=self._connect, args=(self._server.accept()[0],), daemon=True
        ).start()

  def _connect(self, client: socket.socket) -> None:
    self._whole.wait()
    try:
      target = socket.create_connection((HERE, self._target))
    except OSError:
      client.close()
      return
    for source, sink in ((client, target), (target, client)):
      threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

  def _forward(self, source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):  # Either side hung up.
      while data := source.recv(2**16):
        self._whole.wait()
        sink.sendall(data)
    for side in (source, sink):
      with contextlib.suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
