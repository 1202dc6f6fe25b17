"""Attentive aggregation: its arithmetic, from first principles, and its safety."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import attentive
from tff_textpriv.runtime.execution import execution

_SHAPES = ((3, 2), (4,))
_SIZES = (6, 4)
_ROOT_N = np.sqrt(10)
_UPDATE_TYPE = tff.to_type(tuple((np.float32, shape) for shape in _SHAPES))
_VALUE_TYPE = tff.to_type(
  collections.OrderedDict(update=_UPDATE_TYPE, products=(np.float32, [2]))
)


def _tensors(vector) -> tuple[np.ndarray, ...]:
  parts = np.split(np.asarray(vector, np.float32), [6])
  return tuple(p.reshape(s) for p, s in zip(parts, _SHAPES, strict=True))


def _flat(tensors) -> np.ndarray:
  return np.concatenate([np.ravel(tensor) for tensor in tensors]).astype(np.float64)


def _process(attention, granularity='model', step='gradient', **options):
  factory = attentive.AttentiveFactory(attention, granularity, step, **options)
  return factory.create(_VALUE_TYPE, tff.TensorType(np.float32))


def _values(theta, updates):
  return [attentive.client_value(_tensors(theta), _tensors(v)) for v in updates]


def _run(process, theta, updates, weights=None, rounds=1):
  """Returns the whole step, the theta of `shrinkage` included, and measurements.

  They are those of the last round; a rule may remember the ones before.
  """
  weights = np.ones(len(updates), np.float32) if weights is None else weights
  state = process.initialize()
  for _ in range(rounds):
    output = process.next(state, _values(theta, updates), list(weights))
    state = output.state
  shrinkage = np.repeat(output.result['shrinkage'], _SIZES)
  step = _flat(output.result['gradient']) + shrinkage * np.asarray(theta)
  return step, output.measurements


def _example(num_clients=5, seed=0, scale=1.0):
  rng = np.random.default_rng(seed)
  theta = rng.normal(size=10).astype(np.float32)
  return theta, (scale * rng.normal(size=(num_clients, 10))).astype(np.float32)


def _softmax(scores):
  powers = np.exp(scores - np.max(scores))
  return powers / powers.sum()


def _algorithm_3(theta, updates) -> np.ndarray:
  """Computes what Algorithm 3 prints, line by line."""
  root_n = np.sqrt(len(theta))
  theta, clients = theta.astype(np.float64), (theta - updates).astype(np.float64)
  attention = _softmax(clients @ theta / root_n)
  gradient = np.zeros(len(theta))
  for a_k, theta_k in zip(attention, clients, strict=True):
    d_k = np.sum((theta - theta_k) ** 2)  # Line 7.
    grad_a_k = a_k / root_n * theta_k  # Line 10.
    grad_d_k = np.sum(
      [2 * (theta - theta_j) for theta_j in clients], axis=0
    )  # Line 11.
    gradient += 1 / a_k * grad_a_k + 1 / d_k * grad_d_k  # Line 12.
  return gradient


def _autodiff(theta, updates) -> np.ndarray:
  """Differentiates L' = sum log a_k + log d_k, with the clients' models held fixed."""
  clients = tf.constant(theta[np.newaxis] - updates, tf.float64)
  point = tf.constant(theta, tf.float64)
  with tf.GradientTape() as tape:
    tape.watch(point)
    scores = tf.linalg.matvec(clients, point) / np.sqrt(len(theta))
    distances = tf.reduce_sum(tf.square(point - clients), axis=1)
    loss = tf.reduce_sum(tf.nn.log_softmax(scores) + tf.math.log(distances))
  return tape.gradient(loss, point).numpy()


def test_exact_is_the_gradient_of_the_loss_and_paper_is_not(tff_runtime):
  theta, updates = _example()
  expected = _autodiff(theta, updates)
  exact, _ = _run(_process('exact'), theta, updates)
  np.testing.assert_allclose(exact, expected, rtol=1e-5, atol=1e-6)
  paper, _ = _run(_process('paper'), theta, updates)
  assert np.abs(paper - expected).max() > 0.1


def test_paper_is_what_algorithm_3_computes_line_by_line(tff_runtime):
  theta, updates = _example(seed=1)
  expected = _algorithm_3(theta, updates)
  step, _ = _run(_process('paper'), theta, updates)
  np.testing.assert_allclose(step, expected, rtol=1e-5, atol=1e-5)
  # But for terms in 1 / sqrt(n), a relative step of 1 is the sum of all updates.
  relative, _ = _run(_process('paper', step='relative'), theta, updates)
  pull = np.sum(2 / np.sum(updates**2, axis=1))
  np.testing.assert_allclose(relative, expected / pull, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('temperature', [0.5, 1.0, 20.0])
def test_loss_is_the_gradient_of_equation_1(tff_runtime, temperature):
  theta, updates = _example(seed=10)
  clients = tf.constant(theta[np.newaxis] - updates, tf.float64)
  point = tf.constant(theta, tf.float64)
  with tf.GradientTape() as tape:
    tape.watch(point)
    scores = tf.linalg.matvec(clients, point) / (temperature * np.sqrt(10))
    distances = tf.reduce_sum(tf.square(point - clients), axis=1)
    loss = tf.reduce_sum(tf.nn.softmax(scores) * distances)
  expected = tape.gradient(loss, point).numpy()
  step, _ = _run(_process('loss', temperature=temperature), theta, updates)
  np.testing.assert_allclose(step, expected, rtol=1e-4, atol=1e-5)
  # With a high temperature all clients count alike.
  if temperature > 10:
    np.testing.assert_allclose(step / 2, updates.mean(axis=0), atol=0.5)


def test_layerwise_weighs_each_tensor_by_the_softmax_of_its_distances(tff_runtime):
  theta, updates = _example(seed=2)
  expected = []
  for part in (slice(0, 6), slice(6, 10)):
    weights = _softmax(np.linalg.norm(updates[:, part], axis=1))
    expected.append(weights @ updates[:, part])
  step, measured = _run(_process('layerwise', 'layer'), theta, updates)
  np.testing.assert_allclose(step, np.concatenate(expected), rtol=1e-5, atol=1e-6)
  whole, _ = _run(_process('layerwise', 'model'), theta, updates)
  weights = _softmax(np.linalg.norm(updates, axis=1))
  np.testing.assert_allclose(whole, weights @ updates, rtol=1e-5, atol=1e-6)
  assert 'distance_weight_max' not in measured


@pytest.mark.parametrize('attention', ['paper', 'exact'])
def test_by_layers_every_tensor_is_a_model_of_its_own(tff_runtime, attention):
  theta, updates = _example(seed=3)
  step, _ = _run(_process(attention, 'layer'), theta, updates)
  for part in (slice(0, 6), slice(6, 10)):
    of_rule = _autodiff if attention == 'exact' else _algorithm_3
    expected = of_rule(theta[part], updates[:, part])
    np.testing.assert_allclose(step[part], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize('granularity', attentive.GRANULARITIES)
@pytest.mark.parametrize('num_clients', [1, 2, 7])
def test_equal_clients_give_the_plain_mean(tff_runtime, granularity, num_clients):
  theta, (update,) = _example(1, seed=4)
  updates = np.tile(update, (num_clients, 1))
  for attention in ('exact', 'smoothed', 'loss', 'layerwise', 'uniform'):
    step, measured = _run(_process(attention, granularity, 'relative'), theta, updates)
    np.testing.assert_allclose(step, update, rtol=1e-5)
    assert measured['attention_entropy'] == pytest.approx(np.log(num_clients), abs=1e-5)
    assert measured['attention_max'] == pytest.approx(1 / num_clients)
  # The gradient of m equal clients is m times that of one: 2 m v / d.
  raw, _ = _run(_process('exact', granularity), theta, updates)
  units = [slice(0, 10)] if granularity == 'model' else [slice(0, 6), slice(6, 10)]
  paper, _ = _run(_process('paper', granularity, 'relative'), theta, updates)
  for part in units:
    d = np.sum(update[part] ** 2)
    np.testing.assert_allclose(
      raw[part], 2 * num_clients * update[part] / d, rtol=1e-4, atol=1e-5
    )
    # As printed even equal clients do not give their mean: the step is their sum, and
    # goes from each client's model towards the origin, too.
    pull_to_origin = (theta - update)[part] * d / 2 / np.sqrt(len(update[part]))
    np.testing.assert_allclose(
      paper[part], num_clients * update[part] + pull_to_origin, rtol=1e-4, atol=1e-5
    )


def test_how_each_rule_weighs_a_client_that_is_far_away(tff_runtime):
  # Two clients at distance 1 and one at distance 10, each along an axis of its own, so
  # that a coordinate of the step over the client's distance is its weight.
  theta = np.zeros(10, np.float32)
  distances = np.array([1.0, 1.0, 10.0])
  updates = np.eye(3, 10) * distances[:, np.newaxis]

  def weights(attention):
    step, measured = _run(_process(attention, 'model', 'relative'), theta, updates)
    return step[:3] / distances, measured

  # Softmax of distances: exp(10) / (2 exp(1) + exp(10)) = 0.99975.
  layerwise, measured = weights('layerwise')
  np.testing.assert_allclose(layerwise, [1.234e-4, 1.234e-4, 0.999753], rtol=1e-3)
  assert measured['attention_max'] == pytest.approx(0.999753, rel=1e-5)
  # Inverse squares: 1/100 of a near client's pull, 0.01 / 2.01 = 0.00498. Seen from the
  # origin all scores are 0, and m / sqrt(n) sum a_k v_k cancels sum v_k / sqrt(n).
  exact, measured = weights('exact')
  np.testing.assert_allclose(exact, [1 / 2.01, 1 / 2.01, 0.01 / 2.01], rtol=1e-5)
  assert measured['distance_weight_max'] == pytest.approx(1 / 2.01)
  assert measured['attention_max'] == pytest.approx(1 / 3)
  # As printed all count alike, near or far: 1, but for 1 / sqrt(n) over sum 2 / d = 4.02.
  paper, measured = weights('paper')
  np.testing.assert_allclose(paper, [1 - 1 / (4.02 * _ROOT_N)] * 3, rtol=1e-5)
  assert 'distance_weight_max' not in measured
  # Eq. 1's own gradient weighs by 2 a_k, and a = 1/3 at the origin; then clients whose
  # distance is above the mean, 34, lose by (d_k - 34) / (3 sqrt(n)).
  loss, _ = weights('loss')
  expected = (2 - (distances**2 - 34) / _ROOT_N) / 6
  np.testing.assert_allclose(loss, expected, rtol=1e-5)


def _cohort(**changed):
  """Updates of eight clients that go much the same way; some are multiplied."""
  rng = np.random.default_rng(12)
  updates = 1.0 + 0.1 * rng.normal(size=(8, 10))
  for number, factor in changed.values():
    updates[number] *= factor
  return np.zeros(10, np.float32), updates.astype(np.float32)


def _progress(process, theta, updates, weights=None):
  """Returns how far the step goes the way of the clients, in units of their own; from 0 on."""
  step, measured = _run(process, theta, updates, weights, rounds=2)
  return np.mean(step), measured


@pytest.mark.parametrize('distance', attentive.DISTANCES)
def test_an_idle_client_does_not_stop_smoothed_and_stops_exact(tff_runtime, distance):
  theta, updates = _cohort(idle=(3, 1e-4))
  exact, _ = _progress(_process('exact', step='relative'), theta, updates)
  assert exact < 1e-3  # What the rule is there to mend.
  smoothed, measured = _progress(
    _process('smoothed', distance=distance), theta, updates
  )
  # The idle client counts 1 and each other one 1 / 2, but for the width of a bin, a
  # factor of at most sqrt(2) in distance: 7 w / (7 w + 1) with w from 0.41 to 0.59. From
  # the centre it is no nearer than the others, and counts less than they do.
  low, high = (0.74, 0.81) if distance != 'from_centre' else (0.95, 1.05)
  assert low < smoothed < high
  assert measured['distance_weight_max'] < 0.3


@pytest.mark.parametrize('distance', attentive.DISTANCES)
def test_a_huge_client_does_not_carry_smoothed_away(tff_runtime, distance):
  theta, updates = _cohort(huge=(3, 1000.0))
  mean, _ = _progress(_process('uniform'), theta, updates)
  assert mean > 100
  smoothed, _ = _progress(_process('smoothed', distance=distance), theta, updates)
  # It counts R / (R + 10^6 r) of the usual 1 / 2: 10^-6 w 10^3.
  assert 0.95 < smoothed < 1.05


def test_a_client_that_worked_more_counts_as_far_for_its_work(tff_runtime):
  theta, updates = _cohort(busy=(3, 10.0))
  work = np.ones(8, np.float32)
  work[3] = 10.0
  by_work, _ = _progress(_process('smoothed'), theta, updates, work)
  # All count alike: (7 + 10) / 8.
  assert by_work == pytest.approx(17 / 8, rel=0.05)
  other = _process('smoothed', distance='from_server')
  from_server, _ = _progress(other, theta, updates, work)
  # It counts 1 / 101 and the others 1 / 2: (7 / 2 + 10 / 101) / (7 / 2 + 1 / 101).
  assert from_server == pytest.approx(1.025, abs=0.05)


def test_smoothed_weights_are_as_written_down(tff_runtime):
  theta, updates = np.zeros(10, np.float32), np.diag(np.arange(1.0, 10.0))
  updates = np.pad(updates, [(0, 0), (0, 1)])
  process = _process('smoothed', distance='from_server', smoothing=0.25)
  # Nothing is known of distances in the first round: the plain mean.
  first, measured = _run(process, theta, updates)
  np.testing.assert_allclose(first, updates.mean(axis=0), rtol=1e-5)
  assert measured['distance_weight_max'] == pytest.approx(1 / 9)
  # The median of 1, 4, ..., 81 is 25, in the bin from 2^4.5 to 2^5.
  usual = 2.0**4.75
  weights = 1 / (1 + np.arange(1.0, 10.0) ** 2 / (0.25 * usual))
  second, measured = _run(process, theta, updates, rounds=2)
  np.testing.assert_allclose(
    second, weights @ updates / weights.sum(), rtol=1e-5, atol=1e-7
  )
  assert measured['distance_weight_max'] == pytest.approx(weights[0] / weights.sum())


def test_uniform_attention_is_the_mean(tff_runtime):
  theta, updates = _example(seed=9)
  step, measured = _run(_process('uniform'), theta, updates)
  np.testing.assert_allclose(step, updates.mean(axis=0), rtol=1e-5, atol=1e-6)
  assert measured['attention_max'] == pytest.approx(1 / 5)


def test_attention_follows_the_alignment_with_the_server_model(tff_runtime):
  theta = np.full(10, 3.0, np.float32)
  # theta_k = theta - v_k: the first client grew, the second shrank, by the same length.
  updates = np.stack([np.full(10, -0.5), np.full(10, 0.5)]).astype(np.float32)
  scores = (theta - updates) @ theta / _ROOT_N
  attention = _softmax(scores)
  step, measured = _run(_process('exact'), theta, updates)
  assert attention[0] > 0.99
  assert measured['attention_max'] == pytest.approx(attention[0], rel=1e-4)
  entropy = -np.sum(attention * np.log(attention))
  assert measured['attention_entropy'] == pytest.approx(entropy, rel=1e-3)
  # Opposite updates of one length leave only the term of the attention.
  np.testing.assert_allclose(
    step, 2 / _ROOT_N * (attention @ updates), rtol=1e-4, atol=1e-6
  )


@pytest.mark.parametrize('attention', attentive.ATTENTIONS)
@pytest.mark.parametrize('granularity', attentive.GRANULARITIES)
@pytest.mark.parametrize('step', attentive.STEPS)
def test_no_distance_and_no_norm_breaks_it(tff_runtime, attention, granularity, step):
  theta, (update, *_) = _example(seed=5)
  process = _process(attention, granularity, step)
  for scale in (0.0, 1e-30, 1e-18, 1e-6, 1e5):
    updates = np.stack([update, scale * update, scale * update[::-1]])
    result, measured = _run(process, theta, updates)
    assert np.isfinite(result).all(), scale
    assert all(np.isfinite(value) for value in measured.values()), scale
    assert measured['attended_clients'] == 3
  # Scores of 1e5 would overflow exp. Here they decide: the two farthest clients share
  # all attention, or one of them has it.
  if attention == 'layerwise':
    assert measured['attention_max'] in (0.5, 1.0)
    assert measured['attention_entropy'] <= np.log(2) + 1e-6


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize('attention', attentive.ATTENTIONS)
def test_clients_that_are_not_finite_are_left_out_and_counted(
  tff_runtime, attention, bad
):
  theta, updates = _example(seed=6)
  broken = updates.copy()
  broken[2, 7] = bad
  process = _process(attention, 'layer')
  expected, _ = _run(process, theta, np.delete(updates, 2, axis=0))
  step, measured = _run(process, theta, broken)
  np.testing.assert_allclose(step, expected, rtol=1e-5, atol=1e-6)
  assert measured['left_out_clients'] == 1 and measured['attended_clients'] == 4
  # So is a client whose weight is 0, which is how client work marks its failure.
  step, measured = _run(process, theta, updates, np.float32([1, 1, 0, 1, 1]))
  np.testing.assert_allclose(step, expected, rtol=1e-5, atol=1e-6)
  assert measured['left_out_clients'] == 1


@pytest.mark.parametrize('attention', attentive.ATTENTIONS)
def test_a_cohort_of_nobody_is_no_step(tff_runtime, attention):
  step, measured = _run(_process(attention), _example()[0], [])
  np.testing.assert_array_equal(step, np.zeros(10))
  assert measured['attention_entropy'] == measured['attention_max'] == 0


def test_two_workers_give_the_same_step_as_one(tmp_path):
  # Scores that differ by hundreds: parts of the cohort have very different peaks.
  theta, updates = _example(9, seed=7, scale=40.0)
  processes = [
    _process('paper', 'model', 'gradient'),
    _process('exact', 'layer', 'relative'),
    _process('layerwise', 'layer'),
    _process('smoothed', 'layer'),
  ]
  with execution(log_dir=tmp_path):
    one = [_run(process, theta, updates, rounds=2) for process in processes]
  with execution(num_workers=2, log_dir=tmp_path):
    two = [_run(process, theta, updates, rounds=2) for process in processes]
  for (step, measured), (other, other_measured) in zip(one, two, strict=True):
    np.testing.assert_allclose(other, step, rtol=1e-5, atol=1e-5)
    for name, value in measured.items():
      assert other_measured[name] == pytest.approx(float(value), abs=1e-5), name


def test_a_softmax_without_a_running_peak_would_be_caught(tff_runtime):
  theta, updates = _example(4, seed=8, scale=100.0)
  weights = _softmax(np.linalg.norm(updates.astype(np.float64), axis=1))
  step, _ = _run(_process('layerwise'), theta, updates)
  np.testing.assert_allclose(step, weights @ updates, rtol=1e-4)
  with np.errstate(over='ignore', invalid='ignore'):
    naive = np.exp(np.linalg.norm(updates, axis=1))  # The broken twin.
    assert not np.isfinite(naive / naive.sum()).all()


def test_the_aggregate_says_what_to_do_with_the_model():
  result = _process('exact').next.type_signature.result.result.member
  assert result['gradient'] == _UPDATE_TYPE
  assert str(result['shrinkage']) == 'float32[2]'
  with pytest.raises(ValueError, match='none of exact, smoothed'):
    attentive.AttentiveFactory('softmax')
