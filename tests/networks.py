"""Networks for tests, which are skipped where none can be made."""

import contextlib
from collections.abc import Iterator

import pytest

from benchmarks import networks
from benchmarks.networks import Host


@contextlib.contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
  """Makes so many hosts."""
  try:
    made = networks.hosts(count)
    with made as those:
      yield those
  except networks.NoNetworksError as error:
    pytest.skip(str(error))
