"""The benchmarks of what stands around a round, and of all methods' rounds."""

import json

import pytest

from benchmarks import methods, pipeline


@pytest.mark.slow
def test_rates_of_encoding_batches_evaluation_and_sampling(tmp_path, capsys):
  output = tmp_path / 'pipeline.json'
  pipeline.main(pipeline.PipelineSettings(quick=True, output=str(output)))
  report = {result['name']: result for result in json.loads(output.read_text())}
  assert list(report) == ['encoding', 'batches', 'evaluation', 'sampling']
  assert all(len(result['seconds']['ours']) == 1 for result in report.values())
  # The same posts are cut into batches and evaluated.
  assert report['batches']['work'] == report['evaluation']['work'] > 0
  assert 0 < report['sampling']['work'] <= 256 * 32
  assert len(capsys.readouterr().out.splitlines()) == 6


@pytest.mark.slow
def test_rounds_of_methods_are_timed_beside_federated_averaging(tmp_path, capsys):
  output = tmp_path / 'methods.json'
  methods.main(methods.MethodsSettings(quick=True, output=str(output)))
  (seconds,) = json.loads(output.read_text()).values()
  assert list(seconds) == ['fed_avg', 'fede_vocab']
  # The first round, which compiles, is not counted.
  assert all(len(times) == 1 for times in seconds.values())
  assert 'over FedAvg' in capsys.readouterr().out
