"""What clients send under each algorithm is what their processes would send."""

import collections

import numpy as np
import pytest
import tensorflow as tf
from sample_plan import NO_MECHANISM

from tff_textpriv.attacks import federation, observations, rounds
from tff_textpriv.iterative_processes import (
  classification_model,
  dp_fed_avg,
  fed_att,
  fed_avg,
  fed_prox,
  fed_recon,
  fede_vocab,
  registry,
  rr_ldp,
)
from tff_textpriv.models import sequence_classifiers
from tff_textpriv.privacy import central_settings, local_gaussian, randomized_bits
from tff_textpriv.privacy.mechanism import Deployment

_MODEL = sequence_classifiers.BiLstmClassifier(
  30, 0, 3, embedding_size=4, dropout=0.0, units=5
)
_WEIGHTS = _MODEL.initial_weights(0)
_SEED = np.array([5, 6], np.int64)


def _batch(ids=((3, 7, 30), (9, 1, 2)), labels=(2, 0)):
  inputs = collections.OrderedDict(
    dense=np.zeros((len(ids), 0), np.float32),
    dropout_seed=np.zeros(2, np.int32),
    ids=np.array(ids, np.int32),
    num_examples=np.array(len(ids), np.int32),
  )
  return inputs, np.array(labels, np.int32)


def _observe(algorithm, settings=None, plan=NO_MECHANISM, batches=None, **kwargs):
  chosen = registry.ALGORITHMS[algorithm]
  settings = settings or chosen.settings()
  client = observations.Client(chosen, settings, plan, _MODEL, **kwargs)
  batches = batches or [_batch()]
  return client.observe(_WEIGHTS, rounds.RoundData(batches, batches), _SEED)


def _true_gradients():
  return _observe('fed_sgd').gradients


def _assert_same(some, others, **kwargs):
  for one, other in zip(some, others, strict=True):
    np.testing.assert_allclose(one, other, **kwargs)


def test_one_step_of_sgd_sends_the_gradient():
  settings = fed_avg.FedAvgSettings(client_learning_rate=0.25)
  sent = _observe('fed_avg', settings)
  _assert_same(sent.gradients, _true_gradients(), atol=1e-5)
  moved = np.flatnonzero(np.abs(sent.table_gradient).sum(axis=1))
  np.testing.assert_array_equal(moved, [1, 2, 3, 7, 9])


@pytest.mark.parametrize('optimizer', ['adam', 'adamw'])
def test_the_first_step_of_adam_tells_the_gradient_and_not_only_its_sign(optimizer):
  settings = fed_avg.FedAvgSettings(
    client_optimizer=optimizer, client_learning_rate=0.01
  )
  sent, true = _observe('fed_avg', settings).gradients, _true_gradients()
  for one, other in zip(sent, true, strict=True):
    is_faint = (np.abs(other) < 1e-3) & (np.abs(other) > 1e-5)
    np.testing.assert_allclose(one[is_faint], other[is_faint], rtol=0.02)
    np.testing.assert_array_equal(np.sign(one)[is_faint], np.sign(other)[is_faint])


def test_the_proximal_term_does_not_pull_in_the_first_step():
  settings = fed_prox.FedProxSettings(client_learning_rate=0.25)
  sent = _observe('fed_prox', settings).gradients
  _assert_same(sent, _true_gradients(), atol=1e-5)


def test_private_vocabularies_send_no_embedding_and_the_gradient_of_the_rest():
  settings = fede_vocab.FedeVocabSettings(
    client_optimizer='sgd', client_learning_rate=0.25, adaptive_updating=False
  )
  sent = _observe('fede_vocab', settings)
  assert sent.table_gradient is None
  _assert_same(sent.shared_gradients, _true_gradients()[1:], atol=1e-5)
  assert np.abs(sent.table - _WEIGHTS[0]).max() > 0


def test_adaptive_updating_changes_what_is_sent():
  chosen = {'client_optimizer': 'sgd', 'client_learning_rate': 0.25}
  with_it, without = (
    _observe(
      'fede_vocab',
      fede_vocab.FedeVocabSettings(adaptive_updating=adapts, **chosen),
    ).shared_gradients[0]
    for adapts in (True, False)
  )
  assert np.abs(with_it - without).max() > 1e-5


def test_reconstruction_hides_the_rows_of_private_tokens_only():
  settings = fed_recon.FedReconSettings(
    client_optimizer='sgd', client_learning_rate=0.2
  )
  sent = _observe('fed_recon', settings, num_private=3)
  moved = np.flatnonzero(np.abs(sent.table_gradient).sum(axis=1))
  np.testing.assert_array_equal(moved, [3, 7, 9])  # And not 1 and 2.
  assert sent.table.shape == _WEIGHTS[0].shape
  assert np.abs(sent.table[1] - _WEIGHTS[0][1]).max() > 0


def test_who_trains_alone_sends_nothing():
  assert all(one is None for one in _observe('local_only').gradients)
  assert _observe('local_only').num_bytes == 0


def _dp_plan():
  settings = central_settings.CentralPrivacySettings(noise_multiplier=1.0, clip=0.1)
  return settings.mechanism(Deployment('poisson', 100, 10, rounds=1))


def test_the_server_of_dp_fed_avg_sees_clipped_updates_and_others_see_noise():
  settings = dp_fed_avg.DpFedAvgSettings(client_learning_rate=1.0)
  server = _observe('dp_fed_avg', settings, _dp_plan())
  norm = np.sqrt(sum(np.square(one).sum() for one in server.gradients))
  assert norm == pytest.approx(0.1, rel=1e-4)
  released = _observe('dp_fed_avg', settings, _dp_plan(), view='released')
  noise = np.concatenate(
    [(a - b).ravel() for a, b in zip(released.gradients, server.gradients, strict=True)]
  )
  # Standard deviation 0.1, known within 4 of its standard errors.
  assert np.std(noise) == pytest.approx(0.1, rel=4 / np.sqrt(2 * noise.size))


def test_attentive_clients_add_their_noise_themselves():
  plan = local_gaussian.LocalGaussianSettings(noise_magnitude=0.5).mechanism(
    Deployment('fixed', 1, 1, rounds=1)
  )
  settings = fed_att.FedAttSettings(client_learning_rate=1.0)
  sent = _observe('fed_att', settings, plan).gradients
  noise = np.concatenate(
    [(a - b).ravel() for a, b in zip(sent, _true_gradients(), strict=True)]
  )
  assert np.std(noise) == pytest.approx(0.5, rel=4 / np.sqrt(2 * noise.size))


def test_one_client_s_bits_are_what_the_process_of_rr_ldp_applies(tff_runtime):
  del tff_runtime  # Runs the process.
  settings = rr_ldp.RrLdpSettings()
  plan = randomized_bits.LocalPrivacySettings().mechanism(
    Deployment(
      'fixed',
      population=1,
      cohort=1,
      rounds=1,
      num_coordinates=_MODEL.num_parameters,
      client_step=settings.client_step,
    )
  )
  sent = _observe('rr_ldp', settings, plan).gradients
  process = registry.ALGORITHMS['rr_ldp'].build(
    classification_model.from_classifier(_MODEL, _WEIGHTS), settings, plan
  )
  state = process.initialize()
  state = process.next(state, [([_batch()], [_SEED])]).state
  applied = [
    before - np.asarray(after)
    for before, after in zip(
      _WEIGHTS, process.get_model_weights(state).trainable, strict=True
    )
  ]
  learning_rate = settings.client_learning_rate
  _assert_same([one / learning_rate for one in applied], sent, atol=1e-3)


def test_one_client_s_update_is_what_the_process_of_fed_avg_applies(tff_runtime):
  del tff_runtime  # Runs the process.
  settings = fed_avg.FedAvgSettings(
    client_learning_rate=0.25, server_optimizer='sgd', server_learning_rate=1.0
  )
  batches = [_batch(), _batch(((4, 5, 6), (20, 21, 22)), (1, 1))]
  sent = _observe('fed_avg', settings, batches=batches).gradients
  process = registry.ALGORITHMS['fed_avg'].build(
    classification_model.from_classifier(_MODEL, _WEIGHTS), settings, NO_MECHANISM
  )
  state = process.next(process.initialize(), [batches]).state
  for before, after, gradient in zip(
    _WEIGHTS, process.get_model_weights(state).trainable, sent, strict=True
  ):
    np.testing.assert_allclose(before - after, 0.5 * gradient, atol=1e-5)


_OTHER = _batch(((20, 21, 22),), (1,))


def _federation(algorithm, settings):
  client = observations.Client(
    registry.ALGORITHMS[algorithm], settings, NO_MECHANISM, _MODEL
  )
  return client, federation.Federation(client, _WEIGHTS, num_clients=2)


def _train(trained, times):
  data = [rounds.RoundData([batch], [batch]) for batch in (_batch(), _OTHER)]
  for _ in range(times):
    trained.train(data, [_SEED, _SEED])


def _moved(table):
  return np.flatnonzero(np.abs(table - _WEIGHTS[0]).sum(axis=1)).tolist()


def test_devices_keep_tables_that_only_their_own_texts_have_moved():
  client, trained = _federation('fede_vocab', fede_vocab.FedeVocabSettings())
  _train(trained, 3)
  np.testing.assert_array_equal(trained.weights[0], _WEIGHTS[0])
  assert tf.linalg.global_norm(trained.weights[1:]) != tf.linalg.global_norm(
    _WEIGHTS[1:]
  )
  for device, batch, read in (
    (trained.devices[0], _batch(), [1, 2, 3, 7, 9]),
    (trained.devices[1], _OTHER, [20, 21, 22]),
  ):
    data = rounds.RoundData([batch], [batch])
    old = client.observe(trained.weights, data, _SEED, device)
    new = client.observe(trained.weights, data, _SEED)
    assert _moved(old.table) == _moved(new.table) == read
    # A new device's table has moved by this round alone, and sends something else.
    distances = [np.linalg.norm(each.table - _WEIGHTS[0]) for each in (old, new)]
    assert distances[0] > 1.5 * distances[1]
    assert np.abs(old.shared_gradients[0] - new.shared_gradients[0]).max() > 1e-5


def test_clients_of_one_model_move_it_together():
  settings = fed_avg.FedAvgSettings(
    client_learning_rate=0.25, server_optimizer='sgd', server_learning_rate=1.0
  )
  _, trained = _federation('fed_avg', settings)
  _train(trained, 1)
  assert _moved(trained.weights[0]) == [1, 2, 3, 7, 9, 20, 21, 22]
  sent = _observe('fed_avg', settings).gradients[0]
  of_first = (_WEIGHTS[0] - trained.weights[0])[[1, 2, 3, 7, 9]]
  np.testing.assert_allclose(of_first, 0.125 * sent[[1, 2, 3, 7, 9]], atol=1e-6)


@pytest.mark.parametrize('algorithm', ['local_only', 'lg_fedavg', 'fed_recon'])
def test_every_kind_of_device_trains_for_rounds(algorithm):
  client, trained = _federation(algorithm, registry.ALGORITHMS[algorithm].settings())
  _train(trained, 2)
  data = rounds.RoundData([_batch()], [_batch()])
  seen = client.observe(trained.weights, data, _SEED, trained.devices[0])
  assert (seen.gradients[-1] is None) == (algorithm == 'local_only')
  assert [one.shape for one in trained.weights] == [one.shape for one in _WEIGHTS]
