"""Checkpoints: everything a run needs to go on as if it had not stopped."""

import json
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow_federated as tff
import tree
from absl import logging

from tff_textpriv import files
from tff_textpriv.training import coroutines, saved_state

_PREFIX = 'program_state_'
# What the arrays and notes of a checkpoint are and mean; a change gets a new number.
_FORMAT = 4
_FORMAT_FILE = 'format.json'


class Checkpoint(NamedTuple):
  """What is saved.

  Attributes:
    round_number: The number of rounds done.
    state: The server state of the iterative process.
    notes: JSON values beside it: the ledger and whatever else the program keeps.
  """

  round_number: int
  state: Any
  notes: dict[str, Any]


class CheckpointError(ValueError):
  """No checkpoint of a folder can be read."""


class Checkpoints:
  """The checkpoints of one run, written atomically by TFF's state manager.

  The state is kept as its flat list of arrays: its structure is that of the
  process that the program builds anew. A file beside the checkpoints names their format.
  """

  def __init__(self, folder: pathlib.Path, runner: coroutines.CoroutineRunner):
    """Opens the folder.

    Args:
      folder: Where the checkpoints are; created if missing.
      runner: Runs the state manager's coroutines.

    Raises:
      CheckpointError: If it holds checkpoints of another format.
    """
    _check_format(folder)
    self._folder = folder
    self._runner = runner
    self._manager: tff.program.FileProgramStateManager = (
      tff.program.FileProgramStateManager(
        folder, _PREFIX, keep_total=2, keep_first=False
      )
    )

    # What a kill in the middle of a save leaves behind.
    for unfinished in folder.glob(f'{_PREFIX}*_temp*'):
      shutil.rmtree(unfinished)
    if not (folder / _FORMAT_FILE).exists():
      files.write_atomically(folder / _FORMAT_FILE, json.dumps({'format': _FORMAT}))

  def save(self, checkpoint: Checkpoint) -> None:
    """Saves a checkpoint, unless that round's is there already."""
    if checkpoint.round_number in self.rounds():
      return
    content = {
      'leaves': tuple(np.asarray(leaf) for leaf in tree.flatten(checkpoint.state)),
      'notes': json.dumps(checkpoint.notes),
    }
    self._runner.run(self._manager.save(content, checkpoint.round_number))

  def load_latest(self, state: Any) -> Checkpoint | None:
    """Loads the newest checkpoint that can be read.

    Args:
      state: A state of the process, for its structure.

    Returns:
      The checkpoint, or `None` if there is none at all.

    Raises:
      CheckpointError: If there are checkpoints and none of them can be read.
    """
    structure = {'leaves': tuple(tree.flatten(state)), 'notes': ''}
    rounds = self.rounds()
    damaged: list[int] = []
    problem = ''
    for round_number in reversed(rounds):
      try:
        saved_state.check(self._folder / f'{_PREFIX}{round_number}')
        content = self._runner.run(self._manager.load(round_number, structure))
        restored = tree.unflatten_as(
          state, _checked(content['leaves'], structure['leaves'])
        )
        notes = json.loads(content['notes'])
      except Exception as error:  # SavedModel raises all kinds for a damaged file.
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        logging.warning(
          'checkpoint of round %d in %s cannot be read and is passed over: %s',
          round_number,
          self._folder,
          problem,
        )
        damaged.append(round_number)
        continue
      for damaged_round in damaged:  # Training gets there again, and saves it anew.
        shutil.rmtree(self._folder / f'{_PREFIX}{damaged_round}')
      return Checkpoint(round_number, restored, notes)
    if rounds:
      raise CheckpointError(
        f'{self._folder}: none of the checkpoints (rounds '
        f'{", ".join(map(str, rounds))}) can be read for the model and algorithm of '
        f'this run ({problem}); remove the folder to start anew'
      )
    return None

  def rounds(self) -> list[int]:
    """Returns the rounds of which there are checkpoints, in order."""
    return self._runner.run(self._manager.get_versions()) or []


def exist_in(folder: pathlib.Path) -> bool:
  """Tells whether a folder holds a checkpoint that was saved whole."""
  names = (path.name.removeprefix(_PREFIX) for path in folder.glob(f'{_PREFIX}*'))
  return any(name.isdecimal() for name in names)


def _check_format(folder: pathlib.Path) -> None:
  """Raises `CheckpointError` unless a folder's checkpoints can be understood.

  Those of versions that named no format have the first one.
  """
  file = folder / _FORMAT_FILE
  if not file.exists() and not exist_in(folder):
    return
  found = files.read_json(file).get('format') if file.exists() else 1
  if found != _FORMAT:
    raise CheckpointError(
      f'{folder}: its checkpoints have format {found}, and this version of the package '
      f'reads format {_FORMAT}; go on with the version that wrote them, or remove the '
      'folder to start anew'
    )


def _checked(leaves: Sequence[Any], expected: Sequence[Any]) -> list[np.ndarray]:
  """Raises `ValueError` unless the leaves have the expected shapes and types."""
  found = [(leaf.shape, leaf.dtype) for leaf in leaves]
  wanted = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in expected]
  if found != wanted:
    raise ValueError('its arrays have other shapes or types')
  return list(leaves)
