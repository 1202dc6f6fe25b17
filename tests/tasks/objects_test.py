"""Every task gives client data and a Keras model that plain TFF trains."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_textpriv
from tff_textpriv import settings as settings_lib

_TEXT = {'num_users': 6, 'vocab_size': 300, 'max_sentence_words': 8}
_DEALT = {**_TEXT, 'num_clients': 3}
_BAG = {'num_clients': 3, 'hash_buckets': 50, 'max_train_examples': 40}
_WORDS = {
  'num_clients': 3,
  'vocab_size': 50,
  'max_train_examples': 40,
  'max_words': 9,
}
# The name of a task, its settings, and the clients of its test data.
_TASKS = {
  'stackoverflow': ('stackoverflow', _TEXT, 'test_0'),
  'reddit': ('reddit', _TEXT, 'test_0'),
  'ptb': ('ptb', _DEALT, 'test_0'),
  'wikitext2': ('wikitext2', _DEALT, 'test_0'),
  'custom': ('custom', _TEXT, 'test_0'),
  'imdb': ('imdb', _BAG, 'test'),
  'movielens': ('movielens', {**_BAG, 'federation': 'users'}, 'user_40'),
  'agnews': ('agnews', _WORDS, 'test'),
  'newsgroups': ('newsgroups', _WORDS, 'test'),
  'sst2': ('sst2', _WORDS, 'test'),
  'custom with labels': ('custom', {'label_column': 'label', **_BAG}, None),
}


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)


# One of each kind; the others, with the same reader or model, on request.
_ALWAYS = ('stackoverflow', 'imdb', 'sst2', 'movielens', 'custom')


@pytest.mark.parametrize(
  ('name', 'given', 'tester'),
  [
    pytest.param(*task, id=name, marks=() if name in _ALWAYS else pytest.mark.slow)
    for name, task in _TASKS.items()
  ],
)
def test_a_round_of_plain_federated_averaging_has_a_finite_loss(
  tff_runtime, name, given, tester
):
  task = tff_textpriv.task(name, **given)
  if tester is not None:
    assert tester in task.test.client_ids
  assert task.test.element_type_structure == task.train.element_type_structure

  def model_fn():
    return tff.learning.models.from_keras_model(
      task.keras_model(),
      loss=task.loss(),
      input_spec=task.input_spec,
      metrics=task.metrics(),
    )

  process = tff.learning.algorithms.build_weighted_fed_avg(
    model_fn, client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.1)
  )
  batched = task.train.preprocess(lambda examples: examples.take(6).batch(4))
  cohort = [
    batched.create_tf_dataset_for_client(client) for client in batched.client_ids[:2]
  ]
  output = process.next(process.initialize(), cohort)
  figures = output.metrics['client_work']['train']
  assert figures['num_examples'] > 0
  assert math.isfinite(figures['loss'])
  assert 0 <= figures['accuracy'] <= 1


def _language_task():
  return tff_textpriv.task('stackoverflow', **_TEXT)


def test_elements_of_a_language_model_are_tokens_and_the_next_ones():
  data = _language_task().train
  rows = list(data.create_tf_dataset_for_client(data.client_ids[0]).take(5))
  for tokens, following in rows:
    length = int(tf.math.count_nonzero(following))
    assert tokens.shape == following.shape == [4 * 8]
    np.testing.assert_array_equal(tokens[1:length], following[: length - 1])
    assert not np.any(tokens[length:])


def test_padding_weighs_nothing_in_loss_and_accuracy():
  task = _language_task()
  targets = tf.constant([[5, 6, 0, 0]])
  logits = 9.0 * tf.one_hot([[5, 7, 3, 3]], 300)
  padded, without = (
    task.loss()(targets, logits),
    task.loss()(targets[:, :2], logits[:, :2]),
  )
  np.testing.assert_allclose(padded, without, rtol=1e-6)
  (accuracy,) = task.metrics()
  accuracy.update_state(targets, logits)
  assert accuracy.result() == 0.5


@pytest.mark.parametrize(
  'name',
  [
    'stackoverflow',
    'imdb',
    *(pytest.param(name, marks=pytest.mark.slow) for name in ('sst2', 'movielens')),
  ],
)
def test_the_functional_model_is_the_keras_model_for_our_builders(tff_runtime, name):
  _, given, _ = _TASKS[name]
  task = tff_textpriv.task(name, **given)
  process = tff_textpriv.algorithms.build_fed_avg(
    task.functional_model(),
    tff_textpriv.algorithms.FedAvgSettings(client_learning_rate=1e-30),
    tff_textpriv.privacy.NoMechanism('a test'),
  )
  client = task.train.client_ids[0]
  batched = task.train.create_tf_dataset_for_client(client).take(4).batch(4)
  figures = process.next(process.initialize(), [batched]).metrics
  inputs, targets = next(iter(batched))
  expected = task.loss()(targets, task.keras_model()(inputs))
  loss = figures['client_work']['train']['loss']
  np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_the_keras_model_starts_from_the_weights_of_a_run():
  task = tff_textpriv.task('imdb', model='network', **_BAG)
  for one, other in zip(
    task.keras_model().get_weights(), task.keras_model().get_weights(), strict=True
  ):
    np.testing.assert_array_equal(one, other)


def test_all_clients_together_have_the_examples_of_each():
  data = tff_textpriv.task('imdb', **_BAG).train
  together = len(list(data.create_tf_dataset_from_all_clients(seed=0)))
  each = [len(list(data.create_tf_dataset_for_client(i))) for i in data.client_ids]
  assert together == sum(each) > 20 and len(each) > 1


def test_clients_are_read_in_python_only_and_an_unknown_one_is_refused():
  data = _language_task().train
  with pytest.raises(NotImplementedError, match='create_tf_dataset_for_client'):
    _ = data.serializable_dataset_fn
  with pytest.raises(ValueError, match='no such client'):
    data.create_tf_dataset_for_client('nobody')


def test_a_wrong_setting_is_refused_when_the_task_is_opened():
  with pytest.raises(settings_lib.SettingsError, match='--num_users=0'):
    tff_textpriv.task('stackoverflow', num_users=0)


def test_the_declaration_of_a_task_opens_it_too():
  declared = tff_textpriv.tasks.imdb.TASK
  assert tff_textpriv.task(declared, **_BAG).train.client_ids == [
    'client_0',
    'client_1',
    'client_2',
  ]
