"""The measurements of scale: sizes, bytes, memory, and the fit of the cost."""

import json
import os

import numpy as np
import pytest
import tensorflow_federated as tff

from benchmarks import cost_model, memory, scale, wire
from benchmarks.contenders import ours
from tff_textpriv.models import recurrent_lm
from tff_textpriv.runtime import spread


@pytest.fixture(scope='module')
def process():
  model = recurrent_lm.LstmLanguageModel(50, 8, 8, 1, tied=False)
  weights = model.initial_weights(0)
  return model, ours.build_process(model, weights, ours.gaussian(3))


def test_a_type_has_the_bytes_of_its_tensors_and_clients_data_none():
  state = tff.StructType([('a', tff.TensorType(np.float32, [3, 4])), np.int64])
  argument = tff.StructType(
    [
      tff.FederatedType(state, tff.SERVER),
      tff.FederatedType(tff.TensorType(np.int32, [None]), tff.CLIENTS),
    ]
  )
  assert spread.type_bytes(argument) == 3 * 4 * 4 + 8


def test_a_round_sends_the_model_down_and_an_update_up(process):
  model, learning_process = process
  size = 4 * model.num_parameters
  alone = wire.round_bytes(learning_process, 1)
  assert alone.model == size
  # What is uploaded beside the update, such as metrics, is small.
  assert size <= alone.update < size + 200
  assert size <= alone.to_workers < size + 200
  assert size <= alone.from_workers < size + 200


def test_several_workers_exchange_partial_sums(process):
  _, learning_process = process
  one, two, three = (wire.round_bytes(learning_process, n) for n in (1, 2, 3))
  assert two.update == one.update
  state, partial = one.to_workers, one.update
  assert two.to_workers == 2 * state + 2 * partial + state + partial
  assert two.from_workers == 2 * partial + partial + one.from_workers
  assert three.to_workers - two.to_workers == state + 2 * partial
  assert three.from_workers - two.from_workers == 2 * partial


def _points(seconds_per):
  shapes = [
    (clients, parameters, clients * steps, clients * steps * 320)
    for clients in (5, 50)
    for parameters in (10_000, 1_000_000, 10_000_000)
    for steps in (1, 6)
  ]
  for shape in shapes:
    point = cost_model.Point(*shape, 0.0)
    seconds = sum(seconds_per[name] * part for name, part in point.parts.items())
    yield cost_model.Point(*shape, seconds)


def test_the_fit_finds_the_cost_that_points_were_made_of():
  costs = (0.2, 0.01, 0.02, 0.004, 0.3)
  expected = dict(zip(cost_model.Point(1, 1, 1, 1, 1.0).parts, costs, strict=True))
  fit = cost_model.fit(list(_points(expected)))
  assert fit.seconds_per == pytest.approx(expected, rel=1e-4)
  assert fit.worst_error < 1e-4
  # 0.2 + 7 * 0.01 + 7 * 2 * 0.02 + 21 * 0.004 + 6.72 * 2 * 0.3
  assert fit.predict(7, 2_000_000, 21, 6720) == pytest.approx(4.666, rel=1e-3)


def test_a_peak_of_memory_is_seen_and_can_be_reset():
  here = os.getpid()
  array = np.ones(2**25)  # 256 MiB.
  assert memory.resident(here) > array.nbytes
  before = memory.peak(here)
  del array
  memory.reset_peak([here])
  assert memory.peak(here) < before - 2**27


@pytest.mark.slow
def test_a_quick_run_measures_generated_clients_and_a_population(tmp_path, capsys):
  settings = scale.ScaleSettings(
    parts=('clients', 'population'),
    folder=str(tmp_path / 'users'),
    output=str(tmp_path / 'scale.json'),
    quick=True,
  )
  assert scale.main(settings) == 0
  results = json.loads((tmp_path / 'scale.json').read_text())
  assert [r['clients'] for r in results] == [4, 12, 20]
  assert [r['steps'] for r in results[:2]] == [8, 24]
  assert results[0]['tokens'] == 4 * 32 * 20
  assert results[0]['bytes_of_data'] == 2 * 4 * 4 * 32 * 20
  for result in results:
    assert result['seconds'] > result['seconds_of_preparing'] > 0
    assert result['peak_bytes_workers'][0] > 2**25
  assert 'population' in capsys.readouterr().out
