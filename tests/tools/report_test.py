"""The command that writes a report."""

import json

import pytest

from tff_textpriv import flags
from tff_textpriv.tools import report


def _run(*argv):
  groups = [flags.Group('Report', report.ReportSettings)]
  return report.main(flags.make(report.ReportSettings, flags.parse(argv, groups)))


def test_folders_become_one_page_and_what_is_broken_is_named(tmp_path, capsys):
  for name in ('a', 'b'):
    (tmp_path / name).mkdir()
    (tmp_path / name / 'config.json').write_text(json.dumps({'task': 'imdb'}))
  (tmp_path / 'b' / 'results.json').write_text('{"test_auc": 0.5}')
  (tmp_path / 'b' / 'privacy_card.json').write_text('{"headline": "None"}')
  (tmp_path / 'attack').mkdir()
  (tmp_path / 'attack' / 'attack.csv').touch()
  output = tmp_path / 'page.html'
  folders = [str(tmp_path / name) for name in ('a', 'b', 'attack')]
  assert _run(*folders, f'--output={output}') == 0
  assert 'test auc' in output.read_text()
  said = capsys.readouterr().out
  assert 'note: a: it has not ended: 0 of ? rounds' in said
  assert 'note: attack: it has no attack.json' in said
  assert 'note: b:' not in said
  assert f'written: {output} (' in said
  assert '2 runs, 1 scoreboard of attacks' in said


def test_folders_must_be_given():
  with pytest.raises(flags.UsageError, match='<folders...> is missing'):
    _run()
