"""Reading what runs left, whole or broken."""

import pathlib

import pytest

from tff_textpriv.reports import folders, runs


def test_a_run_is_read_with_curves_results_and_card(write_run):
  folder = write_run('one', auc=0.9, epsilon=4, bytes_up_per_client=100)
  run = runs.read(folder, 'one')
  assert (run.task, run.algo, run.problems) == ('imdb', 'fed_avg', ())
  # What is not finite is left out.
  assert run.curves['train_loss'] == [(1, 0.9), (2, 0.8), (4, 0.6)]
  assert run.curves['validation_auc'] == [(2, 0.6), (4, 0.75)]
  assert run.is_finished and run.bytes_up == 100
  assert run.card_text.startswith('# Privacy card')


def test_bytes_of_randomized_bits_come_from_the_metrics(write_run):
  folder = write_run('bits')
  (folder / 'metrics.csv').write_text('round,bytes_per_client\n1,55\n2,55\n')
  assert runs.read(folder, 'bits').bytes_up == 55


def test_only_the_first_samples_are_kept_and_long_ones_cut(write_run):
  folder = write_run('sampled')
  (folder / 'samples').mkdir()
  (folder / 'samples' / '1.txt').write_text('word ' * 1000 + '\n\n' + 'short\n' * 100)
  (sample,) = runs.read(folder, 'sampled').samples
  assert sample.file == 'samples/1.txt'
  assert len(sample.texts) == 8 and sample.texts[1] == 'short'
  assert len(sample.texts[0]) == 300 and sample.texts[0].endswith('…')


@pytest.mark.parametrize(
  ('file', 'content', 'problem'),
  [
    ('config.json', '{oops', 'config.json cannot be read'),
    ('config.json', '[1]', 'config.json cannot be read (it is not a JSON object)'),
    ('config.json', '[' * 100_000, 'config.json cannot be read'),
    ('results.json', '', 'results.json cannot be read'),
    ('privacy_card.json', 'null', 'privacy_card.json cannot be read'),
    ('privacy_card.md', b'\xff', 'privacy_card.md cannot be read'),
    ('metrics.csv', 'round,a\n1,2\nx,3\n', 'metrics.csv cannot be read to its end'),
    ('metrics.csv', 'a,b\n1,2\n', 'metrics.csv cannot be read to its end'),
    ('metrics.csv', 'round,a\n1,2,3\n', 'metrics.csv cannot be read to its end'),
    ('metrics.csv', b'round,a\n1,\x00\xff\n', 'metrics.csv cannot be read to its end'),
    ('samples/1.txt', b'\xff\n', 'samples/1.txt cannot be read'),
  ],
)
def test_a_broken_file_becomes_a_sentence(write_run, file, content, problem):
  folder = write_run('broken')
  (folder / 'samples').mkdir()
  data = content if isinstance(content, bytes) else content.encode()
  (folder / file).write_bytes(data)
  run = runs.read(folder, 'broken')
  assert any(problem in each for each in run.problems), run.problems


def test_a_run_that_has_not_ended_says_how_far_it_came(write_run):
  folder = write_run('stopped')
  (folder / 'results.json').unlink()
  run = runs.read(folder, 'stopped')
  assert not run.is_finished
  assert 'it has not ended: 4 of 4 rounds' in run.problems[0]


def test_folders_are_searched_and_nothing_is_found_twice(
  write_run, write_attack, tmp_path
):
  write_run('study/a')
  write_run('study/b')
  write_run('other/a')
  write_run('study/a/checkpoints/inner')
  write_attack({'fed_avg': [0.5]})
  (tmp_path / 'study' / 'table.md').write_text('# Table')
  (tmp_path / 'study' / 'table.csv').touch()
  (tmp_path / 'study' / 'notes.md').touch()
  found = folders.search([tmp_path / 'study', tmp_path, tmp_path / 'study' / 'a'])
  assert [run.name for run in found.runs] == ['study/a', 'b', 'other/a']
  assert [board.name for board in found.scoreboards] == ['imdb']
  assert [(page.name, page.text) for page in found.summaries] == [('study', '# Table')]


def test_a_summary_that_cannot_be_read_says_so(write_run, tmp_path):
  write_run('study/a')
  (tmp_path / 'study' / 'table.md').write_bytes(b'\xff')
  (tmp_path / 'study' / 'table.csv').touch()
  (page,) = folders.search([tmp_path]).summaries
  assert page.text.startswith('table.md cannot be read')


def test_a_missing_or_empty_folder_is_refused(tmp_path):
  with pytest.raises(folders.ReportError, match='nowhere: there is no such folder'):
    folders.search([pathlib.Path('nowhere')])
  with pytest.raises(folders.ReportError, match='there is no run'):
    folders.search([tmp_path])


def test_a_broken_attack_becomes_a_sentence(write_attack):
  folder = write_attack({'fed_avg': [0.5]})
  for content in ('{', '{"task": 1}', '{}', '{"task": 1, "rows": 3}'):
    (folder / 'attack.json').write_text(content)
    (board,) = folders.search([folder]).scoreboards
    assert board.problem, content
  (folder / 'attack.json').unlink()
  (folder / 'attack.csv').touch()
  (board,) = folders.search([folder]).scoreboards
  assert board.problem == 'it has no attack.json; repeating the attack writes one'
