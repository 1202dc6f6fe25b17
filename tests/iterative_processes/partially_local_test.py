"""Methods with a local part: what is sent, what is kept, and that the steps are right."""

import collections
import re

import algorithm_rounds
import numpy as np
import pytest
import small_models
import tensorflow as tf
import tensorflow_federated as tff
from sample_plan import NO_MECHANISM

from tff_textpriv.aggregators import of_mechanism
from tff_textpriv.iterative_processes import (
  classification_model,
  clients,
  contract,
  device_state,
  fed_avg,
  fede_vocab,
  lg_fedavg,
  local_only,
  local_training,
  optimizers,
  registry,
  stacked_batches,
)
from tff_textpriv.models import (
  classifiers,
  encoders,
  sequence_classifiers,
  sequence_presets,
)

_WIDTH, _UNITS, _CLASSES = 4, 3, 2
_SGD = {'client_optimizer': 'sgd', 'client_learning_rate': 0.5}
_ROWS = {'ann': 6, 'bob': 9}


@pytest.fixture(scope='module')
def model():
  """A model without dropout, so that steps can be repeated by hand."""
  classifier = small_models.MeanOfWords(1, 0, _CLASSES, _WIDTH, 0.0, _UNITS)
  return classification_model.from_classifier(classifier, classifier.initial_weights(0))


def _tables():
  rng = np.random.default_rng(1)
  return {
    user: rng.normal(size=(rows, _WIDTH)).astype(np.float32)
    for user, rows in _ROWS.items()
  }


def _batches(user, number=2, size=3, seed=0):
  rng = np.random.default_rng([seed, len(user), ord(user[0])])
  return [
    (
      collections.OrderedDict(
        dense=np.zeros((size, 0), np.float32),
        dropout_seed=np.zeros(2, np.int32),
        ids=rng.integers(0, _ROWS[user], (size, 4)).astype(np.int32),
        num_examples=np.array(size, np.int32),
      ),
      rng.integers(0, _CLASSES, size).astype(np.int32),
    )
    for _ in range(number)
  ]


class _Run(algorithm_rounds.Rounds):
  """A process and its devices, which start with the tables of `_tables`."""

  def __init__(self, module, settings, model, folder, tables=_tables):
    num_local = module.client(model, settings).num_local
    others = list(model.initial_weights[0][1:num_local])
    super().__init__(
      module.ALGORITHM,
      model,
      settings,
      NO_MECHANISM,
      folder,
      lambda user: [tables()[user], *others],
    )
    self.state = self.process.initialize()

  def round(self, users=('ann', 'bob'), batches=_batches):
    output = super().round(self.state, {user: batches(user) for user in users})
    self.state = output.state
    return output

  @property
  def shared(self):
    return self.weights(self.state)


def _sgd(model, weights, batches, which, rate=0.5):
  """Takes plain gradient steps on some of the weights; returns all.

  The step size is one number, or one of each weight.
  """
  weights = [tf.constant(weight) for weight in weights]
  for inputs, labels in batches:
    with tf.GradientTape() as tape:
      tape.watch(weights)
      output = model.predict_on_batch((tuple(weights), ()), inputs, training=True)
      loss = model.loss(output, labels)
    gradients = tape.gradient(loss, weights)
    rates = np.broadcast_to(np.float32(rate), len(weights))
    weights = [
      w - r * tf.convert_to_tensor(g) if number in which else w
      for number, (w, g, r) in enumerate(zip(weights, gradients, rates, strict=True))
    ]
  return [weight.numpy() for weight in weights]


@pytest.mark.parametrize('adapts', [True, False])
def test_a_round_is_adaptation_then_training_of_everything_by_hand(
  tff_runtime, model, tmp_path, adapts
):
  settings = fede_vocab.FedeVocabSettings(adaptive_updating=adapts, **_SGD)
  run = _Run(fede_vocab, settings, model, tmp_path)
  sizes = {'ann': 1, 'bob': 3}
  run.round(batches=lambda user: _batches(user, size=sizes[user]))
  shared = model.initial_weights[0][1:]
  every = range(len(shared) + 1)
  mean = [np.zeros_like(weight) for weight in shared]
  for user, size in sizes.items():
    batches = _batches(user, size=size)
    weights = [_tables()[user], *shared]
    if adapts:
      weights = _sgd(model, weights, batches, which=[0])
    weights = _sgd(model, weights, batches, which=every)
    np.testing.assert_allclose(run.kept(user)[0], weights[0], atol=1e-5)
    # Weighted by examples: 1 of 4 are ann's, 3 of 4 bob's.
    mean = [m + size / 4 * w for m, w in zip(mean, weights[1:], strict=True)]
  for ours, expected in zip(run.shared, mean, strict=True):
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_the_table_has_a_step_size_of_its_own(tff_runtime, model, tmp_path):
  settings = fede_vocab.FedeVocabSettings(table_learning_rate=0.125, **_SGD)
  run = _Run(fede_vocab, settings, model, tmp_path)
  weights = [_tables()['ann'], *model.initial_weights[0][1:]]
  rates = [0.125, *(0.5 for _ in weights[1:])]
  for _ in range(2):  # What the device keeps does not make the steps smaller still.
    run.round(users=['ann'])
    weights = _sgd(model, weights, _batches('ann'), which=[0], rate=0.125)
    weights = _sgd(model, weights, _batches('ann'), range(len(weights)), rates)
  for ours, expected in zip([run.kept('ann')[0], *run.shared], weights, strict=True):
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_an_anchored_table_goes_back_a_share_of_the_way_to_where_it_started(
  tff_runtime, model, tmp_path
):
  """After each step by the gradient comes one of 0.25 * 0.5 of the way back."""
  settings = fede_vocab.FedeVocabSettings(anchor_strength=0.25, **_SGD)
  run = _Run(fede_vocab, settings, model, tmp_path)
  start = _tables()['ann']
  weights = [start, *model.initial_weights[0][1:]]

  def train(weights, which):
    for batch in _batches('ann'):
      weights = _sgd(model, weights, [batch], which)
      weights[0] = weights[0] - 0.25 * 0.5 * (weights[0] - start)
    return weights

  for _ in range(2):  # Where it started is where it was before the first round.
    run.round(users=['ann'])
    weights = train(weights, [0])
    weights = train(weights, range(len(weights)))
  for ours, expected in zip([run.kept('ann')[0], *run.shared], weights, strict=True):
    np.testing.assert_allclose(ours, expected, atol=1e-5)
  np.testing.assert_array_equal(run.kept('ann')[-1], start)


def test_a_user_that_was_away_comes_back_with_its_own_table(
  tff_runtime, model, tmp_path
):
  run = _Run(fede_vocab, fede_vocab.FedeVocabSettings(), model, tmp_path)
  run.round()
  bobs = run.kept('bob')[0]
  for _ in range(2):
    run.round(users=['ann'])
  np.testing.assert_array_equal(run.kept('bob')[0], bobs)
  run.round()
  assert np.abs(run.kept('bob')[0] - bobs).max() > 1e-4


def test_the_optimizer_of_the_local_part_goes_on_where_it_was(
  tff_runtime, model, tmp_path
):
  """Two batches a round: after three rounds Adam has taken six steps."""
  settings = fede_vocab.FedeVocabSettings(adaptive_updating=False)
  run = _Run(fede_vocab, settings, model, tmp_path)
  for _ in range(3):
    run.round(users=['ann'])
  leaves = run.kept('ann')
  structure = [run.client.trainer.local_specs, run.client.trainer.optimizer_specs]
  _, optimizer = tf.nest.pack_sequence_as(structure, leaves)
  assert int(optimizer['step']) == 6
  assert optimizer['learning_rate'] == np.float32(settings.client_learning_rate)


def _adam(model, weights, batches, which):
  """Takes Adam's steps on some of the weights, from its beginning; returns all."""
  weights = [tf.constant(weight) for weight in weights]
  optimizer = tff.learning.optimizers.build_adam(0.005)
  state = optimizer.initialize([tf.TensorSpec(weights[i].shape) for i in which])
  for inputs, labels in batches:
    with tf.GradientTape() as tape:
      tape.watch(weights)
      output = model.predict_on_batch((tuple(weights), ()), inputs, training=True)
      loss = model.loss(output, labels)
    gradients = map(tf.convert_to_tensor, tape.gradient(loss, weights))
    chosen = [gradient for i, gradient in enumerate(gradients) if i in which]
    state, stepped = optimizer.next(state, [weights[i] for i in which], chosen)
    for i, weight in zip(which, stepped, strict=True):
      weights[i] = weight
  return [weight.numpy() for weight in weights]


def test_a_fresh_optimizer_begins_in_each_round_and_again_after_adaptation(
  tff_runtime, model, tmp_path
):
  runs = {
    fresh: _Run(
      fede_vocab,
      fede_vocab.FedeVocabSettings(fresh_optimizer=fresh),
      model,
      tmp_path / str(fresh),
    )
    for fresh in (True, False)
  }
  weights = [_tables()['ann'], *model.initial_weights[0][1:]]
  for _ in range(2):
    for run in runs.values():
      run.round(users=['ann'])
    weights = _adam(model, weights, _batches('ann'), [0])
    weights = _adam(model, weights, _batches('ann'), range(len(weights)))
  found = {fresh: [run.kept('ann')[0], *run.shared] for fresh, run in runs.items()}
  for ours, expected in zip(found[True], weights, strict=True):
    np.testing.assert_allclose(ours, expected, atol=1e-5)
  assert np.abs(found[False][0] - weights[0]).max() > 1e-3


def test_of_an_encoder_all_that_makes_its_embedding_may_stay():
  size = sequence_presets.EncoderSize(_WIDTH, 1, 2, 6, max_positions=7)
  classifier = encoders.Encoder(9, 0, _CLASSES, _WIDTH, 0.0, size)
  functional = classification_model.from_classifier(
    classifier, classifier.initial_weights(0)
  )
  block = fede_vocab.FedeVocabSettings(local_layers='embedding_block')
  for settings, model_, num_local in (
    (fede_vocab.FedeVocabSettings(), functional, 1),
    (block, functional, 4),
    (block, small_models.linear(0.0), 1),
  ):
    assert fede_vocab.client(model_, settings).num_local == num_local
  process = fede_vocab.build_fede_vocab(functional, block, NO_MECHANISM)
  sent = process.get_model_weights.type_signature.result.trainable
  shapes = [weight.shape for weight in functional.initial_weights[0][4:]]
  assert [tuple(each.shape) for each in sent] == shapes
  # Positions have the shape of nothing that is sent.
  assert (7, _WIDTH) not in shapes


def test_the_type_signature_holds_no_embedding_and_no_vocabulary(model):
  process = fede_vocab.build_fede_vocab(
    model, fede_vocab.FedeVocabSettings(), NO_MECHANISM
  )
  server_types = [
    process.initialize.type_signature.result,
    process.next.type_signature.parameter[0],
    process.next.type_signature.result,
  ]
  shapes = [weight.shape for weight in model.initial_weights[0][1:]]
  weights = process.get_model_weights.type_signature.result.trainable
  assert [tuple(each.shape) for each in weights] == shapes
  for each in server_types:
    assert _table_like(each) == []
  # Nothing comes back from clients but sums at the server.
  assert '@CLIENTS' not in str(process.next.type_signature.result)
  # The same look at federated averaging does find its table.
  averaging = fed_avg.build_fed_avg(
    _full_model(), fed_avg.FedAvgSettings(), NO_MECHANISM
  )
  assert _table_like(averaging.next.type_signature.result)


def _table_like(type_spec):
  """Returns the tensors of a type that could be a table, and all strings."""
  text = str(type_spec)
  tables = re.findall(rf'float32\[\d+,{_WIDTH}\]|float32\[\?,{_WIDTH}\]', text)
  return tables + re.findall(r'\bstr\b', text)


def _full_model():
  classifier = small_models.MeanOfWords(9, 0, _CLASSES, _WIDTH, 0.0, _UNITS)
  return classification_model.from_classifier(classifier, classifier.initial_weights(0))


class _CollectingMean(tff.aggregators.WeightedAggregationFactory):
  """The mean, with everything that it was the mean of in the metrics."""

  def create(self, value_type, weight_type):
    mean = tff.aggregators.MeanFactory().create(value_type, weight_type)
    received_type = tff.to_type((value_type, weight_type))

    # TFF has no list of what clients sent; a string holds any number of reports.
    @tff.tensorflow.computation
    def nothing():
      return tf.constant('')

    @tff.tensorflow.computation(np.str_, received_type)
    def add(text, received):
      parts = [tf.io.serialize_tensor(part) for part in tf.nest.flatten(received)]
      return tf.strings.join([text, *parts], separator='|')

    @tff.tensorflow.computation(np.str_, np.str_)
    def join(first, second):
      return tf.strings.join([first, second])

    @tff.tensorflow.computation(np.str_)
    def same(text):
      return tf.identity(text)

    @tff.federated_computation(
      mean.initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_round(state, value, weight):
      output = mean.next(state, value, weight)
      received = tff.federated_aggregate(
        tff.federated_zip((value, weight)), nothing(), add, join, same
      )
      return tff.templates.MeasuredProcessOutput(
        output.state,
        output.result,
        tff.federated_zip(collections.OrderedDict(received=received)),
      )

    return tff.templates.AggregationProcess(mean.initialize, next_round)


def _rows_in(content, table):
  return [row for row in np.asarray(table) if row.astype('<f4').tobytes() in content]


def test_the_server_receives_no_embedding_row(
  tff_runtime, model, tmp_path, monkeypatch
):
  monkeypatch.setattr(of_mechanism, 'mean', lambda *_, **__: _CollectingMean())
  # Built anew: the process that other tests share has another mean.
  monkeypatch.setattr(algorithm_rounds, 'built', algorithm_rounds.built.__wrapped__)
  run = _Run(fede_vocab, fede_vocab.FedeVocabSettings(), model, tmp_path)
  seen = b''
  tables = list(_tables().values())
  for _ in range(3):
    output = run.round()
    received = output.metrics['aggregator']['received']
    assert len(received) > 2 * sum(w.nbytes for w in run.shared)  # Both updates.
    seen += received
    seen += b'|'.join(
      np.asarray(leaf).tobytes()
      for leaf in tf.nest.flatten(run.state.global_model_weights)
    )
    tables += [run.kept(user)[0] for user in _ROWS]
  deltas = [after - before for before, after in zip(tables, tables[2:], strict=False)]
  for table in (*tables, *deltas, *(-delta for delta in deltas)):
    assert _rows_in(seen, table) == []
  # The same look finds what is really sent.
  assert _rows_in(seen, run.shared[1])


def test_diverged_training_changes_nothing_and_is_not_counted(
  tff_runtime, model, tmp_path
):
  tables = {**_tables(), 'ann': np.full((_ROWS['ann'], _WIDTH), np.nan, np.float32)}
  settings = fede_vocab.FedeVocabSettings(**_SGD)
  run = _Run(fede_vocab, settings, model, tmp_path, lambda: tables)
  output = run.round()
  train = output.metrics['client_work']['train']
  assert train['num_examples'] == 6 and train['contributing_clients'] == 1
  batches = _batches('bob')
  weights = [_tables()['bob'], *model.initial_weights[0][1:]]
  weights = _sgd(model, weights, batches, which=[0])
  weights = _sgd(model, weights, batches, which=range(len(weights)))
  for ours, expected in zip(run.shared, weights[1:], strict=True):
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_an_empty_cohort_leaves_the_model_as_it_is(tff_runtime, model, tmp_path):
  run = _Run(fede_vocab, fede_vocab.FedeVocabSettings(), model, tmp_path)
  run.round(users=[])
  for ours, before in zip(run.shared, model.initial_weights[0][1:], strict=True):
    np.testing.assert_allclose(ours, before)


def test_the_step_size_falls_to_zero_in_a_line(tff_runtime, model, tmp_path):
  settings = fede_vocab.FedeVocabSettings(
    adaptive_updating=False, client_decay_rounds=2, **_SGD
  )
  run = _Run(fede_vocab, settings, model, tmp_path)
  weights = [_tables()['ann'], *model.initial_weights[0][1:]]
  for rate in (0.5, 0.25, 0.0):
    run.round(users=['ann'])
    weights = _sgd(model, weights, _batches('ann'), range(len(weights)), rate)
    np.testing.assert_allclose(run.kept('ann')[0], weights[0], atol=1e-5)


def test_local_only_sends_nothing_and_equals_training_alone(
  tff_runtime, model, tmp_path
):
  run = _Run(local_only, local_only.LocalOnlySettings(**_SGD), model, tmp_path)
  assert run.shared == []
  assert 'update' not in [item.name for item in contract.sends(run.process)]
  # What the step size is multiplied by.
  assert contract.receives(run.process) == [('float32', 4)]
  weights = [_tables()['ann'], *model.initial_weights[0][1:]]
  for _ in range(2):
    output = run.round()
    weights = _sgd(model, weights, _batches('ann'), range(len(weights)))
  assert output.metrics['client_work']['train']['num_examples'] == 12
  for leaf, expected in zip(run.kept('ann'), weights, strict=False):
    np.testing.assert_allclose(leaf, expected, atol=1e-5)


@pytest.mark.parametrize('share', [0.0, 0.25])
def test_lg_fedavg_shares_the_output_layer_and_interpolates_it(
  tff_runtime, model, tmp_path, share
):
  settings = lg_fedavg.LgFedAvgSettings(interpolation=share, **_SGD)
  run = _Run(lg_fedavg, settings, model, tmp_path)
  assert [w.shape for w in run.shared] == [(_UNITS, 1), (1,)]
  run.round()
  # In the second round ann starts from a mix of the mean and her own last layer.
  own = _sgd(
    model, [_tables()['ann'], *model.initial_weights[0][1:]], _batches('ann'), range(5)
  )
  mixed = [
    share * mine + (1 - share) * mean
    for mine, mean in zip(own[-2:], run.shared, strict=True)
  ]
  expected = _sgd(model, [*own[:-2], *mixed], _batches('ann'), range(5))
  run.round(users=['ann'])
  for ours, theirs in zip(run.shared, expected[-2:], strict=True):
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
  np.testing.assert_allclose(run.kept('ann')[0], expected[0], atol=1e-5)


def test_lg_fedavg_of_the_embedding_is_fede_vocab_without_adaptation(
  tff_runtime, model, tmp_path
):
  runs = [
    _Run(
      lg_fedavg,
      lg_fedavg.LgFedAvgSettings(local_layers='embedding'),
      model,
      tmp_path / 'a',
    ),
    _Run(
      fede_vocab,
      fede_vocab.FedeVocabSettings(adaptive_updating=False),
      model,
      tmp_path / 'b',
    ),
  ]
  for run in runs:
    run.round()
    run.round()
  for a, b in zip(runs[0].shared, runs[1].shared, strict=True):
    np.testing.assert_array_equal(a, b)


def test_fed_recon_reconstructs_private_rows_and_trains_the_rest(tff_runtime):
  model, weights = _whole_and_split()
  algorithm = registry.ALGORITHMS['fed_recon']
  process = algorithm.build(model, algorithm.settings(**_SGD), NO_MECHANISM)
  state = process.initialize()
  shared = process.get_model_weights(state).trainable
  assert [w.shape for w in shared] == [w.shape for w in weights[1:]]
  output = stacked_batches.NextRound(process)(state, [_batches('bob')])
  expected = _sgd(model, weights, _batches('bob'), which=[0])
  expected = _sgd(model, expected, _batches('bob'), which=range(1, len(weights)))
  trained = process.get_model_weights(output.state).trainable
  for ours, theirs in zip(trained, expected[1:], strict=True):
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
  train = output.metrics['client_work']['train']
  assert train['num_examples'] == 6 and 0 <= train['accuracy'] <= 1
  # The evaluation of users trains in the same way.
  device = algorithm.client(model, algorithm.settings(**_SGD))
  ours = _local_round(device, weights[:1], weights[1:], _batches('bob'))
  for a, b in zip((*ours.local, *ours.shared), expected, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-5)


def _whole_and_split():
  """A model whose first two rows are private, and its weights."""
  whole = small_models.MeanOfWords(9, 0, _CLASSES, _WIDTH, 0.0, _UNITS)
  split = sequence_classifiers.SplitTableClassifier.of(whole, 2)
  weights = split.initial_weights(0)
  return classification_model.from_classifier(split, weights), weights


def test_of_data_that_are_split_what_reconstructs_does_not_train(tff_runtime):
  """Batches 1, 3 and 5 reconstruct, 2 and 4 train, twice."""
  model, weights = _whole_and_split()
  algorithm = registry.ALGORITHMS['fed_recon']
  settings = algorithm.settings(
    reconstruction_data='half', client_epochs_per_round=2, **_SGD
  )
  batches = _batches('bob', number=5)
  process = algorithm.build(model, settings, NO_MECHANISM)
  output = stacked_batches.NextRound(process)(process.initialize(), [batches])
  expected = _sgd(model, weights, batches[::2], which=[0])
  expected = _sgd(model, expected, batches[1::2] * 2, which=range(1, len(weights)))
  trained = process.get_model_weights(output.state).trainable
  for ours, theirs in zip(trained, expected[1:], strict=True):
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
  # The evaluation of users, and attacks, train in the same way.
  device = algorithm.client(model, settings)
  assert device.reconstructs
  _, ours = device.answer(weights, batches)
  for a, b in zip(ours, expected, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-5)
  # Passes over the data are made in the round, and not by who hands them out.
  assert settings.local_epochs == 1


@pytest.mark.parametrize('algorithm', ['fede_vocab', 'fed_avg'])
def test_the_step_size_falls_within_each_round(tff_runtime, model, tmp_path, algorithm):
  """Over four batches: the whole, three quarters, a half, a quarter."""
  batches = _batches('ann', number=4)
  rates = [0.5, 0.375, 0.25, 0.125]
  if algorithm == 'fede_vocab':
    settings = fede_vocab.FedeVocabSettings(client_decay_within_round=True, **_SGD)
    run = _Run(fede_vocab, settings, model, tmp_path)
    weights = [_tables()['ann'], *model.initial_weights[0][1:]]
    for _ in range(2):  # The next round begins with the whole again.
      run.round(users=['ann'], batches=lambda _: batches)
      for which in ([0], range(len(weights))):
        for rate, batch in zip(rates, batches, strict=True):
          weights = _sgd(model, weights, [batch], which, rate)
    found = [run.kept('ann')[0], *run.shared]
  else:
    whole = _full_model()
    settings = fed_avg.FedAvgSettings(
      client_decay_within_round=True,
      server_optimizer='sgd',
      server_learning_rate=1.0,
      **_SGD,
    )
    process = fed_avg.build_fed_avg(whole, settings, NO_MECHANISM)
    output = stacked_batches.NextRound(process)(process.initialize(), [batches])
    found = process.get_model_weights(output.state).trainable
    weights = list(whole.initial_weights[0])
    for rate, batch in zip(rates, batches, strict=True):
      weights = _sgd(whole, weights, [batch], range(len(weights)), rate)
  for ours, expected in zip(found, weights, strict=True):
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def _local_round(device, local, shared, batches):
  stacked = tf.nest.map_structure(lambda *parts: np.stack(parts), *batches)
  dataset = tf.data.Dataset.from_tensor_slices(stacked)
  local, shared = tuple(map(tf.constant, local)), tuple(map(tf.constant, shared))

  @tf.function
  def train():
    return device.trainer.train(
      local_training.Parts(local, shared),
      device.trainer.initial_optimizer(local),
      dataset,
      dataset,
    ).parts

  return train()


def test_communication_is_that_of_the_shared_weights(model):
  """4 bytes a weight, down and up; the table of 9 words is what makes the difference."""
  shared = 4 * sum(weight.size for weight in model.initial_weights[0][1:])
  ours = fede_vocab.build_fede_vocab(
    model, fede_vocab.FedeVocabSettings(), NO_MECHANISM
  )
  theirs = fed_avg.build_fed_avg(_full_model(), fed_avg.FedAvgSettings(), NO_MECHANISM)
  for process, size in ((ours, shared), (theirs, shared + 4 * 9 * _WIDTH)):
    assert contract.Item('update', size) in contract.sends(process)
    assert size in [item.num_bytes for item in contract.receives(process)]


def test_adamw_and_the_schedule_are_also_those_of_federated_averaging(tff_runtime):
  """AdamW's first step is the step size (and the decay) for each weight that moves."""
  settings = fed_avg.FedAvgSettings(
    client_optimizer='adamw',
    client_learning_rate=0.1,
    client_weight_decay=0.5,
    client_decay_rounds=4,
    server_optimizer='sgd',
    server_learning_rate=1.0,
  )
  model = _full_model()
  process = fed_avg.build_fed_avg(model, settings, NO_MECHANISM)
  state = process.initialize()
  run = stacked_batches.NextRound(process)
  for rate in (0.1, 0.075):
    before = process.get_model_weights(state).trainable[-2]
    state = run(state, [_batches('bob', number=1)]).state
    after = process.get_model_weights(state).trainable[-2]
    step = np.abs(after - (1 - rate * 0.5) * before)
    # Adam adds a little to the denominator, which small gradients feel.
    np.testing.assert_allclose(step, rate, rtol=0.05)
  decay = [float(optimizers.linear_decay(number, 4)) for number in (0, 3, 4, 9)]
  assert decay == [1.0, 0.25, 0.0, 0.0]


def test_predictions_are_of_the_assembled_model(model):
  """What `Client.assemble` puts together is the whole model, table first."""
  device = fede_vocab.client(model, fede_vocab.FedeVocabSettings())
  state = device.first_state([_tables()['ann']])
  leaves = device_state.unpack(tf.constant(state), device.specs)
  shared = tuple(map(tf.constant, model.initial_weights[0][1:]))
  parts, _ = device.assemble(leaves, shared)
  inputs, _ = _batches('ann')[0]
  classifier = small_models.MeanOfWords(6, 0, _CLASSES, _WIDTH, 0.0, _UNITS)
  np.testing.assert_allclose(
    model.predict_on_batch(((*parts.local, *parts.shared), ()), inputs, training=False),
    classifier.logits(
      [_tables()['ann'], *shared],
      classifiers.Inputs(tf.constant(inputs['ids']), tf.zeros([3, 0])),
    ),
    atol=1e-6,
  )
  assert isinstance(device, clients.Client)
