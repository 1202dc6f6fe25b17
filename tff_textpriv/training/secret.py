"""The secret of a run, from which all randomness that a promise rests on follows.

With `--noise_source=seeded` it is a function of `--seed`. With `system` it is drawn from
the operating system and kept in a file of its own, which only its owner may read, and which
is copied nowhere: a resumed run needs it to make the rounds after its last checkpoint again
just as they were, and whoever else reads it can subtract the noise.
"""

import os
import pathlib
import stat
from collections.abc import Mapping
from typing import Any

from tff_textpriv import files
from tff_textpriv.randomness import Stream

FILE = 'secret.key'
_OWNER_ONLY = 0o600


class SecretError(ValueError):
  """The secret of a run is missing, damaged, or not secret."""


def stream(source: str, seed: int, folder: pathlib.Path) -> Stream:
  """Returns where the random numbers of a run come from; nothing is written.

  Args:
    source: `seeded` or `system`.
    seed: The run's seed.
    folder: The run's folder.

  Raises:
    SecretError: If the run has begun, and its secret is lost or no longer one.
  """
  if source == 'seeded':
    return Stream.of_seed(seed)
  file = folder / FILE
  if file.exists():
    return _read(file)
  if (folder / 'config.json').exists() and not (folder / 'results.json').exists():
    raise SecretError(
      f'{file} is missing: without it the run cannot go on as it began, and would '
      'spend twice for the same rounds; choose another --experiment_name'
    )
  return Stream.of_system()


def runs_that_share_noise(config: Mapping[str, Any], folder: pathlib.Path) -> list[str]:
  """Returns the runs beside a seeded one whose noise is the same, since their seed is."""

  def noise(settings: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(settings.get(name) for name in ('seed', 'noise_source'))

  others = sorted(folder.parent.glob('*/config.json'))
  return [
    file.parent.name
    for file in others
    if file.parent != folder and noise(files.read_json(file)) == noise(config)
  ]


def keep(secret: Stream, folder: pathlib.Path) -> None:
  """Writes the secret of a run into its folder, unless it is there."""
  file = folder / FILE
  if file.exists():
    return
  with files.replacing(file) as temporary:
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    with os.fdopen(handle, 'w') as opened:
      opened.write(secret.key.hex() + '\n')


def forget(folder: pathlib.Path) -> None:
  """Deletes the secret of a run that is done: nobody can compute its noise any more."""
  (folder / FILE).unlink(missing_ok=True)


def _read(file: pathlib.Path) -> Stream:
  if stat.S_IMODE(file.lstat().st_mode) & ~_OWNER_ONLY or file.is_symlink():
    raise SecretError(
      f'{file}: others than its owner may read it, so that it is no secret; start anew '
      'with another --experiment_name'
    )
  try:
    return Stream(bytes.fromhex(files.read_text(file)))
  except ValueError:  # The content is a secret, whatever it is.
    raise SecretError(f'{file}: is damaged, and the run cannot go on') from None
