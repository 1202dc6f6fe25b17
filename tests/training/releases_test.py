"""metrics.csv: after a restart it goes on as if it had not been cut off."""

import collections
import csv

import pytest

from tff_textpriv.training import coroutines, releases

_LAST = 12


def _release(folder, done, last):
  """Releases the rounds after `done`; every fifth one has one more column."""
  with coroutines.CoroutineRunner() as runner:
    released = releases.open_after(done, folder)
    for number in range(done + 1, last + 1):
      metrics = collections.OrderedDict(train_loss=1 / number, num_clients=number)
      if number % 5 == 0:
        metrics['validation_auc'] = number / 7
      runner.run(released.release(metrics, number))
  return (folder / 'metrics.csv').read_bytes()


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  return _release(tmp_path_factory.mktemp('whole'), 0, _LAST)


def test_every_round_has_a_row(whole):
  rows = list(csv.DictReader(whole.decode().splitlines()))
  assert [int(row['round']) for row in rows] == list(range(1, _LAST + 1))
  assert [row['round'] for row in rows if row['validation_auc']] == ['5', '10']
  assert [row['num_clients'] for row in rows] == [row['round'] for row in rows]
  assert [float(row['train_loss']) for row in rows] == [
    1 / number for number in range(1, _LAST + 1)
  ]


@pytest.mark.parametrize('done', [0, 3, 10, 11])
def test_a_last_row_that_was_cut_off_anywhere_is_written_anew(tmp_path, whole, done):
  file = tmp_path / 'metrics.csv'
  start = whole.rindex(b'\n', 0, -1) + 1
  for length in range(start, len(whole)):
    file.write_bytes(whole[:length])
    assert _release(tmp_path, done, _LAST) == whole, whole[start:length]


def test_a_run_that_is_done_is_not_touched(tmp_path, whole):
  file = tmp_path / 'metrics.csv'
  file.write_bytes(whole)
  before = file.stat()
  assert _release(tmp_path, _LAST, _LAST) == whole
  assert file.stat() == before


def test_a_file_that_was_half_rewritten_is_removed(tmp_path, whole):
  (tmp_path / 'metrics.csv').write_bytes(whole)
  (tmp_path / 'metrics.csv_temp1234').write_bytes(whole[:50])
  assert _release(tmp_path, 10, _LAST) == whole
  assert not (tmp_path / 'metrics.csv_temp1234').exists()
