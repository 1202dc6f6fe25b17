"""The time of the switch: what agreement is, and runs that wait for it."""

import json
import pathlib

import numpy as np
import pytest

from tff_textpriv import settings
from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.text import subword
from tff_textpriv.training import program, runner, switch_time

_TINY = (
  '--algo=subword_resample',
  '--num_users=30',
  '--clients_per_round=4',
  '--vocab_size=600',
  '--max_words_per_user=150',
  '--max_eval_users=4',
  '--total_rounds=5',
  '--client_batch_size=4',
  '--rounds_per_eval=5',
  '--rounds_per_checkpoint=1',
  '--sample_tokens=8000',
  '--sample_max_length=24',
  '--server_learning_rate=0.05',
  '--accountant=rdp',  # In no time.
)
_AUTO = (
  '--switch=auto', '--switch_check_rounds=1', '--switch_sample_tokens=6000',
)  # fmt: skip


def _chosen(folder: pathlib.Path, *given: str):
  argv = [
    *_TINY,
    *given,
    f'--root_output_dir={folder.parent}',
    f'--experiment_name={folder.name}',
    f'--data_dir={folder.parent / "data"}',
  ]
  return base.parse(stackoverflow.TASK, argv)


def _run(folder: pathlib.Path, *given: str) -> int:
  return runner.run(_chosen(folder, *given))


def _checks(folder: pathlib.Path) -> list[dict]:
  records = (
    json.loads((folder / 'tokenizers' / f'{i}.json').read_text()) for i in range(1, 5)
  )
  return [r['facts']['switch_check'] for r in records if 'switch_check' in r['facts']]


@pytest.fixture(scope='module')
def root(tmp_path_factory) -> pathlib.Path:
  return tmp_path_factory.mktemp('switch_time')


@pytest.fixture(scope='module')
def switched(root) -> pathlib.Path:
  """A run that is content with little, and was not disturbed."""
  folder = root / 'switched'
  assert _run(folder, *_AUTO, '--switch_agreement=0.01', '--distillation_epochs=1') == 0
  return folder


def test_agreement_counts_tokens_and_takes_the_smaller_way():
  one, other = {'a': 6, 'b': 2, 'c': 2}, {'a': 1, 'd': 9}
  assert switch_time.agreement(one, one) == 1
  assert switch_time.agreement(one, {'z': 3}) == 0
  # Of ours 6 of 10 tokens are theirs, of theirs 1 of 10.
  assert switch_time.agreement(one, other) == switch_time.agreement(other, one) == 0.1
  assert switch_time.agreement({}, {}) == 0


def test_rare_pieces_that_come_and_go_count_little():
  # Two samples of one law, with half of the pieces too rare to be in both.
  rng = np.random.default_rng(3)
  shares = 1 / np.arange(1, 2001)
  shares /= shares.sum()
  samples = [
    {str(i): int(n) for i, n in enumerate(rng.multinomial(5000, shares)) if n}
    for _ in range(2)
  ]
  plain = len(samples[0].keys() & samples[1]) / len(samples[0].keys() | samples[1])
  # A piece with share p is missing in the other with probability (1 - p)^5000. The
  # share of tokens that have none is a mean of 5,000; four standard errors of it.
  expected = 1 - np.sum(shares * (1 - shares) ** 5000)
  error = 4 * np.sqrt(expected * (1 - expected) / 5000)
  assert switch_time.agreement(*samples) == pytest.approx(expected, abs=error)
  assert plain < 0.8 < switch_time.agreement(*samples)


def test_the_run_switches_once_when_two_checks_agree(switched):
  first, second = _checks(switched)
  assert (first['round'], first['agreement'], first['switches']) == (1, None, False)
  assert second['round'] == 2 and second['switches'] and second['agreement'] > 0.01
  tokenizers = [(switched / 'tokenizers' / f'{i}.model').read_bytes() for i in range(5)]
  assert tokenizers[0] == tokenizers[1] != tokenizers[2] == tokenizers[3]
  assert tokenizers[3] == tokenizers[4]
  page = (switched / 'tokenizer_lineage.md').read_text()
  assert f'| 2 | {second["agreement"]:.1%} | yes |' in page
  assert page.count('\n| 0 | public text') == page.count('\n| 2 | text sampled') == 1
  assert '\n| 3 | text' not in page and page.count('| distillation |') == 1
  card = json.loads((switched / 'privacy_card.json').read_text())
  counts = {entry['name']: entry['count'] for entry in card['ledger']}
  assert (counts['check'], counts['remap'], counts['distillation']) == (2, 1, 1)
  assert card['epsilon'] <= 2


@pytest.mark.slow
def test_a_run_whose_checks_never_agree_keeps_its_tokenizer(root):
  folder = root / 'never'
  assert _run(folder, *_AUTO, '--switch_agreement=1', '--switch_check_rounds=2') == 0
  assert [check['switches'] for check in _checks_of(folder, 3)] == [False, False]
  page = (folder / 'tokenizer_lineage.md').read_text()
  assert 'No two checks agreed: no switch was made.' in page
  assert '## Tokenizer' not in page
  tokenizers = {(folder / 'tokenizers' / f'{i}.model').read_bytes() for i in range(3)}
  assert len(tokenizers) == 1


def _checks_of(folder, number):
  return [
    json.loads((folder / 'tokenizers' / f'{i}.json').read_text())['facts'][
      'switch_check'
    ]
    for i in range(1, number)
  ]


@pytest.mark.slow
@pytest.mark.parametrize(
  'where',
  ['at the check', 'in the next round'],
)
def test_a_run_that_is_killed_at_a_check_ends_like_an_undisturbed_one(
  switched, root, monkeypatch, where
):
  folder = root / where.replace(' ', '_')
  given = (*_AUTO, '--switch_agreement=0.01', '--distillation_epochs=1')
  with monkeypatch.context() as patched:
    if where == 'at the check':
      patched.setattr(subword, 'train', _failing_third(subword.train))
    else:
      patched.setattr(program, 'train', _failing_in_round(program.train, 3))
    with pytest.raises(RuntimeError, match='power cut'):
      _run(folder, *given)
  assert _run(folder, *given) == 0
  for name in (
    'metrics.csv',
    'results.json',
    'privacy_card.json',
    'tokenizers/2.model',
  ):
    assert (folder / name).read_bytes() == (switched / name).read_bytes(), name
  assert _checks(folder) == _checks(switched)


def _failing_third(function):
  calls = []

  def wrapped(*args):
    calls.append(args)
    if len(calls) == 3:  # The first tokenizer, the first check, the second one.
      raise RuntimeError('power cut')
    return function(*args)

  return wrapped


def _failing_in_round(train, last):
  def wrapped(made, *rest):
    client_data = made.client_data

    def failing(users, round_number):
      if round_number == last:
        raise RuntimeError('power cut')
      return client_data(users, round_number)

    object.__setattr__(made, 'client_data', failing)
    return train(made, *rest)

  return wrapped


@pytest.mark.parametrize(
  'plan',
  [pytest.param(plan, marks=pytest.mark.slow) for plan in ('switch', 'half_split')],
)
def test_a_vocabulary_grows_and_its_old_ids_stay(root, plan):
  folder = root / f'appended_{plan}'
  given = (f'--phase_plan={plan}', '--resample_rounds=2', '--total_rounds=3')
  assert _run(folder, *given, '--append_pieces=40') == 0
  old, new = (
    subword.SubwordTokenizer((folder / 'tokenizers' / f'{i}.model').read_bytes())
    for i in (0, 1)
  )
  assert new.pieces[: old.size] == old.pieces and 600 < new.size <= 640
  page = (folder / 'tokenizer_lineage.md').read_text()
  assert 'pieces were appended to the tokenizer before, whose ids stay' in page
  assert f'| {new.size} |' in page


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (
      ['--switch=auto', '--phase_plan=half_split'],
      'goes with --phase_plan=switch only',
    ),
    (['--switch=auto', '--resample_rounds=2'], 'finds the round itself'),
    (['--switch=auto', '--switch_check_rounds=3'], 'two checks at least'),
    (
      ['--switch=auto', '--mechanism=dp_ftrl', '--server_optimizer=sgd'],
      'would start its noise anew',
    ),
  ],
)
def test_what_cannot_be_searched_is_refused_and_leaves_the_folder_free(
  root, flags, message
):
  folder = root / 'refused'
  error = settings.SettingsError, settings.IncompatibleSettingsError
  with pytest.raises(error, match=message):
    _run(folder, *flags)
  assert not (folder / 'config.json').exists()
