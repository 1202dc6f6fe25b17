"""Plain text corpora: how they are read, and how their lines are dealt out."""

import collections

import pytest

from tff_textpriv.datasets import clients, lm_text

_FILES = {
  'ptb.train.txt': ''.join(f' train line {n} \n' for n in range(25)),
  'ptb.valid.txt': ''.join(f' valid line {n} \n' for n in range(230)),
  'ptb.test.txt': " no it was n't black monday \n\n the <unk> N \n",
}


@pytest.fixture
def folder(tmp_path):
  for name, text in _FILES.items():
    (tmp_path / name).write_text(text)
  return tmp_path


def _texts(client_text):
  return [client_text.read(client_id) for client_id in client_text.client_ids]


def test_the_three_files_are_read_as_distributed(folder):
  data = lm_text.load(str(folder), lm_text.PENN_TREEBANK)
  data.check_disjoint()
  assert _texts(data.train) == [[f'train line {n}' for n in range(25)]]
  assert _texts(data.test) == [["no it was n't black monday", '', 'the <unk> N']]
  # The order of the text stays, in blocks of a hundred lines.
  blocks = _texts(data.validation)
  assert [len(block) for block in blocks] == [100, 100, 30]
  assert sum(blocks, []) == [f'valid line {n}' for n in range(230)]
  assert data.public_text is None


def test_wikitext_headings_are_text(tmp_path):
  for name in ('wiki.train.tokens', 'wiki.valid.tokens', 'wiki.test.tokens'):
    (tmp_path / name).write_text(' \n = Title = \n \n A <unk> @-@ text . \n')
  data = lm_text.load(str(tmp_path), lm_text.WIKITEXT_2)
  # So are blank lines: each has an end, which counts in the perplexity.
  lines = ['', '= Title =', '', 'A <unk> @-@ text .']
  assert _texts(data.train) == [lines]
  assert sorted(sum(_texts(lm_text.deal(data, 2, seed=0).train), [])) == sorted(lines)


def test_lines_are_dealt_once_each_at_random(folder):
  data = lm_text.load(str(folder), lm_text.PENN_TREEBANK)
  dealt = lm_text.deal(data, num_clients=4, seed=0)
  dealt.check_disjoint()
  texts = _texts(dealt.train)
  assert len(texts) == 4
  counts = collections.Counter(sum(texts, []))
  assert counts == collections.Counter(f'train line {n}' for n in range(25))
  # Neighbours in the text are rarely neighbours on a client.
  numbers = [int(text.split()[-1]) for text in texts[0]]
  assert numbers != list(range(numbers[0], numbers[0] + len(numbers)))
  assert _texts(dealt.validation) == _texts(data.validation)
  assert _texts(lm_text.deal(data, 4, seed=0).train) == texts
  assert _texts(lm_text.deal(data, 4, seed=1).train) != texts


def test_more_clients_than_lines_are_refused(folder):
  data = lm_text.load(str(folder), lm_text.PENN_TREEBANK)
  with pytest.raises(clients.DataError, match='--num_clients=26: there are only 25'):
    lm_text.deal(data, 26, seed=0)


def test_a_missing_or_empty_file_is_named_with_what_was_expected(folder):
  (folder / 'ptb.test.txt').write_text('\n \n')
  with pytest.raises(clients.DataError, match='ptb.test.txt: there is no text in it'):
    lm_text.load(str(folder), lm_text.PENN_TREEBANK)
  (folder / 'ptb.valid.txt').unlink()
  with pytest.raises(clients.DataError) as caught:
    lm_text.load(str(folder), lm_text.PENN_TREEBANK)
  assert 'ptb.valid.txt: there is no such file' in str(caught.value)
  assert 'ptb.train.txt, ptb.valid.txt and ptb.test.txt' in str(caught.value)


def test_the_real_corpora_have_their_known_numbers_of_words(real_data):
  wiki = lm_text.load(str(real_data / 'wikitext-2'), lm_text.WIKITEXT_2)
  counts = {
    name: [
      sum(len(text.split()) for texts in _texts(group) for text in texts)
      for group in (data.train, data.validation, data.test)
    ]
    for name, data in (
      ('ptb', lm_text.load(str(real_data / 'ptb'), lm_text.PENN_TREEBANK)),
      ('wiki', wiki),
    )
  }
  # Table 1 of the paper; it counts an end for each of WikiText-2's lines, blank or not.
  assert counts['ptb'] == [887_521, 70_390, 78_669]
  ends = [
    sum(map(len, _texts(group))) for group in (wiki.train, wiki.validation, wiki.test)
  ]
  assert [c + e for c, e in zip(counts['wiki'], ends, strict=True)] == [
    2_088_628,
    217_646,
    245_569,
  ]
