"""Runs of objects: own data, settings, models and aggregators."""

import collections
import dataclasses
import json
import traceback

import algorithm_rounds
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_textpriv
from tff_textpriv import flags, results
from tff_textpriv import settings as settings_lib
from tff_textpriv.aggregators import of_mechanism
from tff_textpriv.iterative_processes import classification_model, registry
from tff_textpriv.models import classifiers
from tff_textpriv.privacy import errors
from tff_textpriv.tasks import base
from tff_textpriv.training import output

algorithms = tff_textpriv.algorithms
privacy = tff_textpriv.privacy

_MARK = 'markedtext'
_SHORT = {'total_rounds': 1, 'rounds_per_eval': 1}
_COLUMNS = {'user': 'author', 'text': 'body'}
_BAG = {'label': 'stars', 'hash_buckets': 20}
_WORDS = {
  'tokenizer_source': 'oracle',
  'tokenizer': 'word',
  'vocab_size': 9,
  'max_sentence_words': 6,
}


def _records(number=60):
  rng = np.random.default_rng(0)
  words = ['sun', 'rain', 'red', 'blue', _MARK]
  return [
    {
      'author': f'{_MARK} {row % 10}',
      'body': ' '.join(rng.choice(words, 5)),
      'stars': int(rng.integers(1, 4)),
    }
    for row in range(number)
  ]


def _frame(rows):
  """Columns by name, as a data frame has them."""
  return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.fixture(autouse=True)
def somewhere(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)


def _task(**given):
  return tff_textpriv.from_records(_records(), **_COLUMNS, **{**_BAG, **given})


def _classifier(**changes):
  tf.keras.utils.set_random_seed(1)
  ids = tf.keras.Input([None], dtype=tf.int32, name='ids')
  hidden = tf.keras.layers.Embedding(21, changes.get('width', 4))(ids)
  hidden = tf.keras.layers.GlobalAveragePooling1D()(
    tf.keras.layers.Dropout(0.1)(hidden)
  )
  return tf.keras.Model({'ids': ids}, tf.keras.layers.Dense(3)(hidden))


def _mean(limit):
  return tff.aggregators.zeroing_factory(limit, tff.aggregators.MeanFactory())


def test_a_frame_trains_a_classifier_with_the_settings_of_an_object():
  task = tff_textpriv.from_frame(_frame(_records()), **_COLUMNS, **_BAG)
  settings = algorithms.FedAvgSettings(client_learning_rate=0.25)
  result = tff_textpriv.run(task, settings, **_SHORT)
  assert result.config['client_learning_rate'] == 0.25
  assert result.config['label_column'] == 'stars'
  assert result.metrics['test_num_examples'] > 0
  assert 0 < result.metrics['test_majority_accuracy'] < 1
  assert result.sanity and result.sanity[0] in str(result)
  texts = ['sun rain', 'red blue']
  shares = result.probabilities(texts)
  assert result.predict(texts) == [max(each, key=each.get) for each in shares]
  assert [name for name, _ in result.suggest(texts[0])] == list(shares[0])
  assert result.report().read_text().count('<h2>Result</h2>') == 1
  with pytest.raises(results.ResultsError, match='a list of texts'):
    result.predict('sun rain')
  again = tff_textpriv.run(task, settings, **_SHORT)
  assert again.metrics == result.metrics
  changed = [*_records(59), {'author': 'x', 'body': 'sun', 'stars': 1}]
  other = tff_textpriv.from_frame(_frame(changed), **_COLUMNS, **_BAG)
  with pytest.raises(output.OutputError, match='--data: .*rows_.* before, .*rows_'):
    tff_textpriv.run(other, settings, **_SHORT)


def test_frames_and_records_of_the_same_rows_give_the_same_clients():
  frame = tff_textpriv.from_frame(_frame(_records()), **_COLUMNS, **_BAG)
  assert frame.train.client_ids == _task().train.client_ids
  assert frame.given['data'] == _task().given['data']


def test_records_train_a_language_model_with_a_pair_of_settings_and_an_own_model():
  task = tff_textpriv.from_records(_records(), **_COLUMNS, **_WORDS)
  tf.keras.utils.set_random_seed(1)
  tokens = tf.keras.Input([None], dtype=tf.int32)
  hidden = tf.keras.layers.Embedding(9, 4)(tokens)
  hidden = tf.keras.layers.LSTM(5, return_sequences=True, dropout=0.1)(hidden)
  model = tf.keras.Model(tokens, tf.keras.layers.Dense(9)(hidden))
  noise = privacy.CentralPrivacySettings(noise_multiplier=1.0, privacy_claim=False)
  result = tff_textpriv.run(
    task,
    (algorithms.DpFedAvgSettings(), noise),
    model=model,
    clients_per_round=3,
    **_SHORT,
  )
  assert result.config['noise_multiplier'] == 1.0
  assert result.config['model'].endswith('in place of lstm_tiny')
  assert result.model.layers[-1].units == 9
  moved = [
    np.abs(a - b).max()
    for a, b in zip(result.model.get_weights(), model.get_weights(), strict=True)
  ]
  assert max(moved) > 0


def test_client_data_of_tff_train_and_their_groups_are_kept():
  def clients(prefix, number):
    return tff.simulation.datasets.TestClientData(
      {
        f'{prefix}_{client}': collections.OrderedDict(
          tokens=['sun rain', 'red', 'blue'], label=[0, 1, client % 2]
        )
        for client in range(number)
      }
    )

  groups = [clients('train', 5), clients('valid', 2), clients('test', 3)]
  task = tff_textpriv.from_client_data(*groups, label='label', hash_buckets=20)
  assert [
    len(data.client_ids) for data in (task.train, task.validation, task.test)
  ] == [
    5,
    2,
    3,
  ]
  dealt = tff_textpriv.from_client_data(groups[0], label='label', hash_buckets=20)
  assert len(dealt.train.client_ids) == 3
  assert tff_textpriv.run(task, 'fed_avg', **_SHORT).metrics['test_num_examples'] == 9
  with pytest.raises(ValueError, match='--text_column=body: there is no such column'):
    _ = tff_textpriv.from_client_data(groups[0], text='body', label='label').train


def test_an_own_model_is_trained_kept_and_part_of_the_settings():
  result = tff_textpriv.run(_task(), 'fed_avg', model=_classifier(), **_SHORT)
  trained, first = result.model.get_weights(), _classifier().get_weights()
  assert any(np.abs(a - b).max() > 0 for a, b in zip(trained, first, strict=True))
  content = json.loads((result.folder / 'model.json').read_text())
  assert content['model'] == 'own'
  # The same model, made again, has other names for its layers.
  again = tff_textpriv.run(_task(), 'fed_avg', model=_classifier(), **_SHORT)
  assert again.config == result.config
  with pytest.raises(output.OutputError, match='--model: own'):
    tff_textpriv.run(_task(), 'fed_avg', model=_classifier(width=5), **_SHORT)


def test_an_own_aggregator_averages_promises_nothing_and_is_part_of_the_settings():
  where = {'experiment_name': 'zeroed', **_SHORT}
  plain = tff_textpriv.run(_task(), 'fed_avg', **_SHORT)
  result = tff_textpriv.run(_task(), 'fed_avg', aggregator=_mean(1e-9), **where)
  assert result.privacy_card['epsilon'] is None
  assert 'caller’s own' in result.privacy_card.markdown
  for weight in result.model.get_weights():
    assert not weight.any()  # All updates were too large, and so zeroed.
  assert any(weight.any() for weight in plain.model.get_weights())
  assert tff_textpriv.run(_task(), 'fed_avg', aggregator=_mean(1e-9), **where) == result
  with pytest.raises(output.OutputError, match='--aggregator: own'):
    tff_textpriv.run(_task(), 'fed_avg', aggregator=_mean(2.0), **where)


class _Used(Exception):
  """The factory was asked for its process."""


class _Factory(tff.aggregators.WeightedAggregationFactory):
  def create(self, value_type, weight_type):
    raise _Used


@pytest.mark.parametrize(
  'name', algorithm_rounds.with_variants_on_request(registry.ALGORITHMS)
)
def test_an_own_aggregator_is_used_or_refused(name):
  algorithm = registry.ALGORITHMS[name]
  has_own = algorithm.privacy is not privacy.NoPrivacySettings
  if has_own or algorithm.averages_its_way:
    task = 'imdb' if 'classification' in algorithm.kinds else 'stackoverflow'
    task = 'agnews' if not algorithm.has_whole_model else task
    with pytest.raises(flags.UsageError, match='takes no aggregator of your own'):
      tff_textpriv.run(task, algorithm.name, aggregator=_Factory())
    return
  model = classifiers.build('network', 5, 0, 2)
  functional = classification_model.from_classifier(model, model.initial_weights(0))
  with pytest.raises(_Used):
    algorithm.build(
      functional,
      algorithm.settings(),
      privacy.OwnMechanism('for a test', factory=_Factory()),
    )


def test_what_an_own_aggregator_shows_to_an_observer_is_not_guessed():
  mechanism = privacy.OwnMechanism('for a test', factory=_mean(1.0))
  with pytest.raises(errors.PrivacyError, match='has no seen'):
    of_mechanism.seen(mechanism, [], tf.zeros([2], tf.int32), 'server')


@pytest.mark.parametrize(
  ('change', 'error', 'message'),
  [
    ({'algo': algorithms}, flags.UsageError, 'algo is module: give a name'),
    ({'algo': (algorithms.FedAvgSettings(),) * 2}, flags.UsageError, 'or a pair'),
    ({'task': _frame(_records())}, flags.UsageError, 'task is dict.*from_frame'),
    (
      {'algo': algorithms.FedAvgSettings(), 'client_learning_rate': 0.5},
      flags.UsageError,
      'client_learning_rate is given twice',
    ),
    ({'hash_buckets': 7}, flags.UsageError, 'hash_buckets is given twice'),
    (
      {'aggregator': 'mean'},
      settings_lib.SettingsError,
      'AggregationFactory, and no str',
    ),
    ({'model': 7}, settings_lib.SettingsError, 'object of Model, and no int'),
    (
      {'algo': 'fede_vocab', 'model': 7},
      flags.UsageError,
      'takes no model of your own',
    ),
  ],
)
def test_objects_of_the_wrong_kind_are_refused(change, error, message):
  with pytest.raises(error, match=message):
    tff_textpriv.run(**{'task': _task(), 'algo': 'fed_avg', **change})


def _broken(records):
  return [{**record, 'stars': [_MARK]} for record in records]


@pytest.mark.parametrize(
  'mistake',
  [
    lambda: tff_textpriv.run('custom', 'fed_avg', data=_records()),
    lambda: tff_textpriv.run('custom', 'fed_avg', data=_frame(_records())['body']),
    lambda: tff_textpriv.run('custom', 'fed_avg', workers=_records()),
    lambda: tff_textpriv.run(_records(), 'fed_avg'),
    lambda: tff_textpriv.run(_task(), _records()),
    lambda: tff_textpriv.from_records([_MARK], **_COLUMNS),
    lambda: tff_textpriv.from_frame([_MARK], **_COLUMNS),
    # All rows are broken; there is one class; there are too few users.
    lambda: tff_textpriv.from_records(_broken(_records()), **_COLUMNS, **_BAG).train,
    lambda: (
      tff_textpriv.from_records(
        [{**record, 'stars': _MARK} for record in _records()], **_COLUMNS, **_BAG
      ).train
    ),
    lambda: tff_textpriv.from_records(_records(1), **_COLUMNS, **_BAG).train,
    lambda: _task().train.create_tf_dataset_for_client(_records()[0]['author']),
  ],
)
def test_no_error_shows_what_users_have_written(mistake):
  with pytest.raises(ValueError) as caught:
    mistake()
  shown = ''.join(traceback.format_exception_only(caught.value))
  cause = caught.value.__cause__
  while cause is not None:
    shown += ''.join(traceback.format_exception_only(cause))
    cause = cause.__cause__
  assert _MARK not in shown


@pytest.fixture
def registries(monkeypatch):
  """What may be added to for the time of a test."""
  monkeypatch.setattr(registry, 'ALGORITHMS', dict(registry.ALGORITHMS))
  monkeypatch.setattr(base, '_OWN', {})


def test_parts_of_ones_own_are_known_once_they_are_registered(registries):
  own = dataclasses.replace(registry.ALGORITHMS['fed_avg'], name='my_avg')
  tff_textpriv.register(own)
  tff_textpriv.register(own)  # A cell may be run again.
  task = dataclasses.replace(base.find('imdb'), name='my_reviews')
  tff_textpriv.register(task)
  tff_textpriv.register(privacy.LocalPrivacySettings, name='bits', of='dp_fed_avg')
  chosen = base.make_experiment(base.find('my_reviews'), {'algo': 'my_avg'})
  assert chosen.folder.name == 'my_reviews_my_avg'
  given = {'algo': 'dp_fed_avg', 'mechanism': 'bits', 'epsilon': 3}
  noised = base.make_experiment(task, given).privacy_settings
  assert isinstance(noised, privacy.LocalPrivacySettings) and noised.target_epsilon == 3


def test_names_of_the_package_are_not_given_away(registries):
  with pytest.raises(ValueError, match='--algo=fed_avg: is an algorithm of the'):
    tff_textpriv.register(registry.ALGORITHMS['fed_avg'])
  with pytest.raises(ValueError, match='--task=imdb: is a task of the package'):
    tff_textpriv.register(base.find('imdb'))
  with pytest.raises(
    ValueError, match='--mechanism=distributed: --algo=dp_fed_avg has'
  ):
    tff_textpriv.register(
      privacy.LocalPrivacySettings, name='distributed', of='dp_fed_avg'
    )
  with pytest.raises(ValueError, match='did you mean fed_avg'):
    tff_textpriv.register(privacy.LocalPrivacySettings, name='bits', of='fedavg')
  with pytest.raises(ValueError, match='int is no Algorithm'):
    tff_textpriv.register(3)


def test_an_execution_ends_its_workers_with_its_block():
  @tff.tensorflow.computation
  def three():
    return tf.constant(3)

  with tff_textpriv.execution() as running:
    assert three() == 3
    (worker,) = running.workers
    assert worker.process.exit_code is None
  assert worker.process.exit_code is not None
