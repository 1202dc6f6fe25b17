"""The study command: what it runs, refuses, resumes and writes."""

import csv
import json

import pytest

from tff_textpriv import flags
from tff_textpriv.settings import SettingsError
from tff_textpriv.tools import study


def _table(file):
  with open(file, newline='') as stream:
    return list(csv.DictReader(stream))


@pytest.fixture
def demo(tmp_path):
  """Returns what runs the demo with flags, in a folder of the test."""

  def run(*given):
    return study.main(['--study=demo', f'--study_dir={tmp_path}', *given])

  return run


def test_runs_that_are_done_are_not_repeated(runs, demo):
  demo('--total_rounds=10')
  assert [run.folder.name for run in runs] == ['bpe_public', 'bpe_sample', 'bpe_oracle']
  demo('--total_rounds=10')
  assert len(runs) == 3


def test_every_arm_is_run_with_every_seed_and_more_seeds_are_added(
  runs, demo, tmp_path
):
  demo('--seeds=0,1,0')
  demo('--seeds=0,1,7')
  assert [(run.folder.name, run.run.seed) for run in runs] == [
    *(
      (f'bpe_{arm}_seed={s}', s)
      for arm in ('public', 'sample', 'oracle')
      for s in (0, 1)
    ),
    *((f'bpe_{arm}_seed=7', 7) for arm in ('public', 'sample', 'oracle')),
  ]
  rows = _table(tmp_path / 'demo_stackoverflow' / 'demo.csv')
  assert [(row['arm'], row['seed']) for row in rows] == [
    (arm, seed) for arm in ('BPE public', 'BPE sample', 'BPE oracle') for seed in '017'
  ]


def test_only_the_arms_that_are_asked_for_are_made(runs, demo, tmp_path):
  assert demo('--arms=*_oracle') == 0
  # The public one is what the others are compared with.
  assert [run.folder.name for run in runs] == ['bpe_public', 'bpe_oracle']
  rows = _table(tmp_path / 'demo_stackoverflow' / 'demo.csv')
  assert [row['arm'] for row in rows] == ['BPE public', 'BPE oracle']
  demo()
  assert [run.folder.name for run in runs[2:]] == ['bpe_sample']


def test_an_arm_that_does_not_exist_is_refused_and_those_that_do_are_named(runs, demo):
  with pytest.raises(SettingsError, match='bpe_publik.*there are bpe_public, bpe_samp'):
    demo('--arms=bpe_publik')
  assert not runs


def test_a_branch_brings_the_run_that_it_branches_from(runs, tmp_path):
  study.main(['--study=subword_figure3', f'--study_dir={tmp_path}', '--arms=*_at_20'])
  assert {run.folder.name for run in runs} == {
    'public',
    'switch_at_20',
    'switch_at_80',
  }


def test_a_study_that_was_stopped_goes_on_with_the_run_that_was(
  runs, demo, monkeypatch
):
  from tff_textpriv.tasks import base

  real, calls = base.run, []

  def stopped(experiment):
    calls.append(experiment.folder.name)
    return 130 if len(calls) == 2 else real(experiment)

  monkeypatch.setattr(base, 'run', stopped)
  assert demo() == 130
  assert demo() == 0
  assert calls == ['bpe_public', 'bpe_sample', 'bpe_sample', 'bpe_oracle']


def test_means_and_paired_differences_are_printed_and_written(
  stand_in, demo, tmp_path, capsys
):
  # Accuracies of three seeds; the arms differ by 0.01, 0.02 and 0.06.
  accuracies = {'public': (0.20, 0.30, 0.10), 'sample': (0.21, 0.32, 0.16)}

  def results(experiment, number):
    del number  # Figures are those of the arm and the seed.
    arm = experiment.folder.name.split('_')[1]
    seed = experiment.run.seed
    value = accuracies.get(arm, (0.5, 0.5, 0.5))[seed]
    perplexity = (50 if arm == 'oracle' else 100) * 2.0**seed
    return {'test_word_accuracy': value, 'test_word_perplexity': perplexity}

  stand_in(results)
  demo('--seeds=0,1,2')
  printed = capsys.readouterr().out
  assert 'Mean paired difference to BPE public, 3 seeds, with two-sided 95%' in printed
  assert 'of perplexities the difference of natural logarithms' in printed
  # Half the perplexity, with every seed: ln 0.5.
  assert 'ln perplexity' in printed and '-0.6931 [-0.6931, -0.6931]' in printed
  # d = 0.03, s = sqrt(((-0.02)^2 + (-0.01)^2 + 0.03^2) / 2) = 0.0264575; with 2 degrees
  # of freedom t is 4.302653, so that the margin is 4.302653 * s / sqrt(3) = 0.0657239.
  assert '+3.00% [-3.57%, +9.57%]' in printed
  summary = _table(tmp_path / 'demo_stackoverflow' / 'demo_summary.csv')
  row = next(
    row
    for row in summary
    if (row['arm'], row['figure']) == ('BPE sample', 'test_word_accuracy')
  )
  assert float(row['mean']) == pytest.approx(0.23)
  assert float(row['difference']) == pytest.approx(0.03)
  assert float(row['low']) == pytest.approx(0.03 - 0.0657239, abs=1e-6)
  assert float(row['high']) == pytest.approx(0.03 + 0.0657239, abs=1e-6)
  assert (row['seeds'], row['pairs'], row['scale']) == ('3', '3', 'plain')
  perplexity = next(row for row in summary if row['figure'] == 'test_word_perplexity')
  assert float(perplexity['mean']) == pytest.approx((100 + 200 + 400) / 3)
  assert perplexity['scale'] == 'log'


def test_one_seed_has_no_interval(runs, demo, tmp_path, capsys):
  demo('--seeds=4')
  printed = capsys.readouterr().out
  assert 'difference to BPE public, 1 seed; of' in printed and '[' not in printed
  summary = _table(tmp_path / 'demo_stackoverflow' / 'demo_summary.csv')
  assert {row['low'] for row in summary} == {row['high'] for row in summary} == {''}
  assert {row['sd'] for row in summary} == {''}
  assert any(row['difference'] for row in summary)


def test_without_seeds_nothing_is_compared(runs, demo, capsys):
  demo()
  assert 'difference' not in capsys.readouterr().out


def test_flags_reach_the_runs_that_have_them_and_others_are_named(runs, demo, capsys):
  demo('--sample_tokens=77', '--total_rounds=7')
  sampled = [run for run in runs if run.algorithm.name == 'subword_resample']
  assert [run.algorithm_settings.sample_tokens for run in sampled] == [77]
  assert [run.run.total_rounds for run in runs] == [7, 7, 7]
  notes = [line for line in capsys.readouterr().out.splitlines() if 'not reach' in line]
  assert notes == ['--sample_tokens does not reach: BPE public, BPE oracle']


def test_a_flag_that_an_arm_sets_itself_does_not_reach_it(runs, tmp_path, capsys):
  study.main(['--study=vocab_table4', f'--study_dir={tmp_path}', '--total_rounds=30'])
  assert '--total_rounds does not reach: Local\n' in capsys.readouterr().out
  assert [run.run.total_rounds for run in runs] == [10, *[30] * 5]


def test_the_table_is_printed_as_json_on_request(runs, demo, capsys):
  demo('--format=json')
  printed = capsys.readouterr().out
  table = json.loads(printed[printed.index('{') :])
  assert table['BPE oracle']['epsilon'] is None
  assert table['BPE public']['test_word_perplexity'] == 101.0
  demo('--format=json', '--seeds=0,2')
  printed = capsys.readouterr().out
  table = json.loads(printed[printed.index('{') :])
  assert table['BPE sample'].keys() == {'0', '2'}


def test_a_flagfile_gives_flags_of_the_study_and_of_the_runs(runs, tmp_path):
  file = tmp_path / 'some.flags'
  file.write_text(
    f'# comment\n--study=demo\n--study_dir={tmp_path}\n--total_rounds=7\n'
  )
  study.main([f'--flagfile={file}'])
  assert [run.run.total_rounds for run in runs] == [7, 7, 7]


@pytest.mark.parametrize(
  ('given', 'error', 'message'),
  [
    (['--no_such_flag=1'], flags.UsageError, 'no_such_flag'),
    (['--study=tables'], SettingsError, '--study=tables: must be'),
    (['--study=demos'], SettingsError, 'did you mean demo'),
    (['--study=subword_table2', '--data=posts.sqlite'], SettingsError, '--cross_data'),
    (['--root_output_dir=x'], SettingsError, 'root_output_dir: .* use --study_dir'),
    (['--experiment_name=x'], SettingsError, 'experiment_name: .* use --study_dir'),
    (['--stop_after_round=1'], SettingsError, 'makes whole runs'),
    (['--algo=fed_avg'], SettingsError, 'algo: is that of each arm'),
    (['--seed=1', '--seeds=1,2'], SettingsError, 'either --seed or --seeds'),
    (['--quantization_range=1'], flags.UsageError, 'reaches no arm of demo'),
    (['--study=vocab_figure4', '--total_rounds=3'], flags.UsageError, 'reaches no arm'),
    (['--help'], flags.HelpRequested, None),
  ],
)
def test_wrong_flags_are_refused_before_anything_runs(
  runs, demo, given, error, message
):
  with pytest.raises(error, match=message):
    demo(*given)
  assert not runs


def test_the_help_lists_the_studies():
  assert 'subword_figure3: When to change the tokenizer' in ' '.join(
    study.help_page().split()
  )
