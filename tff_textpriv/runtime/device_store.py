"""What simulated devices keep between rounds: private files, versioned by round.

Each user has a folder of its own. What a device keeps for itself (a vocabulary) is
written once; its state is a file for each round in which it trained, `<round>.bin`. A
round's client computation reads the file of an earlier round and writes a new one,
inside the worker, so that a state never passes through the server's connection:

    [(before, after)] = store.begin(['client_7'], round_number=12)
    ...  # the worker reads the file `before` and writes the file `after`
    store.commit(12)

A version is deleted when neither a checkpoint nor the next round can need it, so that a
run that was killed goes on from its checkpoint's states. All files are readable by their
owner alone. States are bytes here: those who train know what is in them.

Nothing but the folders of the users at hand is looked at: the number of users, and the
size of all states together, are limited by the disk only.
"""

import hashlib
import os
import pathlib
import shutil
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence

_SUFFIX = '.bin'
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
# File systems allow 255.
_MAX_NAME = 200

# Makes what a new device keeps: its first state under the name `STATE`, and other
# files under names of their own.
SetUp = Callable[[str], Mapping[str, bytes]]
STATE = 'state'


class DeviceStoreError(ValueError):
  """What a device should have kept cannot be found."""


class DeviceStore:
  """The disk form: states stay in a folder, and are in memory only while one trains."""

  def __init__(self, folder: pathlib.Path, set_up: SetUp):
    """Opens the store.

    Args:
      folder: The folder of all devices; made if missing. Workers must reach it by the
        same path.
      set_up: Called once for each user, when it is first needed.
    """
    self._folder = folder.absolute()
    self._set_up = set_up
    self._open_round: dict[str, int] = {}
    self._checkpoints = [0]
    _make_folder(self._folder)

  @property
  def folder(self) -> pathlib.Path:
    """Where workers find the states."""
    return self._folder

  def begin(self, users: Sequence[str], round_number: int) -> list[tuple[str, str]]:
    """Prepares a round.

    Args:
      users: Who takes part.
      round_number: The round, from 1.

    Returns:
      The file to read and the file to write, of each user. The second one is there
      already, empty, so that whoever writes it does not choose its permissions.
    """
    files = []
    for user in users:
      device = self._device(user)
      # A round that is repeated, after a worker died, may have written before.
      before = max(v for v in _versions(device) if v < round_number)
      after = _file(device, round_number)
      _write(after, b'')
      self._open_round[user] = round_number
      files.append((str(_file(device, before)), str(after)))
    return files

  def commit(self, round_number: int) -> None:
    """Ends a round: what its users wrote is their state now.

    Raises:
      DeviceStoreError: If a user of the round wrote nothing.
    """
    for user, begun in self._open_round.items():
      device = self._device(user)
      if begun != round_number or not _file(device, begun).stat().st_size:
        raise DeviceStoreError(
          f'{device}: no state was written in round {round_number}; do all workers '
          'reach this folder by this path?'
        )
      self._drop_unneeded(device)
    self._open_round.clear()

  def flush(self) -> None:
    """Brings to the disk what a checkpoint that is about to be saved counts on."""

  def prune(self, checkpoints: Iterable[int]) -> None:
    """Deletes the versions that nobody will ask for again.

    Args:
      checkpoints: The rounds of the checkpoints from which a run may go on.
    """
    self._checkpoints = list(checkpoints)
    for device in self._folder.iterdir():
      self._drop_unneeded(device)

  def restore(self, round_number: int) -> None:
    """Goes back to the states after a round; later ones are deleted."""
    self._open_round.clear()
    for device in self._folder.iterdir():
      for version in _versions(device):
        if version > round_number:
          _file(device, version).unlink()

  def state(self, user: str) -> bytes:
    """Returns a user's newest state."""
    device = self._device(user)
    return _file(device, _versions(device)[-1]).read_bytes()

  def kept(self, user: str, name: str) -> bytes:
    """Returns what a user's device keeps under a name."""
    return (self._device(user) / name).read_bytes()

  def close(self) -> None:
    """Ends the use of the store; what is on the disk stays."""

  def _drop_unneeded(self, device: pathlib.Path) -> None:
    """Keeps the newest version, and for each checkpoint the newest one of its time."""
    versions = _versions(device)
    needed = {
      max((version for version in versions if version <= checkpoint), default=None)
      for checkpoint in self._checkpoints
    }
    for version in versions[:-1]:
      if version not in needed:
        _file(device, version).unlink()

  def _device(self, user: str) -> pathlib.Path:
    """Returns a user's folder, set up if it is new."""
    device = self._folder / _folder_name(user)
    if _versions(device):
      return device
    _make_folder(device)
    contents = dict(self._set_up(user))
    first_state = contents.pop(STATE)
    for name, content in contents.items():
      _write(device / name, content)
    # Last, since a device with a state counts as set up.
    _write(_file(device, 0), first_state)
    return device


class MemoryDeviceStore(DeviceStore):
  """The memory form: states are files of a memory-backed folder, and faster.

  A copy goes to the disk before each checkpoint, from where a resumed run has them.
  """

  def __init__(self, folder: pathlib.Path, set_up: SetUp, memory: pathlib.Path):
    """Opens the store.

    Args:
      folder: Where the copies go.
      set_up: See the base class.
      memory: A folder of this store alone in a memory-backed file system. What a run
        that was killed left there is deleted.
    """
    shutil.rmtree(memory, ignore_errors=True)
    super().__init__(memory, set_up)
    self._copies = folder.absolute()
    _make_folder(self._copies)

  def flush(self) -> None:
    """See the base class: copies what has no copy yet."""
    for device in self._folder.iterdir():
      copy = self._copies / device.name
      _make_folder(copy)
      for name in sorted(_names(device) - _names(copy)):
        _write(copy / name, (device / name).read_bytes())

  def prune(self, checkpoints: Iterable[int]) -> None:
    """See the base class; also deletes the copies of what is deleted."""
    super().prune(checkpoints)
    for copy in self._copies.iterdir():
      for name in _names(copy) - _names(self._folder / copy.name):
        (copy / name).unlink()

  def restore(self, round_number: int) -> None:
    """See the base class; begins with the copies."""
    for copy in self._copies.iterdir():
      device = self._folder / copy.name
      _make_folder(device)
      for file in copy.iterdir():
        _write(device / file.name, file.read_bytes())
    super().restore(round_number)

  def close(self) -> None:
    """Ends the use of the store: gives the memory back."""
    shutil.rmtree(self._folder, ignore_errors=True)


def _folder_name(user: str) -> str:
  """Makes a name for a user's folder: no path, no other user's, no longer than allowed.

  Ids come from files of anybody: `..` would be the folder of all folders.
  """
  quoted = urllib.parse.quote(user, safe='', errors='surrogatepass').replace('.', '%2E')
  if 0 < len(quoted) <= _MAX_NAME:
    return quoted
  digest = hashlib.sha256(user.encode('utf-8', 'surrogatepass')).hexdigest()
  # Quoting never writes two percent signs in a row, so that no other user has this.
  return f'{quoted[: _MAX_NAME - len(digest) - 2]}%%{digest}'


def _make_folder(folder: pathlib.Path) -> None:
  folder.parent.mkdir(parents=True, exist_ok=True)
  folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
  folder.chmod(_FOLDER_MODE)


def _file(device: pathlib.Path, version: int) -> pathlib.Path:
  return device / f'{version}{_SUFFIX}'


def _names(device: pathlib.Path) -> set[str]:
  """Returns the names of a device's files."""
  return {file.name for file in device.iterdir()}


def _versions(device: pathlib.Path) -> list[int]:
  """Returns the rounds of which a device has a state, in order."""
  return sorted(int(file.stem) for file in device.glob(f'*{_SUFFIX}'))


def _write(file: pathlib.Path, content: bytes) -> None:
  """Writes a file, whole or not at all, that its owner alone can read."""
  partial = file.with_name(f'{file.name}.partial')
  flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
  with os.fdopen(os.open(partial, flags, _FILE_MODE), 'wb') as stream:
    stream.write(content)
  os.replace(partial, file)
