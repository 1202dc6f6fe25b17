import json

import pytest

from tff_textpriv.datasets import stackexchange


def test_posts_are_read_with_users_told_apart_by_site(tmp_path):
  rows = [
    {'site': 'beer', 'user': 7, 'text': 'one'},
    {'site': 'ai', 'user': 7, 'text': ''},
  ]
  path = tmp_path / 'posts.jsonl'
  path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  posts = list(stackexchange.read_posts(str(path), pytest.fail))
  assert [post[1:] for post in posts] == [('beer/7', 'one'), ('ai/7', '')]
  assert posts[-1][0] == path.stat().st_size


@pytest.mark.parametrize(
  'broken',
  [
    b'{"site": "beer", "user": 7',
    b'[1, 2]',
    b'{"site": "beer", "text": "no user"}',
    b'{"site": "beer", "user": "7", "text": "a string"}',
    b'{"site": "beer", "user": true, "text": "a boolean"}',
    b'{"site": "beer", "user": 7, "text": null}',
    b'{"site": "beer", "user": 7, "text": "caf\xe9"}',
    b'',
  ],
)
def test_a_broken_row_is_reported_with_its_line_and_left_out(tmp_path, broken):
  good = b'{"site": "beer", "user": 1, "text": "fine"}'
  path = tmp_path / 'posts.jsonl'
  path.write_bytes(b'\n'.join([good, broken, good, b'']))
  errors = []
  posts = list(stackexchange.read_posts(str(path), errors.append))
  assert [text for _, _, text in posts] == ['fine', 'fine']
  (error,) = errors
  assert 'posts.jsonl:2: ' in str(error) and 'expected one JSON object' in str(error)
