"""The clipping of gradients, for every algorithm that trains on the device."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.datasets import batching
from tff_textpriv.iterative_processes import learning_model, optimizers, registry
from tff_textpriv.models import language_models

_MODEL = language_models.LstmLanguageModel(30, 8, 8, 1, tied=False)
_WEIGHTS = _MODEL.initial_weights(0)
_STEP, _CLIP = 2.0, 0.01


def _has(algorithm, name):
  return name in {field.name for field in dataclasses.fields(algorithm.settings)}


_CLIPPING = [
  name
  for name, algorithm in registry.ALGORITHMS.items()
  if _has(algorithm, 'client_clip_norm')
]


def test_whoever_takes_steps_on_the_device_can_clip_their_gradients():
  steps = {name for name, a in registry.ALGORITHMS.items() if a.name != 'fed_sgd'}
  assert steps == set(_CLIPPING)


@pytest.mark.parametrize(
  'name',
  [
    name
    for name in _CLIPPING
    if 'language_model' in registry.ALGORITHMS[name].kinds and name != 'lg_fedavg'
  ],
)
def test_one_step_goes_no_further_than_its_clipped_gradient(name):
  algorithm = registry.ALGORITHMS[name]
  settings = algorithm.settings(client_learning_rate=_STEP, client_clip_norm=_CLIP)
  if hasattr(settings, 'client_optimizer'):
    settings = dataclasses.replace(settings, client_optimizer='sgd')
  if name == 'fede_vocab':  # Adaptation would be a step of its own.
    settings = dataclasses.replace(settings, adaptive_updating=False)
  model = learning_model.from_language_model(_MODEL, _WEIGHTS)
  rng = np.random.default_rng(0)
  rows = [rng.integers(4, 30, 9).astype(np.int32) for _ in range(4)]
  _, trained = algorithm.client(model, settings).answer(_WEIGHTS, [batching.pad(rows)])
  moved = [after - before for before, after in zip(_WEIGHTS, trained, strict=True)]
  # The table and the rest have an optimizer each there.
  parts = [moved[:1], moved[1:]] if name == 'fede_vocab' else [moved]
  lengths = [float(tf.linalg.global_norm(part)) for part in parts]
  # The gradient is longer than the clip norm, so that the step has just that length.
  assert max(lengths) == pytest.approx(_STEP * _CLIP, rel=1e-3)


def test_the_norm_is_that_of_all_tensors_and_shorter_gradients_stay_as_they_are():
  sgd = tff.learning.optimizers.build_sgdm(1.0)
  optimizer = optimizers.clipped(sgd, 1.0)
  weights = (tf.zeros([2]), tf.zeros([]))
  state = optimizer.initialize(tuple(tf.TensorSpec(w.shape) for w in weights))
  _, after = optimizer.next(state, weights, (tf.constant([6.0, 0.0]), tf.constant(8.0)))
  np.testing.assert_allclose(after[0], [-0.6, 0.0], rtol=1e-6)
  np.testing.assert_allclose(after[1], -0.8, rtol=1e-6)
  _, after = optimizer.next(state, weights, (tf.constant([0.3, 0.0]), tf.constant(0.4)))
  np.testing.assert_allclose(after[1], -0.4, rtol=1e-6)
  assert optimizers.clipped(sgd, None) is sgd


@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_not_made_so(bad):
  """What is wrong must be seen, and left out, where updates are checked."""
  optimizer = optimizers.clipped(tff.learning.optimizers.build_sgdm(1.0), 1.0)
  weights = (tf.zeros([2]),)
  state = optimizer.initialize((tf.TensorSpec([2]),))
  _, (after,) = optimizer.next(state, weights, (tf.constant([bad, 1.0]),))
  assert not np.isfinite(after.numpy()).all()
