"""The benchmark of noise runs, and its report has the times of both."""

import json

from benchmarks import noise


def test_the_report_holds_the_times_of_both(tmp_path, capsys):
  output = tmp_path / 'noise.json'
  assert noise.main(noise.NoiseSettings(quick=True, output=str(output))) == 0
  report = json.loads(output.read_text())
  assert list(report) == ['2000']
  assert list(report['2000']) == ['whole numbers', 'floating point']
  assert all(len(seconds) == 1 for seconds in report['2000'].values())
  assert '2,000 weights' in capsys.readouterr().out
