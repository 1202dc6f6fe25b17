"""What clients read and send, read off each process: written out here by hand."""

import collections
import types

import algorithm_rounds
import numpy as np
import pytest
import sample_plan
import small_models
import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv import randomness
from tff_textpriv.aggregators import messages, of_mechanism, sound_updates
from tff_textpriv.iterative_processes import classification_model, contract, registry
from tff_textpriv.models import sequence_classifiers
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.training import cohort_data

# Nine words of four numbers; three units; one output for two classes.
_CLASSIFIER = small_models.MeanOfWords(9, 0, 2, 4, 0.0, 3)
_OUTPUT = 4 * (3 + 1)
_SHARED = 4 * (4 * 3 + 3) + _OUTPUT
_WHOLE = 4 * 9 * 4 + _SHARED
_PRIVATE_ROWS = 2

# A mean is a sum and a number; means and numbers are float32.
_METRICS = {'loss': 8, 'accuracy': 8, 'num_examples': 4, 'contributing_clients': 4}
_MEAN = _METRICS | {'weight': 4, 'left_out_clients': 4}
_DP_MEAN = _METRICS | {'update': _WHOLE, 'left_out': 4}
# Whether it takes part and is left out, peak, total, moment and the weight, as a sum and as
# the largest: seven numbers beside the attended update and the direct one.
_ATTENTION = 2 * _WHOLE + 4 * 7
_SENT = {
  'central': {},
  'dp_fed_avg': _DP_MEAN,
  'dp_ftrl': _DP_MEAN,
  'fed_att': _METRICS | {'update': _ATTENTION},
  'fed_avg': _MEAN | {'update': _WHOLE},
  # With an update the number of its steps.
  'fed_nova': _MEAN | {'update': _WHOLE + 4},
  'fed_prox': _MEAN | {'update': _WHOLE},
  'fed_recon': {
    'loss': 8,
    'accuracy': 8,
    'num_examples': 4,
    'update': _WHOLE - 4 * 4 * _PRIVATE_ROWS,
    'weight': 4,
    'left_out_clients': 4,
  },
  'fed_sgd': _MEAN | {'update': _WHOLE},
  'fede_vocab': _MEAN | {'update': _SHARED},
  'lg_fedavg': _MEAN | {'update': _OUTPUT},
  # No update, but the number of examples goes along as its weight.
  'local_only': _MEAN,
  # Each time with its weight.
  'robust_avg': _METRICS | {'update': _WHOLE + 4, 'left_out_clients': 4},
  # 55 weights are 55 bits.
  'rr_ldp': {'bits': 7},
  'scaffold': _MEAN | {'update': _WHOLE, 'variate': _WHOLE},
  'subword_resample': _DP_MEAN,
}
_WITH_STATE = ('adaptation', 'batches', 'state')
_READ = collections.defaultdict(
  lambda: ('batches',),
  fed_att=('batches', 'seed'),
  rr_ldp=('batches', 'seed'),
  fede_vocab=_WITH_STATE,
  lg_fedavg=_WITH_STATE,
  local_only=_WITH_STATE,
  scaffold=('batches', 'state'),
)
# How often a client answers with an update: for a median once more for each iteration.
_ANSWERS = collections.defaultdict(lambda: 1, robust_avg=5)
# What comes down beside the model: the clip norm, the multiple of the step, a variate, how
# far clients usually go, points nearer and nearer to the median.
_MORE_RECEIVED = collections.defaultdict(
  int,
  fed_att=4,
  robust_avg=4 * _WHOLE,
  dp_fed_avg=4,
  subword_resample=4,
  fede_vocab=4,
  lg_fedavg=4,
  local_only=4,
  scaffold=_WHOLE,
)


def _model(name='fed_avg'):
  classifier = _CLASSIFIER
  if name == 'fed_recon':
    classifier = sequence_classifiers.SplitTableClassifier.of(classifier, _PRIVATE_ROWS)
  return classification_model.from_classifier(classifier, classifier.initial_weights(0))


def _build(name, flags=None, **settings):
  """Returns the process and its mechanism."""
  algorithm, model = registry.ALGORITHMS[name], _model(name)
  mechanism = algorithm_rounds.mechanism(algorithm, model, **(flags or {}))
  return algorithm.build(model, algorithm.settings(**settings), mechanism), mechanism


def _sends(process):
  return collections.Counter(map(tuple, contract.sends(process)))


def _by_hand(sent, answers=1):
  return collections.Counter(
    {item: answers if item[0] == 'update' else 1 for item in sent.items()}
  )


def _is_covered(mechanism, process):
  """Tells whether everything that the promise is said to cover is really sent."""
  return mechanism.covered <= {item.name for item in contract.sends(process)}


@pytest.mark.parametrize('name', registry.ALGORITHMS)
def test_clients_send_read_and_receive_what_the_algorithm_says(name):
  process, mechanism = _build(name)
  assert _sends(process) == _by_hand(_SENT[name], _ANSWERS[name])
  assert _is_covered(mechanism, process)
  assert contract.reads(process) == _READ[name]
  model_size = _SENT[name].get('update', 0)
  if name in ('fed_att', 'fed_nova', 'robust_avg', 'rr_ldp'):
    model_size = _WHOLE
  received = sum(item.num_bytes for item in contract.receives(process))
  assert received == model_size + _MORE_RECEIVED[name]


@pytest.mark.parametrize(
  ('name', 'flags', 'settings', 'sent', 'covered'),
  [
    (
      'dp_fed_avg',
      {'adaptive_clipping': True, 'noise_multiplier': 0.1},
      {},
      _DP_MEAN | {'unclipped_half': 4},
      {'update', 'unclipped_half'},
    ),
    ('dp_fed_avg', {}, {}, _DP_MEAN, {'update'}),
    (
      'rr_ldp',
      {'coordinates_per_client': 17},
      {},
      {'bits': 3, 'selection': 16},
      {'bits', 'selection'},
    ),
    (
      'rr_ldp',
      {'privacy_claim': False},
      {'client_weighting': 'examples'},
      _MEAN | {'bits': 7},
      {'bits'},
    ),
    (
      'fed_att',
      {'clip_norm': 1.0, 'noise_magnitude': 0.1},
      {'attention': 'uniform'},
      {'update': _WHOLE + 4 * 7},
      {'update'},
    ),
    ('fed_avg', {}, {'client_decay_rounds': 3}, _MEAN | {'update': _WHOLE}, set()),
    (
      'lg_fedavg',
      {},
      {'local_layers': 'embedding'},
      _MEAN | {'update': _SHARED},
      set(),
    ),
  ],
)
def test_flags_change_what_is_sent_and_what_is_covered(
  name, flags, settings, sent, covered
):
  process, mechanism = _build(name, flags, **settings)
  assert _sends(process) == _by_hand(sent)
  assert mechanism.covered == covered
  assert _is_covered(mechanism, process)


@pytest.mark.parametrize(
  ('name', 'sent'),
  [
    # Two bytes for each of 55 weights.
    ('priv_unit', {'report': 110}),
    # One bit, and of which coordinate it is.
    ('sqkr', {'bits': 1, 'selection': 16}),
  ],
)
def test_private_vectors_are_all_that_is_sent_and_covered(name, sent):
  algorithm, model = registry.ALGORITHMS['rr_ldp'].choices[name], _model()
  mechanism = algorithm_rounds.mechanism(algorithm, model)
  process = algorithm.build(model, algorithm.settings(), mechanism)
  assert _sends(process) == _by_hand(sent)
  assert mechanism.covered == set(sent) and mechanism.is_local_promise
  assert contract.reads(process) == ('batches', 'seed')


@pytest.mark.parametrize('name', registry.ALGORITHMS)
def test_under_a_local_promise_all_that_is_sent_is_covered(name):
  flags = {'clip_norm': 1.0, 'noise_magnitude': 0.1} if name == 'fed_att' else {}
  process, mechanism = _build(name, flags)
  if mechanism.is_local_promise:
    assert {item.name for item in contract.sends(process)} == mechanism.covered
  assert mechanism.is_local_promise == (name in ('rr_ldp', 'fed_att'))


def test_weights_by_examples_are_refused_under_a_local_promise():
  with pytest.raises(PrivacyError, match='use --client_weighting=uniform'):
    _build('rr_ldp', client_weighting='examples')


def test_a_promise_about_something_that_is_never_sent_is_noticed():
  process, _ = _build('rr_ldp')
  assert not _is_covered(sample_plan.PLAN, process)


class _Talkative(tff.aggregators.WeightedAggregationFactory):
  """A mean whose clients send one value more: the largest number of their update."""

  def __init__(self, add_up):
    self._add_up = add_up

  def create(self, value_type, weight_type):
    mean = sound_updates.SoundMeanFactory().create(value_type, weight_type)

    @tff.tensorflow.computation(value_type)
    def largest(value):
      return tf.reduce_max([tf.reduce_max(leaf) for leaf in tf.nest.flatten(value)])

    @tff.federated_computation(mean.next.type_signature.parameter)
    def next_round(state, values, weights):
      output = mean.next(state, values, weights)
      return tff.templates.MeasuredProcessOutput(
        output.state, output.result, self._add_up(tff.federated_map(largest, values))
      )

    return tff.templates.AggregationProcess(mean.initialize, next_round)


def _named(value):
  process = messages.NamedSumFactory('largest').create(tff.TensorType(np.float32))
  return process.next(process.initialize(), value).result


def _secure_sum(value):
  whole = tff.tensorflow.computation(lambda x: tf.cast(x, tf.int32), np.float32)
  return tff.federated_secure_sum_bitwidth(tff.federated_map(whole, value), 8)


@pytest.mark.parametrize(
  ('add_up', 'one_more'),
  [
    (_named, ('largest', 4)),
    # Without a name it is known by its type.
    (tff.federated_sum, ('float32', 4)),
    (lambda value: tff.federated_mean(value, value), ('float32', 4)),
    (_secure_sum, ('int32', 4)),
  ],
  ids=['named', 'sum', 'mean', 'secure sum'],
)
def test_a_process_that_sends_one_more_value_is_noticed(monkeypatch, add_up, one_more):
  monkeypatch.setattr(of_mechanism, 'mean', lambda *_, **__: _Talkative(add_up))
  process, _ = _build('fed_avg')
  more = _sends(process) - _by_hand(_SENT['fed_avg'])
  assert one_more in more


class _Bench:
  """Provides what a workbench does: batches, and those of adaptation."""

  def batches(self, user, round_number):
    return [f'{user} trains in {round_number}']

  def adaptation(self, user, round_number):
    return [f'{user} adapts in {round_number}']


class _Devices:
  """Provides the files of a round."""

  def begin(self, users, round_number):
    return [(f'{user} before', f'{user} after {round_number}') for user in users]


@pytest.mark.parametrize(
  'name', algorithm_rounds.with_variants_on_request(registry.ALGORITHMS)
)
def test_a_run_provides_what_clients_read_in_their_order(name):
  process, _ = _build(name)
  devices = _Devices() if registry.ALGORITHMS[name].keeps_state else None
  data = cohort_data.CohortData(
    process, _Bench(), randomness.Stream.of_seed(0), devices
  )
  for user, parts in zip(('ann', 'bob'), data(['ann', 'bob'], 7), strict=True):
    if _READ[name] == ('batches',):
      parts = (parts,)
    by_name = dict(zip(_READ[name], parts, strict=True))
    assert by_name['batches'] == [f'{user} trains in 7']
    if 'adaptation' in by_name:
      assert by_name['adaptation'] == [f'{user} adapts in 7']
    if 'state' in by_name:
      (files,) = by_name['state']
      assert list(files) == [f'{user} before', f'{user} after 7']
    if 'seed' in by_name:
      (seed,) = by_name['seed']
      assert seed.shape == (2,) and seed.dtype == np.int64


def test_clients_that_read_something_else_are_refused():
  process, _ = _build('fed_avg')
  state_type, data_type = process.next.type_signature.parameter
  curious_type = collections.OrderedDict(
    batches=data_type.member, location=tff.SequenceType(np.int32)
  )

  @tff.federated_computation(state_type, tff.FederatedType(curious_type, tff.CLIENTS))
  def next_round(state, data):
    return process.next(state, data.batches)

  curious = tff.learning.templates.LearningProcess(
    process.initialize,
    next_round,
    process.get_model_weights,
    process.set_model_weights,
  )
  assert contract.reads(curious) == ('batches', 'location')
  with pytest.raises(cohort_data.UnknownDataError, match='read location'):
    cohort_data.CohortData(curious, _Bench(), randomness.Stream.of_seed(0), None)
  # Devices that keep nothing have no state to read.
  with pytest.raises(cohort_data.UnknownDataError, match='read state'):
    cohort_data.CohortData(
      _build('scaffold')[0], _Bench(), randomness.Stream.of_seed(0), None
    )


def test_what_is_no_learning_process_has_no_clients():
  one_place = types.SimpleNamespace()
  assert contract.sends(one_place) == contract.receives(one_place) == []
  assert contract.reads(one_place) == ('batches',)
