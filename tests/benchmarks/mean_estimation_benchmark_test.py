"""The benchmark of mean estimation runs, and its errors are those of the mechanisms' laws."""

import json

import pytest

from benchmarks import mean_estimation


def test_errors_are_those_of_the_laws_and_the_picture_has_all_mechanisms(
  tmp_path, capsys
):
  output, picture = tmp_path / 'errors.json', tmp_path / 'errors.svg'
  settings = mean_estimation.MeanEstimationSettings(
    quick=True, output=str(output), picture=str(picture)
  )
  assert mean_estimation.main(settings) == 0
  rows = {
    (row['dimension'], row['epsilon'], row['mechanism']): row
    for row in json.loads(output.read_text())
  }
  assert len(rows) == 2 * 2 * 5
  for (dimension, epsilon, name), row in rows.items():
    chosen = mean_estimation._contenders(dimension, epsilon)[name].chosen
    if name == 'PrivUnitG':
      law = chosen.response
      expected = (dimension - law.gain**2 + law.mean_square) / law.gain**2
    elif name == 'Gaussian':
      expected = dimension * chosen.stddev**2
    elif name == 'SQKR':
      expected = dimension * chosen.noise**2 - 1
    else:
      expected = dimension * (chosen.noise * chosen.bound) ** 2 - 1
    assert row['error'] == pytest.approx(
      expected, rel=0.3, abs=6 * row['standard_error']
    )
  # The best at every dimension and epsilon is PrivUnitG.
  for dimension, epsilon, _ in rows:
    best = min(
      (row for key, row in rows.items() if key[:2] == (dimension, epsilon)),
      key=lambda row: row['error'],
    )
    assert best['mechanism'] == 'PrivUnitG'
  assert 'PrivUnitG, d = 50' in picture.read_text()
  assert 'few bits' in capsys.readouterr().out
