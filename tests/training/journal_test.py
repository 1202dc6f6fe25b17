"""The journal: what was spent is on disk first, and never becomes less."""

import pytest
from sample_plan import PLAN

from tff_textpriv import files
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.training.journal import FILE, Journal, Place


def _ledger(rounds):
  ledger = Ledger.of(PLAN)
  for _ in range(rounds):
    ledger.charge(PLAN)
  return ledger


def _rounds(ledger):
  return sum(entry.count for entry in ledger.entries)


def test_what_was_written_is_there_for_the_next_process(tmp_path):
  Journal(tmp_path).write(Place(0, 3), _ledger(3))
  found = Journal(tmp_path).latest(Place(0, 2), _ledger(2))
  assert found == _ledger(3)


def test_a_run_that_goes_on_from_an_older_checkpoint_has_still_spent_what_it_had(
  tmp_path,
):
  Journal(tmp_path).write(Place(0, 9), _ledger(9))
  # The newest checkpoint was damaged, and rounds 5 and 6 are made again.
  again = Journal(tmp_path)
  for number in (5, 6):
    again.write(Place(0, number), _ledger(number))
  assert _rounds(again.latest(Place(0, 6), _ledger(6))) == 9
  assert _rounds(Journal(tmp_path).latest(Place(0, 0), _ledger(0))) == 9


def test_a_later_phase_comes_after_all_rounds_of_an_earlier_one(tmp_path):
  journal = Journal(tmp_path)
  journal.write(Place(0, 100), _ledger(4))
  journal.write(Place(1, 1), _ledger(5))
  assert _rounds(Journal(tmp_path).latest(Place(0, 100), _ledger(4))) == 5


def test_what_is_written_does_not_change_with_the_ledger(tmp_path):
  journal, ledger = Journal(tmp_path), _ledger(1)
  journal.write(Place(0, 1), ledger)
  ledger.charge(PLAN)
  assert _rounds(journal.latest(Place(0, 0), _ledger(0))) == 1


@pytest.mark.parametrize('content', ['', '{}', '[1]', '{"phase": 0, "round": 1}'])
def test_a_damaged_journal_ends_the_run(tmp_path, content):
  (tmp_path / FILE).write_text(content)
  with pytest.raises(files.FileError, match=FILE):
    Journal(tmp_path)
