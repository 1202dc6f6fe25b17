"""What the clients of a round read, put together by the names that their process gives."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.iterative_processes import contract
from tff_textpriv.runtime import device_store
from tff_textpriv.training import workbench

# Gives one part of what a client reads, given the client and the round.
Provider = Callable[[str, int], Sequence[Any]]


class UnknownDataError(ValueError):
  """A process asks for something that no run provides."""


class CohortData:
  """Gives the data of a round's clients: `batches`, `adaptation`, `seed` and `state`."""

  def __init__(
    self,
    process: Any,
    bench: workbench.Workbench,
    stream: randomness.Stream,
    devices: device_store.DeviceStore | None,
  ):
    """Prepares the parts that a process's clients read.

    Args:
      process: The process.
      bench: Makes batches.
      stream: Where clients' seeds come from.
      devices: What devices keep, if they keep something.

    Raises:
      UnknownDataError: If the process reads anything else.
    """
    self._devices = devices
    self._names = contract.reads(process)
    self._files: dict[str, tuple[str, str]] = {}
    self._providers: dict[str, Provider] = {
      'batches': bench.batches,
      'adaptation': bench.adaptation,
      'seed': lambda user, number: [stream.words('client', number, user)],
    }
    if devices is not None:
      self._providers['state'] = lambda user, _: [np.array(self._files[user])]
    unknown = set(self._names) - self._providers.keys()
    if unknown:
      raise UnknownDataError(
        f'clients of the process read {", ".join(sorted(unknown))}, which this run does '
        f'not provide; it has {", ".join(self._providers)}'
      )

  def __call__(self, users: Sequence[str], round_number: int) -> list[Any]:
    """Returns the data of a round's clients, in the order of their names."""
    if self._devices is not None:
      files = self._devices.begin(users, round_number)
      self._files = dict(zip(users, files, strict=True))
    return [self._read(user, round_number) for user in users]

  def _read(self, user: str, round_number: int) -> Any:
    parts = [self._providers[name](user, round_number) for name in self._names]
    return parts[0] if self._names == (contract.BATCHES,) else tuple(parts)
