import json
import os
import pickle
import tracemalloc

import pytest

from tff_textpriv.datasets import reddit, splits, stackoverflow
from tff_textpriv.datasets.clients import DataError, UnknownClientError


def _groups(data):
  return [set(part.client_ids) for part in (data.train, data.validation, data.test)]


def _texts(data):
  return {
    user: part.read(user)
    for part in (data.train, data.validation, data.test)
    for user in part.client_ids
  }


def _write_lines(folder, num_users=20, name='comments.tsv'):
  path = folder / name
  lines = [f'user{u}\tcomment {n} of {u}' for n in range(3) for u in range(num_users)]
  path.write_text('\n'.join(lines) + '\n')
  return path


def _shard(texts, **changes):
  content = {
    'users': list(texts),
    'num_samples': [len(comments) for comments in texts.values()],
    'user_data': {
      user: {'x': comments, 'y': [{}] * len(comments)}
      for user, comments in texts.items()
    },
  }
  return content | changes


def _write_shard(path, texts, **dump):
  path.parent.mkdir(exist_ok=True)
  path.write_text(json.dumps(_shard(texts), **dump), encoding='utf-8')
  return path


@pytest.mark.parametrize('name', ['comments.tsv', 'comments.txt'])
def test_lines_are_gathered_by_author_wherever_they_stand(tmp_path, name):
  data = reddit.load(str(_write_lines(tmp_path, name=name)), seed=0)
  data.check_disjoint()
  sizes = [len(group) for group in _groups(data)]
  assert sum(sizes) == 20 and min(sizes) >= 1 and sizes[0] >= 12
  assert _texts(data) == {
    f'user{u}': [f'comment {n} of {u}' for n in range(3)] for u in range(20)
  }


def test_the_seed_decides_who_goes_where(tmp_path):
  path = str(_write_lines(tmp_path))
  deals = [_groups(reddit.load(path, seed)) for seed in (0, 0, 1)]
  assert deals[0] == deals[1] != deals[2]


def test_users_are_dealt_alike_whatever_their_order():
  users = [f'u{n}' for n in range(37)]
  assert splits.deal_users(users, 5) == splits.deal_users(reversed(users), 5)
  assert sorted(sum(splits.deal_users(users, 5), [])) == sorted(users)
  many = splits.deal_users([f'u{n}' for n in range(5000)], 5)
  # 10 in 100, to 5 standard deviations.
  assert all(abs(len(group) - 500) < 5 * 21.3 for group in many[1:])
  assert [len(group) for group in splits.deal_users('abc', 0)] == [1, 1, 1]


def test_odd_but_good_lines_are_read(tmp_path):
  path = tmp_path / 'odd.tsv'
  path.write_bytes(
    b'\xef\xbb\xbfann\tafter the mark\r\n'
    b'ann\ta tab\tmore\r\n'
    b'\n'
    b'ann\tcaf\xc3\xa9 \xe2\x80\xa8 x\n'
    b'ann\t  \n'
    b'[deleted]\tby nobody\n'
    b'silent\t\n'
    b'bob\tone\n'
    b'cid\tno newline at the end'
  )
  assert _texts(reddit.load(str(path), seed=0)) == {
    'ann': ['after the mark', 'a tab more', 'café x'],
    'bob': ['one'],
    'cid': ['no newline at the end'],
  }


def test_neighbouring_lines_of_an_author_are_one_place(tmp_path):
  path = tmp_path / 'sorted.tsv'
  path.write_text(''.join(f'{u}\tcomment {n}\n' for u in 'abc' for n in range(100)))
  comments = reddit.IndexedComments([str(path)])
  assert [len(places) for places in comments._places.values()] == [3, 3, 3]
  assert comments.read('b') == [f'comment {n}' for n in range(100)]


def test_a_file_is_indexed_without_being_held_in_memory(tmp_path):
  path = tmp_path / 'large.tsv'
  with path.open('w') as file:
    for number in range(2_000):
      file.write(f'user{number % 50}\t{"many words " * 500}\n')
  tracemalloc.start()
  comments = reddit.IndexedComments([str(path)])
  _, peak = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert path.stat().st_size > 10_000_000 > 10 * peak
  assert len(comments.read('user7')) == 40


def test_a_few_broken_lines_are_shown_and_left_out(tmp_path, capsys):
  path = _write_lines(tmp_path)
  good = path.read_bytes()
  path.write_bytes(b'no tab here\nann\tcaf\xe9\n \tno author\n' + good)
  assert len(_texts(reddit.load(str(path), seed=0))) == 20
  shown = capsys.readouterr().err.splitlines()
  assert len(shown) == 3
  assert 'comments.tsv:1: there is no tab; expected a line in UTF-8' in shown[0]
  assert "comments.tsv:2: 'utf-8' codec can't decode byte 0xe9" in shown[1]
  assert 'comments.tsv:3: there is no author' in shown[2]


def test_many_broken_lines_are_refused(tmp_path):
  path = _write_lines(tmp_path)
  path.write_text(path.read_text() + 'comma,separated\n' * 11)
  with pytest.raises(DataError, match=r'comments\.tsv:71: .*row number 11 .* is 10'):
    reddit.load(str(path), seed=0)


_LEAF_TEXTS = {
  'ann': [
    [['<BOS>', 'one', 'two'], ['three', '<EOS>', '<PAD>']],
    [['<BOS>', '<EOS>', '<PAD>']],
  ],
  'bob': ['a plain string', ['flat', 'tokens']],
  'ünal "q"': [[['<BOS>', 'köy', '<EOS>']]],
}
_LEAF_EXPECTED = {
  'ann': ['one two three'],
  'bob': ['a plain string', 'flat tokens'],
  'ünal "q"': ['köy'],
}


@pytest.mark.parametrize('ensure_ascii', [True, False])
@pytest.mark.parametrize('indent', [None, 2])
def test_leafs_comments_are_read_however_they_are_nested(
  tmp_path, ensure_ascii, indent
):
  path = _write_shard(
    tmp_path / 'a.json', _LEAF_TEXTS, ensure_ascii=ensure_ascii, indent=indent
  )
  assert _texts(reddit.load(str(path), seed=0)) == _LEAF_EXPECTED


def test_shards_of_a_folder_are_one_data_set(tmp_path):
  _write_shard(tmp_path / 's1.json', {'ann': ['early'], 'bob': ['x'], 'mute': []})
  _write_shard(tmp_path / 's2.json', {'cid': ['y'], 'ann': ['late']})
  assert _texts(reddit.load(str(tmp_path), seed=0)) == {
    'ann': ['early', 'late'],
    'bob': ['x'],
    'cid': ['y'],
  }


def test_users_who_are_not_in_leafs_train_folder_are_evaluated_on(tmp_path):
  train = {f'old{n}': ['early'] for n in range(10)}
  _write_shard(tmp_path / 'train' / 'a.json', train)
  test = {f'new{n}': ['late'] for n in range(4)} | {'old3': ['late']}
  _write_shard(tmp_path / 'test' / 'a.json', test)
  data = reddit.load(str(tmp_path), seed=0)
  data.check_disjoint()
  groups = _groups(data)
  assert groups[0] == set(train)
  assert groups[1] | groups[2] == {f'new{n}' for n in range(4)}
  assert len(groups[1]) == len(groups[2]) == 2
  assert data.train.read('old3') == ['early', 'late']
  assert any(
    _groups(reddit.load(str(tmp_path), seed))[1] != groups[1] for seed in (1, 2)
  )


def test_users_in_all_of_leafs_folders_are_dealt_anew(tmp_path):
  for folder in ('train', 'val', 'test'):
    _write_shard(
      tmp_path / folder / 'a.json', {f'u{n}': [f'{folder} {n}'] for n in range(20)}
    )
  data = reddit.load(str(tmp_path), seed=0)
  data.check_disjoint()
  sizes = [len(group) for group in _groups(data)]
  assert sum(sizes) == 20 and min(sizes) >= 1 and sizes[0] >= 12
  assert _texts(data)['u7'] == ['train 7', 'val 7', 'test 7']


@pytest.mark.parametrize(
  ('content', 'problem'),
  [
    (b'', ':1: damaged, truncated or no JSON'),
    (b'\n\nno json', ':3: damaged, truncated or no JSON'),
    (b'[1, 2]', ':1: damaged, truncated or no JSON'),
    (b'{"users": [], "caf\xe9": 1}', ':1: not UTF-8'),
    (b'{}', ': "users" and "user_data" do not list the same users'),
    (b'{"text": "foreign"}', ': "users" and "user_data" do not list'),
    (json.dumps(_shard(_LEAF_TEXTS)).encode()[:-1], ':1: damaged, truncated'),
    (json.dumps(_shard(_LEAF_TEXTS)).encode()[:150], ':1: damaged, truncated'),
    (json.dumps(_shard(_LEAF_TEXTS)).encode() + b' {}', ':1: damaged, truncated'),
    (json.dumps(_shard(_LEAF_TEXTS, users=['ann'])).encode(), ': "users" and'),
    (b'{"users": ["a"], "user_data": []}', ':1: damaged, truncated or no JSON'),
    (b'{1: 2}', ':1: damaged, truncated or no JSON (a key is no string'),
  ],
)
def test_a_damaged_or_foreign_json_file_is_named(tmp_path, content, problem):
  path = tmp_path / 'shard.json'
  path.write_bytes(content)
  with pytest.raises(DataError) as caught:
    reddit.load(str(tmp_path), seed=0)
  assert str(caught.value).startswith(f'{path}{problem}')
  assert "expected LEAF's JSON: an object with the users' ids" in str(caught.value)


def test_a_broken_user_of_a_shard_is_shown_with_the_line(tmp_path, capsys):
  content = _shard({'ann': ['x'], 'bob': ['y'], 'cid': ['z'], 'dan': [3], 'eve': []})
  content['user_data']['eve'] = {'y': []}
  (tmp_path / 'a.json').write_text(json.dumps(content, indent=1))
  assert set(_texts(reddit.load(str(tmp_path), seed=0))) == {'ann', 'bob', 'cid'}
  shown = capsys.readouterr().err
  lines = (tmp_path / 'a.json').read_text().splitlines()
  for user, problem in (
    ('dan', 'a comment holds int'),
    ('eve', 'there is no list "x"'),
  ):
    number = lines.index(f'  "{user}": {{') + 1
    assert f'a.json:{number}: a user: {problem}' in shown


@pytest.mark.parametrize(
  ('name', 'problem'),
  [
    ('missing.json', 'there is no such file or folder'),
    ('data.csv', "the ending '.csv' names no known format"),
    ('empty_folder', 'the folder has no .json files'),
    ('two.tsv', 'there are 2 users, and at least 3 are needed'),
    ('empty.tsv', 'there are 0 users, and at least 3 are needed'),
  ],
)
def test_what_cannot_be_used_is_named_with_what_is_expected(tmp_path, name, problem):
  (tmp_path / 'data.csv').write_text('a,b\n')
  (tmp_path / 'empty_folder').mkdir()
  (tmp_path / 'two.tsv').write_text('a\tx\nb\ty\n')
  (tmp_path / 'empty.tsv').write_text('')
  with pytest.raises(DataError) as caught:
    reddit.load(str(tmp_path / name), seed=0)
  assert str(caught.value).startswith(f'{tmp_path / name}: {problem}')
  assert "expected LEAF's JSON (one .json file" in str(caught.value)


def test_an_sqlite_file_brings_its_own_groups(tmp_path):
  path = str(tmp_path / 'posts.sqlite')
  texts = {split: {f'{split}_user': ['hello']} for split in stackoverflow.SPLITS}
  stackoverflow.write(path, texts)
  data = reddit.load(path, seed=0)
  assert data.name == 'reddit'
  assert _groups(data) == [{'train_user'}, {'heldout_user'}, {'test_user'}]


def test_a_file_that_changes_under_its_reader_is_refused(tmp_path):
  path = _write_lines(tmp_path)
  data = reddit.load(str(path), seed=0)
  path.write_text('new\tcontent\n' + path.read_text())
  with pytest.raises(DataError, match='the file has changed since it was opened'):
    data.train.read(data.train.client_ids[0])


def test_the_fingerprint_tells_groups_and_versions_of_a_file_apart(tmp_path):
  path = _write_lines(tmp_path)
  data = reddit.load(str(path), seed=0)
  before = data.train.fingerprint
  assert reddit.load(str(path), seed=0).train.fingerprint == before
  assert data.test.fingerprint != before
  os.utime(path, ns=(0, 1))
  assert reddit.load(str(path), seed=0).train.fingerprint != before


def test_an_unknown_user_is_refused(tmp_path):
  with pytest.raises(UnknownClientError, match='no such user among the 20 users'):
    reddit.IndexedComments([str(_write_lines(tmp_path))]).read('nobody')


def test_a_data_set_can_be_sent_to_another_process(tmp_path):
  data = reddit.load(str(_write_lines(tmp_path)), seed=0)
  assert _texts(pickle.loads(pickle.dumps(data))) == _texts(data)
