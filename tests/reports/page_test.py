"""The whole page: complete, self-contained, escaped, and light."""

import html
import html.parser
import json
import random
import time

import pytest

from tff_textpriv.reports import comparison, folders, page, promises

_EVIL = '<script>alert("x")</script><img src=x onerror=alert(1)>'


class _Checker(html.parser.HTMLParser):
  """Collects what a page is made of, and checks that elements are closed in order."""

  def __init__(self):
    super().__init__()
    self.open = []
    self.names = set()
    self.attributes = set()
    self.text = []

  def handle_starttag(self, tag, attrs):
    self.names.add(tag)
    self.attributes |= {name for name, _ in attrs}
    self.attributes |= {f'href={value[0]}' for name, value in attrs if name == 'href'}
    if tag not in ('meta', 'br', 'img'):
      self.open.append(tag)

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    if self.open[-1:] != ['style']:
      self.text.append(data)


def _check(tmp_path):
  content = page.render(folders.search([tmp_path]))
  checker = _Checker()
  checker.feed(content)
  assert not checker.open
  return content, checker


@pytest.fixture
def everything(write_run, write_attack, tmp_path):
  """Folders with all that a report can show, and with users' data that is hostile."""
  write_run('plain', auc=0.9, bytes_up_per_client=1000)
  write_run('private', auc=0.8, epsilon=4, bytes_up_per_client=900)
  folder = write_run(
    'sampled <b>', auc=0.7, epsilon=1, config={'note': _EVIL}, bytes_up_per_client=8
  )
  (folder / 'samples').mkdir()
  (folder / 'samples' / '1.txt').write_text(f'a sample {_EVIL}\n')
  (folder / 'tokenizer_lineage.md').write_text(f'# Tokenizer lineage\n\n{_EVIL}\n')
  stopped = write_run('stopped', config={'algo': _EVIL})
  (stopped / 'results.json').unlink()
  (write_run('broken') / 'config.json').write_text('{')
  write_attack(
    {'fed_avg': [0.5]},
    cases=[
      {
        'texts': [['secret', 'word']],
        'found': [{'attack': _EVIL, 'tokens': ['secret', _EVIL], 'recall': 0.5}],
      }
    ],
  )
  (tmp_path / 'sweep_summary.csv').touch()
  (tmp_path / 'sweep_summary.md').write_text(f'# Sweep\n\n{_EVIL}\n')
  return tmp_path


def test_all_parts_are_there_and_say_what_is_not_private(everything):
  content, checker = _check(everything)
  text = ''.join(checker.text)
  for part in (
    'Learning curves',
    'Utility against what it costs',
    'Settings that differ',
    'Studies and sweeps',
    'Privacy cards',
    'Tokenizers',
    'Generated samples',
    'Case studies (1)',
    'exact measurements of users’ data and not private',
    'Case studies of attacks show users’ own text',
    'it has not ended: 4 of 4 rounds',
    'config.json cannot be read',
    'central, a user added or removed, delta 1e-06',
    'leakage',
  ):
    assert part in text, part
  assert '<mark>secret</mark>' in content


def test_text_from_files_cannot_become_markup(everything):
  _, checker = _check(everything)
  assert not checker.names & {'script', 'img', 'iframe', 'object', 'link', 'form'}
  assert not any(name.startswith('on') for name in checker.attributes)
  # The text itself is shown as it is.
  assert ''.join(checker.text).count('<script>alert("x")</script>') >= 6


def test_the_page_loads_nothing(everything):
  content, checker = _check(everything)
  assert 'src' not in checker.attributes
  assert {name for name in checker.attributes if name.startswith('href')} == {
    'href',
    'href=#',
  }
  assert 'url(' not in content and '@import' not in content
  assert "default-src 'none'" in html.unescape(content)


@pytest.mark.parametrize('odd', [None, 3, -1e400, 'text', [], [None], {}, {'a': [1]}])
@pytest.mark.parametrize(
  'file', ['config.json', 'results.json', 'privacy_card.json', 'attack.json']
)
def test_no_content_stops_a_report(write_run, write_attack, tmp_path, file, odd):
  write_run('one')
  folder = write_run('two', epsilon=1)
  if file == 'attack.json':
    folder = write_attack({'fed_avg': [0.5]}, cases=[{'texts': [], 'found': []}])
  content = json.loads((folder / file).read_text())
  for key in content:
    (folder / file).write_text(json.dumps({**content, key: odd}))
    _check(tmp_path)


def test_a_page_that_cannot_be_written_is_a_sentence(write_run, tmp_path):
  folder = write_run('one')
  with pytest.raises(folders.ReportError, match='cannot write .*: Is a directory'):
    page.write([folder], tmp_path)


def test_a_single_run_has_its_card_open_and_no_front(write_run, tmp_path):
  write_run('only', epsilon=1)
  content, checker = _check(tmp_path)
  text = ''.join(checker.text)
  assert 'only: fed_avg on imdb' in text
  assert 'Pareto' not in text
  assert '<details open><summary><strong>only</strong>' in content


def test_a_private_run_has_the_curve_of_epsilon_over_delta(write_run, cards):
  private = page.render(folders.search([write_run('private', epsilon=4)]))
  assert 'Epsilon at other deltas' in private
  assert 'Epsilon at other deltas' not in page.render(
    folders.search([write_run('plain')])
  )
  points = promises.curve(cards[4])
  assert [x for x, _ in points] == list(range(2, 13))
  epsilons = [epsilon for _, epsilon in points]
  assert epsilons == sorted(epsilons)
  # At the card's own delta it is the card's figure.
  assert dict(points)[6] == pytest.approx(cards[4]['epsilon'])
  assert promises.curve({'curve': [{'delta': 'x'}, 3, {'delta': 0.1}]}) == []


def test_no_run_is_needed_beside_an_attack(write_attack):
  folder = write_attack({'fed_avg': [0.5]})
  _, checker = _check(folder)
  assert 'what messages reveal' in ''.join(checker.text)


def test_runs_that_have_not_ended_have_curves(write_run, tmp_path):
  (write_run('stopped') / 'results.json').unlink()
  _, checker = _check(tmp_path)
  text = ''.join(checker.text)
  assert 'Validation AUC' in text and 'Training loss' in text


def test_a_figure_of_the_test_alone_has_the_curve_of_another(write_run, tmp_path):
  write_run('a', auc=None, test_local_accuracy=0.5)
  _, checker = _check(tmp_path)
  assert 'Validation AUC' in ''.join(checker.text)


def test_a_large_sweep_is_light_and_quick(write_run, tmp_path):
  rng = random.Random(0)
  rows = ''.join(f'{i},{rng.random()},{rng.random()}\n' for i in range(1, 2001))
  for number in range(24):
    folder = write_run(f'run_{number}', rng.random(), 4, config={'x': number // 2})
    (folder / 'metrics.csv').write_text(f'round,train_loss,validation_auc\n{rows}')
  start = time.process_time()
  content = page.render(folders.search([tmp_path]))
  assert time.process_time() - start < 5
  assert len(content.encode()) < 400_000


def test_the_longer_side_of_a_table_goes_down_the_page(write_run, tmp_path):
  write_run('a', config={'x': 1, 'y': 1, 'z': 1})
  write_run('b', config={'x': 2, 'y': 2, 'z': 2})
  content, _ = _check(tmp_path)
  assert '<tr><td>x</td><td>1</td><td>2</td></tr>' in content
  for name in ('c', 'd', 'e'):
    write_run(name, config={'x': 1, 'y': 1, 'z': 1})
  content, _ = _check(tmp_path)
  assert '<tr><td>b</td><td>2</td><td>2</td><td>2</td></tr>' in content


def test_the_page_is_written_as_a_whole(write_run, tmp_path):
  folder = write_run('only')
  material = page.write([folder], folder / 'report.html')
  assert [run.name for run in material.runs] == ['only']
  content = (folder / 'report.html').read_text(encoding='utf-8')
  assert content.startswith('<!doctype html>') and content.endswith('</html>\n')


def test_a_single_run_begins_with_its_verdict_and_shows_its_test_and_its_data(
  write_run, tmp_path
):
  figures = {'test_accuracy': 0.61, 'test_majority_accuracy': 0.62}
  folder = write_run(
    'mine', epsilon=4, config={'data': '/home/me/posts.csv'}, **figures
  )
  (folder / 'about.txt').write_text('posts.csv: 12 rows\n')
  content, checker = _check(tmp_path)
  text = ''.join(checker.text)
  assert text.index('NOT BETTER than always answering') < text.rindex('Learning curves')
  assert 'posts.csv: 12 rows' in text
  # Folders of this machine are nobody's business.
  assert '…/posts.csv' in text and '/home/me' not in content
  assert 'What other cohorts and rounds would cost' in text


def test_a_study_is_shown_with_its_plot_which_loads_and_runs_nothing(
  write_run, tmp_path
):
  write_run('run')
  (tmp_path / 'study.csv').touch()
  (tmp_path / 'study.md').write_text('# Does it pay?\n')
  (tmp_path / 'study.svg').write_text('<svg onload="alert(1)"/>')
  content, checker = _check(tmp_path)
  assert 'src="data:image/svg+xml;base64,' in content
  assert 'onload' not in checker.attributes
  assert 'img-src data:;' in content


def test_figures_that_are_printed_alike_tie(write_run, tmp_path):
  write_run('a', auc=0.80001, epsilon=4)
  write_run('b', auc=0.80002, epsilon=4, config={'algo': 'fed_prox'})
  compared = comparison.compare(folders.search([tmp_path]).runs, [])
  assert [one.front for one in compared] == [frozenset({0, 1})]


def test_new_tokens_stand_beside_the_texts_that_they_were_learnt_from(
  write_run, tmp_path
):
  folder = write_run('sampled', epsilon=4)
  for name in ('samples', 'tokenizers'):
    (folder / name).mkdir()
  (folder / 'samples' / '1.txt').write_text('what it wrote\n')
  record = {'facts': {'new_pieces': ['▁wrote', '<b>']}}
  (folder / 'tokenizers' / '1.json').write_text(json.dumps(record))
  text = ''.join(_check(tmp_path)[1].text)
  place = text.index('what it wrote')
  assert 'New tokens, the most frequent first: ▁wrote <b>' in text[place:]
