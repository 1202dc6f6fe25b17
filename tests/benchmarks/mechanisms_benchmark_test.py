"""The benchmark of mechanisms runs, and its report has the times of all of them."""

import json

import pytest

from benchmarks import mechanisms


@pytest.mark.slow
def test_the_report_holds_the_times_of_all_mechanisms(tmp_path, capsys):
  output = tmp_path / 'mechanisms.json'
  settings = mechanisms.MechanismsSettings(quick=True, output=str(output))
  assert mechanisms.main(settings) == 0
  (seconds,) = json.loads(output.read_text()).values()
  assert {'fed_avg', 'dp_fed_avg', 'dp_ftrl, blt', 'dp_ftrl, tree'} < set(seconds)
  assert any(name.startswith('distributed') for name in seconds)
  assert all(len(own) == 1 and own[0] > 0 for own in seconds.values())
  assert 'over DP-FedAvg' in capsys.readouterr().out
