"""How fast workers are, measured by what they have done."""

from collections.abc import Hashable, Sequence

# Weights are whole numbers up to this. With finer ones parts would have ever new sizes,
# and for a new size a worker loads its graphs again.
_FINEST = 8
# What the newest measurement counts for: one that is off is soon forgotten.
_NEWEST = 0.5


class Speeds:
  """Clients per second of each worker, averaged over rounds."""

  def __init__(self) -> None:
    self._speeds: dict[Hashable, float] = {}

  def note(self, worker: Hashable, clients: int, seconds: float) -> None:
    """Takes note of how long a worker took for so many clients."""
    if not clients:
      return
    measured = clients / max(seconds, 1e-9)
    before = self._speeds.get(worker, measured)
    self._speeds[worker] = _NEWEST * measured + (1 - _NEWEST) * before

  def weights(self, workers: Sequence[Hashable]) -> list[int]:
    """Returns how much of a cohort each is to get, the fastest one 8 shares.

    One that was never measured counts as the fastest.
    """
    fastest = max((self._speeds.get(each, 0.0) for each in workers), default=0.0)
    return [
      max(1, round(_FINEST * self._speeds.get(each, fastest) / fastest))
      if fastest
      else 1
      for each in workers
    ]
