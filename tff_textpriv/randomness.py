"""Random numbers that are functions of the run's seed.

Every use draws from a stream of its own, named by its purpose and its indices
(a round, a client), so that no use disturbs another and a resumed run draws what
an undisturbed one would have drawn.
"""

import zlib

import numpy as np


def generator(seed: int, purpose: str, *indices: int | str) -> np.random.Generator:
  """Returns the generator of one stream.

  Args:
    seed: The run's seed.
    purpose: What the numbers are for, e.g. `cohort`.
    *indices: Which of the streams of that purpose, e.g. the round.

  Returns:
    A fresh generator; the same arguments give the same numbers.
  """
  key = [seed, zlib.crc32(purpose.encode())]
  key += [
    zlib.crc32(index.encode()) if isinstance(index, str) else index for index in indices
  ]
  return np.random.default_rng(key)


def client_seed(seed: int, round_number: int, client_id: str) -> np.ndarray:
  """Returns the seed of a client's own random numbers in a round, int32 [2]."""
  limits = np.iinfo(np.int32)
  rng = generator(seed, 'client', round_number, client_id)
  return rng.integers(limits.min, limits.max, 2, np.int32, endpoint=True)
