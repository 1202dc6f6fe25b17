"""The hashing benchmark runs, and its report says what was measured."""

import json

from benchmarks import hashing


def test_the_report_holds_the_times_of_both_and_their_ratio(tmp_path, capsys):
  output = tmp_path / 'hashing.json'
  settings = hashing.HashingSettings(quick=True, output=str(output))
  code = hashing.main(settings)
  report = json.loads(output.read_text())
  assert report['num_texts'] == 500
  ours, theirs = report['seconds'].values()
  assert report['ratio'] == ours[0] / theirs[0]
  assert code == (report['ratio'] > 1)
  assert 'ours over scikit-learn' in capsys.readouterr().out
