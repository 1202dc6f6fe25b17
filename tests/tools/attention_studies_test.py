"""The studies of attentive aggregation: valid runs, and the paper's figures beside ours."""

import csv

import pytest

from tff_textpriv.settings import SettingsError
from tff_textpriv.tools import attention_studies, study
from tff_textpriv.training import language_modeling

_NAMES = [each.name for each in attention_studies.ATTENTION_STUDIES]


@pytest.fixture
def runs(stand_in):
  """Stands in for training; every third run never reaches its target."""

  def results(experiment, number):
    del experiment  # All alike.
    return {
      'rounds_to_target': None if number % 3 == 0 else 4,
      'selected_round': 2,
      'test_token_perplexity': 100.0 + number,
    }

  metrics = 'round,validation_token_perplexity\n1,\n2,190.5\n4,95.25\n'
  return stand_in(language_modeling, results, metrics)


def _rows(folder, name):
  with open(folder / f'{name}.csv', newline='') as stream:
    return {row['arm']: row for row in csv.DictReader(stream)}


@pytest.mark.parametrize('name', _NAMES)
def test_every_study_is_one_command_that_writes_table_csv_and_plot(
  runs, tmp_path, name
):
  given = [f'--study={name}', f'--study_dir={tmp_path}', '--client_learning_rate=0.3']
  assert study.main([*given, '--num_clients=50']) == 0
  folder = tmp_path / f'{name}_wikitext2'
  assert len({experiment.folder for experiment in runs}) == len(runs) > 3
  assert len(_rows(folder, name)) == len(runs)
  assert (folder / f'{name}.png').read_bytes().startswith(b'\x89PNG')
  page = (folder / f'{name}.md').read_text()
  assert '| method' in page and 'perplexity' in page
  for experiment in runs:
    settings = experiment.algorithm_settings
    assert experiment.task_settings.model_selection == 'best_validation'
    # Both methods step in the same units, and their clients train alike.
    assert settings.server_optimizer == 'sgd' and settings.server_learning_rate == 1
    assert getattr(settings, 'client_learning_rate', 0.3) == 0.3


def test_table_2_draws_its_fractions_and_stands_beside_the_papers_figures(
  runs, tmp_path
):
  given = ['--study=attention_table2', f'--study_dir={tmp_path}', '--task=ptb']
  assert study.main([*given, '--num_clients=60']) == 0
  assert [experiment.run.clients_per_round for experiment in runs] == [
    60,
    *[6] * 4,
    *[30] * 4,
  ]
  rows = _rows(tmp_path / 'attention_table2_ptb', 'attention_table2')
  paper = {arm: row['paper_test_token_perplexity'] for arm, row in rows.items()}
  assert paper['FedSGD all'] == '155.27' and paper['FedAttOpt 0.1'] == '116.49'
  assert paper['FedAvg 0.5'] == '128.24' and paper['layerwise 0.1'] == ''


def test_table_3_compares_means_and_attention_under_the_same_noise(runs, tmp_path):
  assert study.main(['--study=attention_table3', f'--study_dir={tmp_path}']) == 0
  chosen = [
    (e.algorithm_settings.attention, e.privacy_settings.noise_magnitude) for e in runs
  ]
  magnitudes = (0.0, 0.001, 0.005, 0.01, 0.05)
  assert chosen == [(a, m) for m in magnitudes for a in ('uniform', 'exact')]


def test_rounds_are_counted_to_a_target_that_can_be_set(runs, tmp_path):
  given = ['--study=attention_figure4', f'--study_dir={tmp_path}']
  assert study.main([*given, '--target_perplexity=150']) == 0
  assert {e.task_settings.target_perplexity for e in runs} == {150.0}
  assert {e.run.rounds_per_eval for e in runs} == {1}
  rows = _rows(tmp_path / 'attention_figure4_wikitext2', 'attention_figure4')
  assert rows['FedAvg 1']['rounds_to_target'] == '4'
  assert rows['FedAvg 10']['rounds_to_target'] == ''


def test_a_task_that_the_paper_does_not_have_is_refused(tmp_path):
  with pytest.raises(SettingsError, match='wikitext2, ptb, reddit'):
    study.main(['--study=attention_table2', '--task=stackoverflow'])
