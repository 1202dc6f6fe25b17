"""What a run left, read back: figures, curves, the card, and what is missing."""

import json
import math
import sys
import types

import pytest

import tff_textpriv
from tff_textpriv import results

_METRICS = """round,train_loss,validation_auc,validation_accuracy
1,0.7,,
2,nan,0.8,0.75
3,0.5,,
4,0.4,0.9,0.85
"""


@pytest.fixture
def folder(tmp_path):
  """The files of a run of four rounds, two of them evaluated."""
  contents = {
    'config.json': {'task': 'imdb', 'algo': 'rr_ldp', 'seed': 3},
    'results.json': {'rounds': 4, 'epsilon': None, 'test_auc': 0.91234567},
    'privacy_card.json': {
      'task': 'imdb', 'algo': 'rr_ldp', 'headline': 'No formal guarantee',
    },
  }  # fmt: skip
  for name, content in contents.items():
    (tmp_path / name).write_text(json.dumps(content))
  (tmp_path / 'privacy_card.md').write_text('# Privacy card\n')
  (tmp_path / 'metrics.csv').write_text(_METRICS)
  return tmp_path


def test_figures_settings_and_rounds_are_those_of_the_files(folder):
  result = tff_textpriv.load(str(folder))
  assert result.folder == folder
  assert result.config['seed'] == 3
  assert result.metrics['test_auc'] == 0.91234567
  assert result.rounds[0] == {'round': 1, 'train_loss': 0.7}
  assert result.rounds[3]['validation_auc'] == 0.9
  assert result.model is None


def test_a_curve_has_the_rounds_that_were_measured(folder):
  result = tff_textpriv.load(folder)
  assert result.curve('auc') == ([2, 4], [0.8, 0.9])
  assert result.curve('validation_accuracy') == ([2, 4], [0.75, 0.85])
  rounds, losses = result.curve('train_loss')
  assert rounds == [1, 2, 3, 4] and math.isnan(losses[1])


def test_an_unknown_curve_is_refused_with_those_that_there_are(folder):
  with pytest.raises(results.ResultsError) as caught:
    tff_textpriv.load(folder).curve('validation_acuracy')
  assert 'train_loss' in str(caught.value)
  assert str(caught.value).endswith('did you mean validation_accuracy?')


def test_a_run_and_its_card_are_shown_in_short_and_the_card_in_notebooks_in_full(
  folder,
):
  result = tff_textpriv.load(folder)
  shown = repr(result)
  assert 'rr_ldp on imdb, 4 rounds' in shown and 'auc: 0.912346' in shown
  assert 'privacy: No formal guarantee' in shown and 'train_loss' not in shown
  assert repr(result.privacy_card) == 'PrivacyCard(rr_ldp on imdb: No formal guarantee)'
  assert result.privacy_card._repr_markdown_() == '# Privacy card\n'


def test_a_folder_without_a_run_and_a_run_that_has_not_finished_are_refused(folder):
  (folder / 'results.json').unlink()
  with pytest.raises(results.ResultsError, match='has not finished'):
    tff_textpriv.load(folder)
  (folder / 'config.json').unlink()
  with pytest.raises(results.ResultsError, match='not the folder of a run'):
    tff_textpriv.load(folder)


def test_rounds_are_a_frame_where_pandas_is_and_say_so_where_it_is_not(
  folder, monkeypatch
):
  class Frame:
    def __init__(self, rows):
      self.rows = rows

    def set_index(self, name):
      return name, self.rows

  result = tff_textpriv.load(folder)
  monkeypatch.setitem(sys.modules, 'pandas', types.SimpleNamespace(DataFrame=Frame))
  assert result.to_frame() == ('round', result.rounds)
  monkeypatch.setitem(sys.modules, 'pandas', None)
  with pytest.raises(results.ResultsError, match='pip install pandas'):
    result.to_frame()


def test_sentences_on_whether_it_is_any_good_are_those_of_the_run(folder):
  assert tff_textpriv.load(folder).sanity == []
  figures = {'rounds': 4, 'epsilon': None, 'sanity': ['NOT BETTER than a guess']}
  (folder / 'results.json').write_text(json.dumps(figures))
  result = tff_textpriv.load(folder)
  assert result.sanity == ['NOT BETTER than a guess']
  assert 'NOT BETTER than a guess' in repr(result)
