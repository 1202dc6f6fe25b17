"""subword_resample from data to lineage: resume, cost, models, wrong input."""

import json
import pathlib

import pytest

from tff_textpriv import settings
from tff_textpriv.tasks import base, reddit, stackoverflow
from tff_textpriv.text import subword, tokenizers
from tff_textpriv.training import program, runner

_TINY = (
  '--algo=subword_resample',
  '--num_users=30',
  '--clients_per_round=4',
  '--vocab_size=700',
  '--max_words_per_user=200',
  '--max_eval_users=4',
  '--total_rounds=4',
  '--client_batch_size=4',
  '--rounds_per_eval=2',
  '--rounds_per_checkpoint=1',
  '--resample_rounds=2',
  '--sample_tokens=8000',
  '--sample_max_length=24',
  # The default is for thousands of rounds, and throws so short a run far off.
  '--server_learning_rate=0.05',
)


def _run(folder: pathlib.Path, *given: str, task=stackoverflow.TASK) -> int:
  argv = [
    *_TINY,
    *given,
    f'--root_output_dir={folder.parent}',
    f'--experiment_name={folder.name}',
    f'--data_dir={folder.parent / "data"}',
  ]
  return runner.run(base.parse(task, argv))


def _results(folder: pathlib.Path) -> dict:
  return json.loads((folder / 'results.json').read_text())


@pytest.fixture(scope='module')
def root(tmp_path_factory) -> pathlib.Path:
  return tmp_path_factory.mktemp('resampling')


@pytest.fixture(scope='module')
def undisturbed(root) -> pathlib.Path:
  assert _run(root / 'undisturbed') == 0
  return root / 'undisturbed'


def test_a_switch_leaves_lineage_samples_and_both_tokenizers(undisturbed):
  page = (undisturbed / 'tokenizer_lineage.md').read_text()
  assert '| 0 | public text | 0 |' in page
  assert '| 1 | text sampled from the private model' in page
  assert 'with fresh embeddings instead' in page and 'New pieces' in page
  samples = (undisturbed / 'samples' / '1.txt').read_text().splitlines()
  assert len(samples) > 100
  first, second = (
    subword.SubwordTokenizer((undisturbed / 'tokenizers' / f'{i}.model').read_bytes())
    for i in (0, 1)
  )
  assert first.fingerprint != second.fingerprint
  effect = json.loads((undisturbed / 'tokenizers' / '1_remap.json').read_text())
  assert effect['perplexity_after_remap'] < effect['perplexity_with_fresh_embeddings']


def test_resampling_costs_nothing(undisturbed, root):
  plain = root / 'plain'
  argv = [
    '--algo=dp_fed_avg',
    '--target_epsilon=2',
    '--accounted_population=10000000',
    '--accounted_cohort=20000',
    *(f for f in _TINY if not f.startswith(('--algo', '--sample', '--resample'))),
    f'--root_output_dir={root}',
    '--experiment_name=plain',
    f'--data_dir={root / "data"}',
  ]
  assert runner.run(base.parse(stackoverflow.TASK, argv)) == 0
  assert _results(plain)['epsilon'] == _results(undisturbed)['epsilon'] <= 2
  card = json.loads((undisturbed / 'privacy_card.json').read_text())
  free = [entry['name'] for entry in card['ledger'] if '0 (post' in entry['cost']]
  assert free.count('tokenizer') == 2 and 'remap' in free


@pytest.mark.slow
@pytest.mark.parametrize('crash_in_round', [2, 4])
def test_a_run_that_crashed_in_any_phase_ends_like_an_undisturbed_one(
  undisturbed, root, monkeypatch, crash_in_round
):
  folder = root / f'crash_{crash_in_round}'
  train = program.train

  def crash(made, *rest):
    client_data = made.client_data

    def failing(users, round_number):
      if round_number == crash_in_round:
        raise RuntimeError('power cut')
      return client_data(users, round_number)

    object.__setattr__(made, 'client_data', failing)
    return train(made, *rest)

  monkeypatch.setattr(program, 'train', crash)
  with pytest.raises(RuntimeError, match='power cut'):
    _run(folder)
  monkeypatch.undo()
  assert _run(folder) == 0
  for name in (
    'metrics.csv',
    'results.json',
    'privacy_card.json',
    'tokenizers/1.model',
  ):
    assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name


@pytest.mark.slow
def test_a_crash_between_the_phases_is_survived(undisturbed, root, monkeypatch):
  folder = root / 'crash_between'
  with monkeypatch.context() as patched:
    patched.setattr(
      subword, 'train', _fail_on_second_call(subword.train, 'killed while fitting')
    )
    with pytest.raises(RuntimeError, match='killed while fitting'):
      _run(folder)
  assert _run(folder) == 0
  assert (folder / 'metrics.csv').read_bytes() == (
    undisturbed / 'metrics.csv'
  ).read_bytes()


def _fail_on_second_call(function, message):
  calls = []

  def wrapped(*args):
    calls.append(args)
    if len(calls) == 2:
      raise RuntimeError(message)
    return function(*args)

  return wrapped


@pytest.mark.slow
def test_halves_of_the_users_and_a_transformer_on_reddit(root):
  folder = root / 'halves'
  code = _run(
    folder,
    '--phase_plan=half_split',
    '--model=transformer_tiny',
    '--tied_embeddings=false',
    task=reddit.TASK,
  )
  assert code == 0
  assert _results(folder)['rounds'] == 6
  card = json.loads((folder / 'privacy_card.json').read_text())
  assert [e['users'] for e in card['ledger'] if 'rounds' in e['name']] == [
    'first half',
    'second half',
  ]
  # Each half has its own budget of 2; together they have spent no more.
  assert card['epsilon'] <= 2


@pytest.mark.slow
def test_several_switches(root):
  folder = root / 'several'
  assert _run(folder, '--resample_rounds=1,3') == 0
  page = (folder / 'tokenizer_lineage.md').read_text()
  assert '| 2 | text sampled' in page


def test_heavy_hitters_are_part_of_the_target(root):
  folder = root / 'hitters'
  hitters = ('--tokenizer_source=heavy_hitters', '--heavy_hitters_epsilon=3')
  with pytest.raises(
    settings.SettingsError, match='--target_epsilon=2.*spend 3 before'
  ):
    _run(folder, *hitters)
  code = _run(folder, *hitters, '--target_epsilon=5')
  assert code == 0
  assert _results(folder)['ended'] == 'finished'
  card = json.loads((folder / 'privacy_card.json').read_text())
  assert 4.99 < card['epsilon'] <= 5
  assert '3 (local)' in (folder / 'tokenizer_lineage.md').read_text()


@pytest.mark.parametrize(
  ('flags', 'error', 'message'),
  [
    (['--resample_rounds=4'], settings.SettingsError, 'from 1 to 3'),
    (['--tokenizer=word'], settings.SettingsError, 'learns sub-words'),
    (['--vocab_size=90000'], tokenizers.TokenizerError, 'supports at most'),
    (
      ['--tokenizer_source=oracle'],
      settings.IncompatibleSettingsError,
      '--privacy_claim=false',
    ),
  ],
)
def test_what_cannot_work_is_refused_and_leaves_the_folder_free(
  root, flags, error, message
):
  folder = root / 'refused'
  with pytest.raises(error, match=message):
    _run(folder, *flags)
  assert not (folder / 'config.json').exists()


def test_a_damaged_tokenizer_file_is_named_as_such(undisturbed, root):
  folder = root / 'damaged'
  (folder / 'tokenizers').mkdir(parents=True)
  for name in ('config.json', 'tokenizers/0.json'):
    (folder / name).write_bytes((undisturbed / name).read_bytes())
  (folder / 'tokenizers' / '0.model').write_bytes(b'something else')
  with pytest.raises(tokenizers.TokenizerError, match='not a SentencePiece model'):
    _run(folder)
