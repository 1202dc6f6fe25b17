"""What a run has spent, on disk before anything is released.

Checkpoints are written every so many rounds, and the newest may turn out damaged. So the
ledger is written before every round as well, with the round that it already includes. A
round that is made again after a crash releases what it released before, since all of its
random numbers follow from the run's secret: what is on disk includes it already.
"""

import json
import pathlib
from typing import NamedTuple

from tff_textpriv import files
from tff_textpriv.privacy.ledger import Ledger

FILE = 'ledger.json'


class Place(NamedTuple):
  """A round of a run; places are in the order of time."""

  phase: int
  round_number: int


class Journal:
  """The ledger in a run's folder, which only ever grows."""

  def __init__(self, folder: pathlib.Path):
    """Opens the journal of a folder.

    Raises:
      FileError: If it is damaged: nobody knows what was spent.
    """
    self._file = folder / FILE
    self._written: tuple[Place, Ledger] | None = None
    if self._file.exists():
      content = files.read_json(self._file)
      try:
        place = Place(int(content['phase']), int(content['round']))
        ledger = Ledger.from_json(json.dumps(content['ledger']))
      except (KeyError, TypeError, ValueError) as error:
        raise files.unreadable(self._file, f'not a journal: {error!r}') from error
      self._written = place, ledger

  @property
  def ledger(self) -> Ledger | None:
    """The ledger on disk, if a round was begun."""
    return None if self._written is None else self._written[1]

  def write(self, place: Place, ledger: Ledger) -> None:
    """Has the disk keep a ledger that includes a round, unless it has a later one."""
    if self._written is not None and place <= self._written[0]:
      return
    text = ledger.to_json()
    content = {
      'phase': place.phase,
      'round': place.round_number,
      'ledger': json.loads(text),
    }
    files.write_atomically(self._file, json.dumps(content) + '\n')
    self._written = place, Ledger.from_json(text)

  def latest(self, place: Place, ledger: Ledger) -> Ledger:
    """Returns the ledger that includes most: that of a round, or the one on disk."""
    if self._written is not None and place < self._written[0]:
      return self._written[1]
    return ledger
