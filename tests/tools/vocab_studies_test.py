"""The studies of private vocabularies: valid runs, and the paper's figures beside ours."""

import csv

import pytest

from tff_textpriv.tools import study, vocab_studies
from tff_textpriv.training import classification


@pytest.fixture
def runs(stand_in):
  """Stands in for training: writes what a run writes, and remembers the experiments."""
  results = {
    'epsilon': None,
    'test_global_accuracy': 0.8125,
    'test_local_accuracy': 0.875,
    'test_received_local_accuracy': 0.75,
    'bytes_down_per_client': 1000,
    'bytes_up_per_client': 1000,
  }
  return stand_in(classification, lambda *_: results)


@pytest.mark.parametrize(
  ('name', 'task'),
  [(each.name, task) for each in vocab_studies.VOCAB_STUDIES for task in each.tasks],
)
def test_every_study_runs_its_arms_and_writes_table_csv_and_plot(
  runs, tmp_path, name, task
):
  given = [f'--study={name}', f'--task={task}', f'--study_dir={tmp_path}']
  assert study.main([*given, '--num_clients=7']) == 0
  folder = tmp_path / f'{name}_{task}'
  assert len({experiment.folder for experiment in runs}) == len(runs) > 1
  assert all(experiment.task_settings.num_clients == 7 for experiment in runs)
  with open(folder / f'{name}.csv', newline='') as stream:
    assert len(list(csv.DictReader(stream))) == len(runs)
  assert (folder / f'{name}.png').read_bytes().startswith(b'\x89PNG')


def test_all_methods_train_the_same_model_with_the_same_client_optimizer(
  runs, tmp_path
):
  study.main(['--study=vocab_table4', f'--study_dir={tmp_path}'])
  assert [run.algorithm.name for run in runs] == [
    'local_only', 'fed_avg', 'fed_prox', 'lg_fedavg', 'fed_recon', 'fede_vocab',
  ]  # fmt: skip
  for run in runs:
    settings = run.algorithm_settings
    assert run.task_settings.model == 'bilstm_small'
    assert (settings.client_optimizer, settings.client_learning_rate) == ('adam', 0.005)
    assert (settings.server_optimizer, settings.server_learning_rate) == ('sgd', 1.0)
  page = (tmp_path / 'vocab_table4_agnews' / 'vocab_table4.md').read_text()
  assert '| FedeVocab | 81.2% (86.9%)   | 87.5% (92.8%)  | 75.0% ' in page


def test_the_step_size_of_encoders_falls_over_the_rounds_of_the_study(runs, tmp_path):
  study.main(['--study=vocab_table3', f'--study_dir={tmp_path}', '--total_rounds=30'])
  decays = {
    run.algorithm.name: getattr(run.algorithm_settings, 'client_decay_rounds', None)
    for run in runs
  }
  assert decays.pop('fed_recon') is None
  assert set(decays.values()) == {30}


def test_the_ablation_differs_in_one_flag(runs, tmp_path):
  study.main(['--study=vocab_table5', '--task=sst2', f'--study_dir={tmp_path}'])
  configs = [run.config for run in runs]
  assert {key for key in configs[0] if configs[0][key] != configs[1][key]} == {
    'adaptive_updating'
  }
