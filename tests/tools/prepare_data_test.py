import itertools
import json
import os
import pathlib

import pytest

from tff_textpriv.datasets import reddit, stackoverflow
from tff_textpriv.datasets.clients import DataError
from tff_textpriv.settings import SettingsError
from tff_textpriv.tools import prepare_data


def _write_posts(folder, num_users=20, broken=0):
  rows = [
    json.dumps({'site': 's', 'user': user, 'text': f'Post {n} by user{user}. It ends.'})
    for n in range(3)
    for user in range(num_users)
  ]
  path = folder / 'posts.jsonl'
  path.write_text('\n'.join(rows[:5] + ['{"site": '] * broken + rows[5:]) + '\n')
  return path


def _settings(folder, **changes):
  values = {
    'input': str(folder),
    'output': str(folder / 'out' / 'posts.sqlite'),
    'min_words_per_user': 5,
  }
  return prepare_data.PrepareDataSettings(**(values | changes))


def _users(data):
  return [set(part.client_ids) for part in (data.train, data.validation, data.test)]


def test_posts_become_users_of_three_disjoint_splits(tmp_path):
  _write_posts(tmp_path)
  settings = _settings(tmp_path)
  assert prepare_data.main(settings) == 0
  data = stackoverflow.load(settings.output)
  data.check_disjoint()
  # Users are dealt each by themselves: the groups have their shares only about.
  assert [len(users) for users in _users(data)] == [16, 3, 1]
  assert set.union(*_users(data)) == {f's/{user}' for user in range(20)}
  user = data.train.client_ids[0]
  number = user.removeprefix('s/')
  assert data.train.read(user) == [
    sentence
    for n in range(3)
    for sentence in (f'post {n} by user{number} .', 'it ends .')
  ]


def test_the_seed_decides_who_goes_where(tmp_path):
  _write_posts(tmp_path)
  deals = []
  for seed in (0, 0, 1):
    prepare_data.main(_settings(tmp_path, seed=seed))
    deals.append(_users(stackoverflow.load(_settings(tmp_path).output)))
  assert deals[0] == deals[1]
  assert deals[0] != deals[2]


def test_the_number_of_users_can_be_limited(tmp_path):
  path = _write_posts(tmp_path)
  settings = _settings(tmp_path, input=str(path), max_users=3)
  prepare_data.main(settings)
  sizes = [len(users) for users in _users(stackoverflow.load(settings.output))]
  assert sizes == [1, 1, 1]


def test_users_with_few_words_are_left_out(tmp_path, capsys):
  path = _write_posts(tmp_path)
  with path.open('a') as file:
    file.write('{"site": "s", "user": 99, "text": "just four words ."}\n')
  settings = _settings(tmp_path, format='json')
  prepare_data.main(settings)
  assert 's/99' not in set.union(*_users(stackoverflow.load(settings.output)))
  summary = json.loads(capsys.readouterr().out)
  assert summary['users_read'] == 21 and summary['users_too_short'] == 1
  assert summary['splits']['train'] == {'users': 16, 'sentences': 96}


def test_broken_rows_are_reported_with_their_lines(tmp_path, capsys):
  _write_posts(tmp_path, broken=2)
  assert prepare_data.main(_settings(tmp_path)) == 0
  captured = capsys.readouterr()
  assert 'posts.jsonl:6: ' in captured.err and 'posts.jsonl:7: ' in captured.err
  assert '2 broken rows' in captured.out


def test_too_many_broken_rows_stop_the_run(tmp_path):
  _write_posts(tmp_path, broken=3)
  settings = _settings(tmp_path, max_broken_rows=2)
  with pytest.raises(DataError, match=r'posts\.jsonl:8: .*--max_broken_rows=2'):
    prepare_data.main(settings)
  assert not os.path.exists(settings.output)


def test_too_few_users_are_an_error(tmp_path):
  _write_posts(tmp_path)
  with pytest.raises(DataError, match='0 of 20 users have 500 words or more'):
    prepare_data.main(_settings(tmp_path, min_words_per_user=500))


def test_a_missing_input_is_named(tmp_path):
  with pytest.raises(DataError, match=r'posts\.jsonl: there is no such file; expected'):
    prepare_data.main(_settings(tmp_path))


@pytest.mark.parametrize('flag', ['input', 'output'])
def test_input_and_output_must_be_given(tmp_path, flag):
  with pytest.raises(SettingsError, match=f'--{flag}: must be given'):
    prepare_data.main(_settings(tmp_path, **{flag: None}))


@pytest.mark.slow
def test_real_posts_are_converted(tmp_path):
  folder = os.environ.get('TFF_TEXTPRIV_DATA')
  if folder is None:
    pytest.skip('TFF_TEXTPRIV_DATA does not name a folder with real data')
  settings = prepare_data.PrepareDataSettings(
    input=str(pathlib.Path(folder) / 'stackexchange'),
    output=str(tmp_path / 'posts.sqlite'),
    max_broken_rows=0,
    max_users=1_000,
  )
  assert prepare_data.main(settings) == 0
  data = stackoverflow.load(settings.output)
  data.check_disjoint()
  assert [len(users) for users in _users(data)] == [800, 100, 100]
  lines = [line for user in data.test.client_ids for line in data.test.read(user)]
  assert not [line for line in lines if 'http : //' in line or 'https : //' in line]
  assert all(line == line.lower().replace('<url>', '<URL>') for line in lines)


def _write_reddit_posts(folder, *more):
  rows = [
    json.dumps({'subreddit': f'r{n % 20}', 'title': 'T', 'text': f'Post {n}. It ends.'})
    for n in range(60)
  ]
  (folder / 'posts.jsonl').write_text('\n'.join([*rows, *more]) + '\n')


def test_subreddits_become_users_of_the_task_reddit(tmp_path):
  _write_reddit_posts(tmp_path)
  settings = _settings(tmp_path, source='reddit_posts')
  assert prepare_data.main(settings) == 0
  data = reddit.load(settings.output, seed=0)
  data.check_disjoint()
  assert [len(users) for users in _users(data)] == [16, 2, 2]
  user = data.test.client_ids[0]
  number = int(user.removeprefix('r'))
  assert data.test.read(user) == [
    sentence
    for n in (number, number + 20, number + 40)
    for sentence in (f'post {n} .', 'it ends .')
  ]


@pytest.mark.parametrize(
  ('row', 'problem'),
  [
    ('{"subreddit": ', 'Expecting value'),
    ('[1]', 'the row is no object'),
    ('{"subreddit": "a"}', "'text' is missing or no string"),
    ('{"subreddit": 3, "text": "x"}', "'subreddit' is missing or no string"),
    ('{"subreddit": "", "text": "x"}', "'subreddit' is empty"),
  ],
)
def test_a_broken_reddit_post_is_reported_with_its_line(tmp_path, capsys, row, problem):
  _write_reddit_posts(tmp_path, row)
  assert prepare_data.main(_settings(tmp_path, source='reddit_posts')) == 0
  captured = capsys.readouterr()
  assert f'posts.jsonl:61: {problem}' in captured.err
  assert 'expected one JSON object a line with strings "subreddit"' in captured.err
  assert '1 broken rows' in captured.out


def test_a_missing_input_is_named_with_the_format_of_its_source(tmp_path):
  with pytest.raises(DataError, match='no such file; expected .* "subreddit"'):
    prepare_data.main(_settings(tmp_path, source='reddit_posts'))


def test_real_reddit_posts_are_converted(tmp_path, real_data):
  # Every tenth post is enough.
  with (real_data / 'reddit_subreddits' / 'posts.jsonl').open('rb') as posts:
    (tmp_path / 'posts.jsonl').write_bytes(
      b''.join(itertools.islice(posts, 0, None, 10))
    )
  settings = prepare_data.PrepareDataSettings(
    source='reddit_posts',
    input=str(tmp_path),
    output=str(tmp_path / 'posts.sqlite'),
    max_broken_rows=0,
    max_users=50,
  )
  assert prepare_data.main(settings) == 0
  data = reddit.load(settings.output, seed=0)
  data.check_disjoint()
  assert [len(users) for users in _users(data)] == [42, 5, 3]
  assert all(len(data.test.read(user)) > 10 for user in data.test.client_ids)
