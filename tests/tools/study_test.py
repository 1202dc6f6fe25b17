"""Studies: their arms are valid runs, and their output is complete."""

import csv
import json

import pytest

from tff_textpriv import flags
from tff_textpriv.settings import SettingsError
from tff_textpriv.tools import study, subword_studies
from tff_textpriv.training import language_modeling


@pytest.fixture
def runs(stand_in):
  """Stands in for training: writes what a run writes, and remembers the experiments."""

  def results(experiment, number):
    is_oracle = experiment.task_settings.tokenizer_source == 'oracle'
    return {
      'epsilon': None if is_oracle else 2.0,
      'tokenizer_kl': 0.5,
      'test_oov_share': 0.01,
      'test_tokens_per_word': 1.25,
      'test_word_accuracy': 0.2,
      'test_word_perplexity': 100.0 + number,
    }

  metrics = 'round,validation_word_perplexity\n1,\n2,90.5\n4,80.25\n'
  return stand_in(language_modeling, results, metrics)


@pytest.mark.parametrize(
  ('name', 'task'),
  [
    (each.name, task) for each in subword_studies.SUBWORD_STUDIES for task in each.tasks
  ],
)
def test_every_subword_study_runs_its_arms_and_writes_table_csv_and_plot(
  runs, tmp_path, name, task, capsys
):
  flags_ = [f'--study={name}', f'--task={task}', f'--study_dir={tmp_path}']
  assert study.main([*flags_, '--total_rounds=10', '--vocab_size=600']) == 0
  folder = tmp_path / f'{name}_{task}'
  assert len({experiment.folder for experiment in runs}) == len(runs) > 1
  assert all(experiment.run.total_rounds == 10 for experiment in runs)
  with open(folder / f'{name}.csv', newline='') as stream:
    rows = list(csv.DictReader(stream))
  assert len(rows) == len(runs)
  page = (folder / f'{name}.md').read_text()
  assert all(f'| {row["arm"]} ' in page for row in rows)
  assert f'--study={name}' in page and 'no guarantee' in page
  assert (folder / f'{name}.png').read_bytes().startswith(b'\x89PNG')
  assert '| tokenizer' in capsys.readouterr().out


def test_runs_that_are_done_are_not_repeated(runs, tmp_path):
  command = ['--study=demo', f'--study_dir={tmp_path}', '--total_rounds=10']
  study.main(command)
  first = len(runs)
  study.main(command)
  assert len(runs) == first == 3


def test_the_papers_figures_stand_beside_ours(runs, tmp_path):
  study.main(
    ['--study=subword_table1', '--task=stackoverflow', f'--study_dir={tmp_path}']
  )
  page = (tmp_path / 'subword_table1_stackoverflow' / 'subword_table1.md').read_text()
  sample = next(line for line in page.splitlines() if '| BPE sample' in line)
  assert '105.0 (108.7)' in sample and '1.25 (1.23)' in sample
  # A closed vocabulary's perplexity is no figure to compare.
  word = next(line for line in page.splitlines() if '| word oracle' in line)
  assert [cell.strip() for cell in word.split('|')][6] == '-'


def test_flags_reach_only_the_runs_that_have_them(runs, tmp_path):
  study.main(['--study=demo', f'--study_dir={tmp_path}', '--sample_tokens=77'])
  sampled = [run for run in runs if run.algorithm.name == 'subword_resample']
  assert [run.algorithm_settings.sample_tokens for run in sampled] == [77]
  assert len(runs) == 3


def test_the_table_is_printed_as_json_on_request(runs, tmp_path, capsys):
  study.main(['--study=demo', f'--study_dir={tmp_path}', '--format=json'])
  printed = capsys.readouterr().out
  table = json.loads(printed[printed.index('{') :])
  assert table['BPE oracle']['epsilon'] is None
  assert table['BPE public']['test_word_perplexity'] == 101.0


def test_a_flagfile_gives_flags_of_the_study_and_of_the_runs(runs, tmp_path):
  file = tmp_path / 'some.flags'
  file.write_text(
    f'# comment\n--study=demo\n--study_dir={tmp_path}\n--total_rounds=7\n'
  )
  study.main([f'--flagfile={file}'])
  assert [run.run.total_rounds for run in runs] == [7, 7, 7]


def test_wrong_flags_are_refused_before_anything_runs(runs, tmp_path):
  with pytest.raises(flags.UsageError, match='no_such_flag'):
    study.main(['--study=demo', f'--study_dir={tmp_path}', '--no_such_flag=1'])
  with pytest.raises(SettingsError, match='--study=tables'):
    study.main(['--study=tables'])
  with pytest.raises(SettingsError, match='--cross_data'):
    study.main(['--study=subword_table2', '--data=posts.sqlite'])
  with pytest.raises(flags.HelpRequested):
    study.main(['--help'])
  assert 'subword_figure3' in study.help_page()
  assert not runs
