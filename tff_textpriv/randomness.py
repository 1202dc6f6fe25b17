"""Random numbers that follow from one secret.

Every use draws from a stream of its own, named by its purpose and its indices (a phase, a
round, a client), so that no use disturbs another, no two share numbers, and a resumed
run draws what an undisturbed one would have drawn. Names become keys by a keyed hash,
whose outputs nobody can tell from random ones without the secret.
"""

import dataclasses
import hashlib
import json
import secrets
from collections.abc import Iterable

import numpy as np

_KEY_BYTES = 32
# Sets the hashes of this package apart from all others.
_PERSON = b'tff_textpriv'


@dataclasses.dataclass(frozen=True)
class Stream:
  """A secret, or a key that was derived from one for a purpose.

  Attributes:
    key: 256 bits; whoever knows them knows all numbers.
  """

  key: bytes = dataclasses.field(repr=False)

  def __post_init__(self) -> None:
    if len(self.key) != _KEY_BYTES:
      raise ValueError(f'a key has {_KEY_BYTES} bytes, not {len(self.key)}')

  @classmethod
  def of_seed(cls, seed: int) -> 'Stream':
    """Returns the stream that repeats with a seed; whoever knows the seed knows it."""
    return cls(_hash(b'', ['seed', int(seed)]))

  @classmethod
  def of_system(cls) -> 'Stream':
    """Draws a secret from the operating system."""
    return cls(secrets.token_bytes(_KEY_BYTES))

  def child(self, purpose: str, *indices: int | str) -> 'Stream':
    """Returns the stream of a purpose, which tells nothing of this one or its others."""
    names: list[int | str] = [purpose]
    names += [index if isinstance(index, str) else int(index) for index in indices]
    return Stream(_hash(self.key, names))

  def generator(self, purpose: str, *indices: int | str) -> np.random.Generator:
    """Returns a fresh generator; the same arguments give the same numbers.

    Args:
      purpose: What the numbers are for, e.g. `cohort`.
      *indices: Which of the streams of that purpose, e.g. the round.
    """
    key = self.child(purpose, *indices).key[:16]
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, 'little')))

  def words(self, purpose: str, *indices: int | str) -> np.ndarray:
    """Returns 128 bits, int64 [2]: a seed of TensorFlow's stateless generators."""
    return np.frombuffer(self.child(purpose, *indices).key[:16], '<i8').astype(np.int64)

  def share(self, purpose: str, *indices: int | str) -> float:
    """Returns a number in [0, 1) that is that of its name alone, whoever else there is."""
    key = self.child(purpose, *indices).key
    return (int.from_bytes(key[:8], 'little') >> 11) / 2**53

  def shares(self, purpose: str, names: Iterable[str]) -> np.ndarray:
    """Returns the shares of many names, float [names]."""
    child = self.child(purpose)
    return np.array([child.share('', name) for name in names])


def generator(seed: int, purpose: str, *indices: int | str) -> np.random.Generator:
  """Returns the generator of a stream of a seed; see `Stream.generator`."""
  return Stream.of_seed(seed).generator(purpose, *indices)


def _hash(key: bytes, names: list[int | str]) -> bytes:
  """Returns 256 bits that follow from a key and names; no two lists read the same."""
  text = json.dumps(names).encode()
  return hashlib.blake2b(text, digest_size=_KEY_BYTES, key=key, person=_PERSON).digest()
