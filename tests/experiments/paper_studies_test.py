"""The studies of the papers: valid runs, and the papers' figures beside ours."""

import csv
import math

import pytest

from tff_textpriv import flags
from tff_textpriv.experiments import study_files, study_plan
from tff_textpriv.settings import SettingsError
from tff_textpriv.tasks import base, command_flags
from tff_textpriv.tools import study

_STUDIES = {name: study_files.load(name) for name in study_files.names()}


def _rows(folder, name):
  with open(folder / f'{name}.csv', newline='') as stream:
    return {row['arm']: row for row in csv.DictReader(stream)}


def _arms(name, task, *given, folder):
  """Returns the runs of a study with flags, by label."""
  found = base.find(task)
  plan = study_plan.make_plan(
    _STUDIES[name], found, flags.parse(given, command_flags.groups(found)), (), folder
  )
  return {run.arm.label: run for run in plan.runs}


def test_all_tables_and_figures_are_there():
  papers = {'subword': 7, 'rr': 7, 'attention': 8, 'vocab': 9}
  for paper, at_least in papers.items():
    assert sum(name.startswith(f'{paper}_') for name in _STUDIES) >= at_least
  assert all(each.question.endswith('?') for each in _STUDIES.values())


# A plot whose legend leaves no room for curves.
@pytest.mark.filterwarnings('error:constrained_layout')
@pytest.mark.parametrize(
  ('name', 'task'),
  [(name, task) for name, each in _STUDIES.items() for task in each.tasks],
)
def test_every_study_runs_its_arms_and_writes_tables_and_plot(
  runs, tmp_path, name, task, capsys
):
  given = [f'--study={name}', f'--task={task}', f'--study_dir={tmp_path}']
  assert study.main([*given, '--seed=3']) == 0
  folder = tmp_path / f'{name}_{task}'
  assert len({experiment.folder for experiment in runs}) == len(runs) > 1
  assert {experiment.run.seed for experiment in runs} == {3}
  rows = _rows(folder, name)
  assert len(rows) == len(runs)
  page = (folder / f'{name}.md').read_text()
  assert all(f'| {arm} ' in page for arm in rows)
  assert f'--study={name}' in page and _STUDIES[name].question in page
  assert (folder / f'{name}.png').read_bytes().startswith(b'\x89PNG')
  assert f'>{_STUDIES[name].title}</text>' in (folder / f'{name}.svg').read_text()
  assert f'| {_STUDIES[name].rows} ' in capsys.readouterr().out


def test_sizes_are_multiples_of_the_vocabulary_that_is_given(tmp_path):
  for size in (600, 2000):
    arms = _arms('subword_table3', 'reddit', f'--vocab_size={size}', folder=tmp_path)
    assert list(arms) == [
      f'{source} {round(size * factor)}'
      for factor in (0.5, 1, 5, 10)
      for source in ('public', 'oracle')
    ]
    sizes = [run.experiment.task_settings.vocab_size for run in arms.values()]
    assert sizes == [run.arm.x for run in arms.values()]
    last = arms[f'oracle {size * 10}'].arm
    assert (last.curve, last.paper) == ('oracle', {'test_word_perplexity': 217.9})
    assert last.flags['privacy_claim'] is False


def test_table_2_has_rows_of_their_own_for_each_other_text(tmp_path):
  (tmp_path / 'news.txt').write_text('A line of news.\n')
  task = base.find('stackoverflow')

  def runs(cross_data):
    study_2 = _STUDIES['subword_table2']
    plan = study_plan.make_plan(study_2, task, {}, (), tmp_path, cross_data)
    return {run.arm.label: run.experiment for run in plan.runs}

  of_news, of_reddit = runs(str(tmp_path / 'news.txt')), runs(None)
  assert list(of_news) == ['public', 'news', 'oracle', 'sample', 'sample, from news']
  for arm in ('news', 'sample, from news'):
    assert of_news[arm].task_settings.public_data == str(tmp_path / 'news.txt')
  assert set(of_news) - set(of_reddit) == {'news', 'sample, from news'}
  assert all(of_news[arm] == of_reddit[arm] for arm in set(of_news) & set(of_reddit))


def test_the_rows_of_table_1_are_the_paper_s_and_one_of_distillation(tmp_path):
  arms = _arms('subword_table1', 'stackoverflow', folder=tmp_path)
  assert list(arms) == [
    'word public', 'word oracle', 'BPE public', 'BPE oracle', 'BPE sample',
    'BPE heavy hitters', 'BPE sample, distilled',
  ]  # fmt: skip
  assert not arms['BPE sample, distilled'].arm.paper
  words = arms['word oracle'].experiment
  assert words.task_settings.tokenizer == 'word'
  assert not words.privacy_settings.privacy_claim
  hitters = arms['BPE heavy hitters']
  assert hitters.experiment.task_settings.tokenizer_source == 'heavy_hitters'
  assert hitters.experiment.privacy_settings.target_epsilon == 2
  assert hitters.arm.paper == {
    'tokenizer_kl': 0.1,
    'test_oov_share': 0,
    'test_tokens_per_word': 1.29,
    'test_word_accuracy': 0.321,
    'test_word_perplexity': 115.9,
  }
  halves = {run.experiment.config.get('train_users') for run in arms.values()}
  assert halves == {'second_half', 'all'}
  assert arms['BPE sample'].arm.flags == {
    'algo': 'subword_resample',
    'phase_plan': 'half_split',
  }


def test_the_model_of_table_4_has_the_size_of_the_one_that_is_given(tmp_path):
  arms = _arms('subword_table4', 'stackoverflow', '--model=gru_small', folder=tmp_path)
  models = [run.experiment.config['model'] for run in arms.values()]
  assert models == (['transformer_small'] * 3 + ['lstm_small'] * 3) * 2
  tied = [run.experiment.config['tied_embeddings'] for run in arms.values()]
  assert tied == [True] * 6 + [False] * 6


def test_an_early_switch_branches_from_the_latest_one_a_round_before(tmp_path):
  arms = _arms('subword_figure3', 'stackoverflow', '--total_rounds=50', folder=tmp_path)
  branches = {
    label: (run.arm.branch_from, run.arm.at_round, run.arm.flags['resample_rounds'])
    for label, run in arms.items()
    if 'switch' in label
  }
  assert branches == {
    'switch at 10': ('switch at 40', 9, [10]),
    'switch at 20': ('switch at 40', 19, [20]),
    'switch at 30': ('switch at 40', 29, [30]),
    'switch at 40': ('', 0, [40]),
  }


def test_the_paper_s_figures_stand_beside_ours(runs, tmp_path):
  study.main(
    ['--study=subword_table1', '--task=stackoverflow', f'--study_dir={tmp_path}']
  )
  page = (tmp_path / 'subword_table1_stackoverflow' / 'subword_table1.md').read_text()
  sample = next(line for line in page.splitlines() if '| BPE sample' in line)
  assert '105.0 (108.7)' in sample and '1.25 (1.23)' in sample
  # A closed vocabulary's perplexity is no figure to compare.
  word = next(line for line in page.splitlines() if '| word oracle' in line)
  assert [cell.strip() for cell in word.split('|')][7] == '-'
  assert 'no guarantee' in word


def test_tables_1_and_2_show_rounds_in_columns(runs, tmp_path):
  study.main(['--study=rr_rounds', f'--study_dir={tmp_path}'])
  page = (tmp_path / 'rr_rounds_imdb' / 'rr_rounds.md').read_text()
  row = next(line for line in page.splitlines() if line.startswith('| N=100 '))
  cells = [cell.strip() for cell in row.split('|')[2:-1]]
  # Rounds 1, 5 and 10, of which the last was not measured here.
  assert cells[:3] == ['0.613 (0.724)', '0.750 (0.810)', '- (0.847)']
  assert cells[-1] == '0.8765 (0.9180)'
  private = [run for run in runs if run.algorithm.name == 'rr_ldp']
  assert [run.run.total_rounds for run in private] == [50] * 4
  # Federated runs of the paper train the network.
  assert {run.model_name for run in private} == {'network'}


def test_ranges_and_learning_rates_are_those_of_the_task(tmp_path):
  arms = _arms('rr_quantization', 'movielens', folder=tmp_path)
  assert arms['q=0.01 N=250'].arm.paper == {'test_auc': 0.712}
  private = [run.experiment for run in arms.values() if run.arm.label != 'central']
  assert {run.privacy_settings.quantization_range for run in private} == {
    1.0, 0.1, 0.01, 0.001
  }  # fmt: skip
  assert {run.algorithm_settings.client_learning_rate for run in private} == {0.01}
  assert {run.privacy_settings.epsilon_per_coordinate for run in private} == {10}
  assert {run.task_settings.num_clients for run in private} == {10, 50, 100, 250}
  assert arms['central'].experiment.algorithm_settings.client_learning_rate == 0.001


def test_a_learning_rate_of_the_command_line_replaces_the_paper_s(tmp_path):
  arms = _arms('rr_lstm', 'imdb', '--client_learning_rate=0.5', folder=tmp_path)
  rates = {
    label: run.experiment.algorithm_settings.client_learning_rate
    for label, run in arms.items()
  }
  assert rates == {'central': 0.001, 'rr_ldp': 0.5}


def test_pre_trained_vectors_are_an_arm_where_a_file_is_given(tmp_path):
  without = _arms('rr_keywords', 'movielens', folder=tmp_path)
  given = _arms('rr_keywords', 'movielens', '--vectors_file=x', folder=tmp_path)
  assert given.keys() - without.keys() == {
    'vectors, all averaged',
    'vectors, of the 100 most common averaged',
  }
  arms = _arms('rr_representations', 'imdb', folder=tmp_path)
  assert len(arms) == 18
  rates = {
    label: (settings.client_optimizer, settings.client_learning_rate)
    for label, run in arms.items()
    if (settings := run.experiment.algorithm_settings)
  }
  # The steps of vectors are others, for either model.
  assert rates['M=5,000, logistic'] == ('sgd', 0.1)
  assert rates['word2vec (train), logistic'] == ('sgd', 3)
  assert rates['M=5,000, network'] == ('adam', 0.001)
  assert rates['word2vec (train), network'] == ('adam', 0.003)


@pytest.mark.parametrize('name', [name for name in _STUDIES if 'attention' in name])
def test_attention_and_means_step_in_the_same_units(name, tmp_path):
  for given, step in (((), 1.0), (('--server_learning_rate=1.2',), 1.2)):
    flags = ('--client_learning_rate=0.3', *given)
    for label, run in _arms(name, 'wikitext2', *flags, folder=tmp_path).items():
      settings = run.experiment.algorithm_settings
      assert run.experiment.task_settings.model_selection == 'best_validation'
      assert settings.server_optimizer == 'sgd'
      assert settings.client_learning_rate == 0.3
      # A step of `paper` is the sum of ten clients' updates; the controls have their own.
      own = {'FedAvg, step 1.5': 1.5, 'FedAvg, step 2': 2.0}
      expected = 0.1 if label.startswith('as printed') else own.get(label, step)
      assert settings.server_learning_rate == expected, label


def test_attention_table_2_draws_its_fractions(tmp_path):
  arms = _arms('attention_table2', 'ptb', '--num_clients=60', folder=tmp_path)
  cohorts = [run.experiment.run.clients_per_round for run in arms.values()]
  assert cohorts == [60, *[6] * 4, *[30] * 4, 10]
  paper = {
    label: run.arm.paper.get('test_token_perplexity') for label, run in arms.items()
  }
  assert paper['FedSGD all'] == 155.27 and paper['FedAttOpt 0.1'] == 116.49
  assert paper['FedAvg 0.5'] == 128.24 and paper['layerwise 0.1'] is None
  few = _arms('attention_table2', 'ptb', '--num_clients=3', folder=tmp_path)
  assert few['FedAvg 0.1'].experiment.run.clients_per_round == 1


def test_attention_table_3_compares_under_the_same_noise(tmp_path):
  chosen = [
    (
      run.experiment.algorithm_settings.attention,
      run.experiment.privacy_settings.noise_magnitude,
    )
    for run in _arms('attention_table3', 'wikitext2', folder=tmp_path).values()
  ]
  magnitudes = (0.0, 0.001, 0.005, 0.01, 0.05)
  assert chosen == [(a, m) for m in magnitudes for a in ('uniform', 'exact')]


def test_attention_table_4_has_models_tied_or_not(tmp_path):
  arms = _arms('attention_table4', 'wikitext2', folder=tmp_path)
  untied = arms['FedAttOpt medium untied']
  assert untied.experiment.task_settings.model == 'gru_medium'
  assert untied.experiment.task_settings.tied_embeddings is False
  assert untied.arm.paper == {'test_token_perplexity': 73.80}


def test_rounds_are_counted_to_a_target_that_can_be_set(runs, tmp_path):
  given = ['--study=attention_figure4', f'--study_dir={tmp_path}']
  assert study.main([*given, '--target_perplexity=150']) == 0
  assert {e.task_settings.target_perplexity for e in runs} == {150.0}
  assert {e.run.rounds_per_eval for e in runs} == {1}
  rows = _rows(tmp_path / 'attention_figure4_wikitext2', 'attention_figure4')
  assert float(rows['FedAvg 1']['rounds_to_target']) == 4
  assert rows['FedAvg 10']['rounds_to_target'] == ''


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


def test_the_step_size_of_encoders_falls_over_the_rounds_of_the_study(tmp_path):
  arms = _arms('vocab_table3', 'agnews', '--total_rounds=30', folder=tmp_path)
  decays = {
    label: getattr(run.experiment.algorithm_settings, 'client_decay_rounds', None)
    for label, run in arms.items()
  }
  assert decays.pop('FedRecon') is None
  assert set(decays.values()) == {30}
  assert arms['Local'].experiment.run.total_rounds == 10


def test_the_ablation_differs_in_one_flag(tmp_path):
  one, other = _arms('vocab_table5', 'sst2', folder=tmp_path).values()
  before, after = one.experiment.config, other.experiment.config
  assert {key for key in before if before[key] != after[key]} == {'adaptive_updating'}


def test_paired_arms_draw_the_same_users_in_the_same_rounds(tmp_path):
  from tff_textpriv.training import phases

  def cohorts(label, seed):
    arms = _arms('subword_table1', 'stackoverflow', f'--seed={seed}', folder=tmp_path)
    (phase,) = phases.lay_out(arms[label].experiment, users)
    return [phase.sampler.cohort(number) for number in (1, 2, 3)]

  users = [f'user{number}' for number in range(300)]
  assert cohorts('BPE public', 5) == cohorts('BPE oracle', 5)
  assert cohorts('BPE public', 5) == cohorts('BPE heavy hitters', 5)
  assert cohorts('BPE public', 5) != cohorts('BPE public', 6)


def test_a_study_is_refused_on_a_task_that_it_is_not_of(runs, tmp_path):
  for name, tasks in (
    ('rr_keywords', 'movielens'),
    ('attention_table2', 'wikitext2, ptb, reddit'),
  ):
    with pytest.raises(SettingsError, match=f'{name} is a study of {tasks}'):
      study.main([f'--study={name}', '--task=imdb', f'--study_dir={tmp_path}'])
  assert not runs


def test_figures_of_papers_are_shares_and_not_percentages():
  for each in _STUDIES.values():
    for entry in each.entries:
      for figures in entry.paper.values():
        for column, values in figures.items():
          if any(word in column for word in ('accuracy', 'auc', 'share')):
            assert all(math.isnan(v) or 0 <= v <= 1 for v in _flat(values)), each.name


def _flat(values):
  if not isinstance(values, list):
    return [values]
  return [number for inner in values for number in _flat(inner)]


def test_unknown_words_are_compared_where_there_are_public_vectors(tmp_path):
  arms = _arms('vocab_unknown_words', 'agnews', '--vectors_file=x', folder=tmp_path)
  policies = [run.experiment.task_settings.out_of_vocabulary for run in arms.values()]
  assert policies == ['random', 'random', 'fallback', 'fallback']
  assert len(_arms('vocab_unknown_words', 'agnews', folder=tmp_path)) == 2


def test_each_remedy_differs_in_one_flag_from_none(tmp_path):
  plain, *others = _arms('vocab_remedies', 'agnews', folder=tmp_path).values()
  before = plain.experiment.config
  changed = [
    {key for key in before if before[key] != other.experiment.config[key]}
    for other in others
  ]
  assert changed == [
    {'anchor_strength'},
    {'table_learning_rate'},
    {'word_dropout'},
    {'last_training'},
  ]
