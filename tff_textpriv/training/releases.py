"""What each round leaves to be seen: a row of metrics.csv, and TensorBoard's events."""

import pathlib

import tensorflow_federated as tff

from tff_textpriv import files

_METRICS = 'metrics.csv'


def open_after(round_number: int, folder: pathlib.Path) -> tff.program.ReleaseManager:
  """Opens the releases of a run's folder, to go on after a round.

  Args:
    round_number: The last round that is done; what is there of later ones is removed.
    folder: The run's folder.
  """
  _forget_after(round_number, folder / _METRICS)
  return tff.program.GroupingReleaseManager(
    [
      tff.program.CSVFileReleaseManager(folder / _METRICS, key_fieldname='round'),
      tff.program.TensorBoardReleaseManager(folder / 'tensorboard'),
    ]
  )


def _forget_after(round_number: int, file: pathlib.Path) -> None:
  """Takes out of metrics.csv the rounds that will be made again, and what is cut off.

  A full disk takes only the first part of a row. TFF's manager would read the 1 of a
  row of round 12 as a row of round 1, and write the next row behind it in one line.
  """
  for unfinished in file.parent.glob(f'{file.name}_temp*'):
    unfinished.unlink()
  if not file.exists():
    return
  content = file.read_bytes()
  header, *rows = content.splitlines(keepends=True)
  kept = [
    row
    for row in rows
    if row.endswith(b'\n') and int(row.partition(b',')[0]) <= round_number
  ]
  if not kept:
    file.unlink()
  elif len(kept) < len(rows):
    files.write_atomically(file, b''.join([header, *kept]))
