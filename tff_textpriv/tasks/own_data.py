"""A program's own text as a task: a data frame, records, or client data of TFF.

Rows are written to a file that is named by a hash of its content, and is the `--data` of
the task `custom` from then on: every tool that reads a run's data can read these.
"""

import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import clients
from tff_textpriv.tasks import custom, objects

if TYPE_CHECKING:
  import tensorflow_federated as tff

_DATA_DIR = custom.OwnLabelsSettings().data_dir
# The columns of client data, whose clients and groups have no names of their own.
_USER, _SPLIT = 'client_id', 'split'
# What pandas has where there is nothing, besides NaN.
_MISSING = ('NAType', 'NaTType')


def from_frame(
  frame: Any, *, user: str, text: str, label: str | None = None, **given: Any
) -> objects.TaskObject:
  """Makes a task of a data frame with one row per text.

  Args:
    frame: A `pandas.DataFrame`, or whatever else gives a column as `frame[name]`.
    user: The column that tells users apart.
    text: The column of texts.
    label: The column of classes. With it, the task is a classifier; without it, a
      language model.
    **given: Flags of the task `custom`, as Python values.

  Raises:
    ValueError: A column that is not there, or what the command would refuse. Errors name
      rows by their numbers, and never show what is in them.
  """
  names = _names(user=user, text=text, label=label)
  try:
    columns = [list(frame[name]) for name in names]
  except (KeyError, ValueError, TypeError):
    wanted = ', '.join(map(settings_lib.shown, names))
    raise clients.DataError(f'the frame has no columns {wanted}') from None
  rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
  return from_records(rows, user=user, text=text, label=label, **given)


def from_records(
  records: Iterable[Mapping[str, Any]],
  *,
  user: str,
  text: str,
  label: str | None = None,
  **given: Any,
) -> objects.TaskObject:
  """Makes a task of records, one mapping per text; see `from_frame` for the rest.

  Args:
    records: The records, as in `[{'author': 'ann', 'body': 'good morning'}, ...]`.
    user: The key that tells users apart.
    text: The key of texts.
    label: The key of classes, for a classifier.
    **given: Flags of the task `custom`, as Python values.
  """
  names = _names(user=user, text=text, label=label)

  def rows() -> Iterator[dict[str, Any]]:
    for number, record in enumerate(records, start=1):
      if not isinstance(record, Mapping):
        kind = type(record).__name__
        raise clients.DataError(f'record {number} is {kind}, and no mapping')
      yield {name: record[name] for name in names if name in record}

  return _task(rows(), given, user=user, text=text, label=label)


def from_client_data(
  train: 'tff.simulation.datasets.ClientData',
  validation: 'tff.simulation.datasets.ClientData | None' = None,
  test: 'tff.simulation.datasets.ClientData | None' = None,
  *,
  text: str = 'tokens',
  label: str | None = None,
  **given: Any,
) -> objects.TaskObject:
  """Makes a task of client data of TFF, one example per text; see `from_frame`.

  Args:
    train: The clients that train; if there is no `test`, some of them become that.
    validation: Clients on whom choices are made; by default, some of `train`.
    test: Clients on whom the result is measured.
    text: The feature of texts, a string.
    label: The feature of classes, for a classifier: a string or an integer.
    **given: Flags of the task `custom`, as Python values.
  """
  if validation is not None and test is None:
    raise clients.DataError('client data with validation clients need test clients too')
  names = _names(text=text, label=label)

  def rows() -> Iterator[dict[str, Any]]:
    groups = {'train': train, 'validation': validation, 'test': test}
    for group, data in groups.items():
      for client in [] if data is None else data.client_ids:
        for example in _examples(data, client):
          features = {name: example[name] for name in names if name in example}
          yield {**features, _USER: client, _SPLIT: group}

  split = None if test is None else _SPLIT
  return _task(rows(), given, user=_USER, text=text, label=label, split=split)


def _examples(
  data: 'tff.simulation.datasets.ClientData', client: str
) -> Iterator[Mapping[str, Any]]:
  """Reads a client's examples; TensorFlow's errors quote the one that is wrong."""
  import tensorflow as tf

  try:
    yield from data.create_tf_dataset_for_client(client).as_numpy_iterator()
  except tf.errors.OpError as error:
    raise clients.DataError(
      f'client number {data.client_ids.index(client) + 1} of the client data cannot be '
      f'read ({type(error).__name__})'
    ) from None


def _task(
  rows: Iterable[Mapping[str, Any]], given: Mapping[str, Any], **columns: str | None
) -> objects.TaskObject:
  """Makes the task of rows, given their columns by what they are for."""
  named = {f'{role}_column': name for role, name in columns.items() if name is not None}
  file = _write(rows, pathlib.Path(given.get('data_dir', _DATA_DIR)))
  return objects.TaskObject(custom.TASK, {**given, 'data': str(file), **named})


def _write(rows: Iterable[Mapping[str, Any]], folder: pathlib.Path) -> pathlib.Path:
  """Writes rows to a file that only its owner can read, unless it is there."""
  folder.mkdir(mode=0o700, parents=True, exist_ok=True)
  digest = hashlib.sha256()
  with tempfile.TemporaryDirectory(dir=folder) as scratch:
    written = pathlib.Path(scratch) / 'rows'
    with open(os.open(written, os.O_CREAT | os.O_WRONLY, 0o600), 'wb') as file:
      for row in rows:
        plain = {name: _plain(value) for name, value in row.items()}
        # What JSON has no word for becomes a list, and the row one that is not used.
        line = json.dumps(plain, default=lambda value: []).encode() + b'\n'
        digest.update(line)
        file.write(line)
    target = folder / f'rows_{digest.hexdigest()[:16]}.jsonl'
    if not target.exists():
      written.rename(target)
  return target


def _names(**names: str | None) -> list[str]:
  """Returns the columns that are named; a column itself in place of its name is refused."""
  for role, name in names.items():
    if not isinstance(name, str | None):
      kind = type(name).__name__
      raise clients.DataError(f'{role} must be the name of a column, and no {kind}')
  return [name for name in names.values() if name is not None]


def _plain(value: Any) -> Any:
  """Returns a value of NumPy, pandas or TensorFlow as one of Python."""
  if getattr(value, 'shape', None) == () and hasattr(value, 'item'):
    value = value.item()
  if isinstance(value, bytes):
    return value.decode(errors='replace')
  is_nan = isinstance(value, float) and value != value
  return None if is_nan or type(value).__name__ in _MISSING else value
