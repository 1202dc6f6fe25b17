"""What a run leaves behind at its end."""

import json
import types

import pytest

from tff_textpriv.models import usage
from tff_textpriv.training import reporting

_USAGE = usage.LanguageModelUsage('lstm_tiny', True, 'tokenizers/0.model', 32)
_OUTCOME = types.SimpleNamespace(rounds_done=3, selected_round=2, ended='finished')


class _Model:
  """A model whose saving takes note of what is there, and may fail."""

  def __init__(self, fails=False):
    self._fails = fails
    self.files_before = None

  def save(self, path):
    self.files_before = [file.name for file in path.parent.iterdir()]
    path.write_text('first half')
    if self._fails:
      raise OSError('disk full')
    path.write_text('whole')


def _write(folder, model):
  reporting.write_results(
    _OUTCOME, {'epsilon': None}, {'auc': 0.5}, model, _USAGE, folder, tokenizer_kl=1.0
  )


def test_results_are_written_last_so_that_a_run_that_has_them_is_done(tmp_path):
  broken = _Model(fails=True)
  with pytest.raises(OSError, match='disk full'):
    _write(tmp_path, broken)
  assert not (tmp_path / 'results.json').exists()
  whole = _Model()
  _write(tmp_path, whole)
  assert whole.files_before == []
  assert json.loads((tmp_path / 'results.json').read_text()) == {
    'rounds': 3,
    'selected_round': 2,
    'ended': 'finished',
    'epsilon': None,
    'tokenizer_kl': 1.0,
    'test_auc': 0.5,
  }


def test_a_model_that_is_saved_again_is_replaced_whole_or_not_at_all(tmp_path):
  _write(tmp_path, _Model())
  with pytest.raises(OSError, match='disk full'):
    _write(tmp_path, _Model(fails=True))
  assert (tmp_path / 'model.keras').read_text() == 'whole'
  assert sorted(file.name for file in tmp_path.iterdir()) == [
    'model.json',
    'model.keras',
    'results.json',
  ]
