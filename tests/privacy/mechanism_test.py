"""A mechanism that says nothing: no promise, no aggregation, no round, no raw update."""

import collections
import dataclasses
import json
import math

import numpy as np
import pytest
import sample_plan
import small_models
import tensorflow as tf

from tff_textpriv import randomness
from tff_textpriv.aggregators import of_mechanism
from tff_textpriv.attacks import observations, rounds
from tff_textpriv.iterative_processes import classification_model, registry
from tff_textpriv.privacy import card as card_lib
from tff_textpriv.privacy import card_page
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.local_gaussian import LocalGaussian
from tff_textpriv.privacy.mechanism import Deployment, Mechanism, MechanismSettings
from tff_textpriv.privacy.no_mechanism import NoMechanism
from tff_textpriv.runtime import cohorts
from tff_textpriv.training import program as program_lib


@dataclasses.dataclass(frozen=True)
class _Silent(Mechanism):
  """Has the numbers that every mechanism has, and answers nothing."""

  delta: float = 1e-5
  accountant: str = 'rdp'
  budget_epsilon: float | None = None
  rounds: int = 1
  population: int = 1
  unit: str = 'user'


class _Elsewhere(_Silent):
  """Names a module in which there is no aggregation."""

  aggregator = 'messages'


class _Boastful(_Silent):
  """Promises something, and does not say what."""

  no_guarantee_reason = None


class _Free(_Boastful):
  """Promises something for which no round costs anything."""

  def entry(self, group):
    return None

  def headline(self, epsilon):
    return f'({epsilon}, 1e-05)-differential privacy'


_MODEL = small_models.MeanOfWords(9, 0, 2, 4, 0.0, 3)


def _functional():
  return classification_model.from_classifier(_MODEL, _MODEL.initial_weights(0))


def _batch():
  return (
    collections.OrderedDict(
      dense=np.zeros((2, 0), np.float32),
      dropout_seed=np.zeros(2, np.int32),
      ids=np.array([[1, 2], [3, 4]], np.int32),
      num_examples=np.array(2, np.int32),
    ),
    np.array([0, 1], np.int32),
  )


def _card(promised, ledger):
  return card_lib.privacy_card(
    ledger, promised, task='imdb', algo='new', facts={}, sent=[('update', 220)]
  )


@pytest.mark.parametrize('unknown', [_Silent(), _Boastful(), _Free()])
def test_an_unknown_round_is_not_charged_and_the_ledger_stays_as_it_was(unknown):
  ledger = Ledger(1e-5)
  ledger.charge(sample_plan.PLAN)
  before = ledger.to_json()
  for ask in (ledger.charge, ledger.would_exceed, ledger.epsilon_after_next_round):
    with pytest.raises(PrivacyError, match=type(unknown).__name__):
      ask(unknown)
  assert ledger.to_json() == before


def test_a_card_of_an_unknown_mechanism_promises_and_covers_nothing():
  # Not even after reports and rounds that do have a guarantee.
  ledger = Ledger(1e-5)
  ledger.charge(sample_plan.PLAN)
  ledger.charge_local('words', 'three words a user', epsilon=1.0)
  assert math.isfinite(ledger.epsilon())
  card = _card(_Silent(), ledger)
  assert card['headline'] == 'No formal guarantee'
  assert card['epsilon'] is None and not card['formal_guarantee']
  assert card['reasons'] == ['_Silent makes no claim']
  assert not any(item['covered'] for item in card['leaves_device'])
  assert all(row['epsilon'] is None for row in card['accounting'].values())
  page = card_page.render(json.loads(json.dumps(card)))
  assert '**No formal guarantee**' in page and '| update | 220 | **no** |' in page


def test_a_promise_without_words_has_no_card():
  with pytest.raises(PrivacyError, match='_Boastful does not say what it promises'):
    _card(_Boastful(), Ledger(1e-5))


def test_nothing_is_aggregated_or_seen_of_a_mechanism_without_an_aggregator():
  with pytest.raises(PrivacyError, match='_Silent names no aggregator'):
    of_mechanism.mean(_Silent(), by_examples=False)
  with pytest.raises(PrivacyError, match='_Silent names no aggregator'):
    of_mechanism.seen(_Silent(), [tf.zeros([3])], tf.constant([0, 1]), 'server')
  # A module of that name there is, and it has no mean.
  with pytest.raises(PrivacyError, match='_Elsewhere has no mean'):
    of_mechanism.mean(_Elsewhere(), by_examples=False)


@pytest.mark.parametrize(
  'name', [name for name, each in registry.ALGORITHMS.items() if not each.gathers_data]
)
def test_no_algorithm_can_be_built_with_an_unknown_mechanism(name):
  algorithm = registry.ALGORITHMS[name]
  with pytest.raises(PrivacyError, match='_Silent names no aggregator'):
    algorithm.build(_functional(), algorithm.settings(), _Silent())


def test_no_promise_is_made_for_an_average_that_does_not_keep_it():
  algorithm = registry.ALGORITHMS['robust_avg']
  with pytest.raises(PrivacyError, match='does not keep what CentralGaussian promises'):
    algorithm.build(_functional(), algorithm.settings(), sample_plan.PLAN)


def test_an_attacker_is_not_shown_the_update_as_it_is():
  algorithm = registry.ALGORITHMS['fed_avg']
  weights = _MODEL.initial_weights(0)
  data = rounds.RoundData([], [_batch()])
  arguments = (weights, data, np.array([1, 2], np.int32))

  def client(mechanism):
    return observations.Client(algorithm, algorithm.settings(), mechanism, _MODEL)

  seen = client(NoMechanism('a twin')).observe(*arguments)
  assert np.abs(seen.gradients[1]).max() > 0
  with pytest.raises(PrivacyError, match='_Silent names no aggregator'):
    client(_Silent()).observe(*arguments)


class _CountingProcess:
  """Counts the rounds that are asked of it."""

  def __init__(self, process):
    self.rounds = 0
    self.initialize = process.initialize
    self.get_model_weights = process.get_model_weights
    self._process = process

  def next(self, state, cohort):
    self.rounds += 1
    return self._process.next(state, cohort)


def test_a_program_under_an_unknown_mechanism_stops_before_its_first_round(
  tff_runtime, tmp_path
):
  algorithm = registry.ALGORITHMS['fed_avg']
  none = NoMechanism('a twin', delta=1e-5)
  counting = _CountingProcess(
    algorithm.build(_functional(), algorithm.settings(), none)
  )

  def train(mechanism, folder):
    program = program_lib.Program(
      process=counting,
      sampler=cohorts.CohortSampler(
        ['ann', 'bob'], 2, 'fixed', randomness.Stream.of_seed(0)
      ),
      client_data=lambda users, _: [[_batch()] for _ in users],
      evaluate=lambda weights: {},
      mechanism=mechanism,
      total_rounds=1,
      rounds_per_eval=1,
      rounds_per_checkpoint=1,
    )
    program_lib.train(program, Ledger(1e-5), folder, tff_runtime)

  def num_released(folder):
    return len((folder / 'metrics.csv').read_text().splitlines()[1:])

  with pytest.raises(PrivacyError, match='_Silent does not say what a round costs'):
    train(_Silent(), tmp_path / 'silent')
  assert (counting.rounds, num_released(tmp_path / 'silent')) == (0, 0)
  train(none, tmp_path / 'none')
  assert (counting.rounds, num_released(tmp_path / 'none')) == (1, 1)


def test_settings_that_make_no_mechanism_claim_nothing_and_are_refused():
  assert not MechanismSettings().claims
  with pytest.raises(PrivacyError, match='makes no mechanism'):
    MechanismSettings().mechanism(Deployment('fixed', 1, 1, 1))


@pytest.mark.parametrize('kind', ['Magic', 'Cost', 'object', ''])
def test_a_ledger_with_a_kind_of_cost_that_nobody_knows_is_refused(kind):
  ledger = Ledger(1e-5)
  ledger.charge(sample_plan.PLAN)
  assert Ledger.from_json(ledger.to_json()) == ledger
  content = json.loads(ledger.to_json())
  content['entries'][0]['cost']['kind'] = kind
  with pytest.raises(PrivacyError, match=f'cost of kind {kind!r}'):
    Ledger.from_json(json.dumps(content))


@pytest.mark.parametrize('lost', ['cost', 'kind', 'noise_multiplier'])
def test_a_ledger_that_has_lost_a_part_of_a_cost_is_refused(lost):
  ledger = Ledger(1e-5)
  ledger.charge(sample_plan.PLAN)
  content = json.loads(ledger.to_json())
  entry = content['entries'][0]
  del (entry if lost == 'cost' else entry['cost'])[lost]
  with pytest.raises(PrivacyError, match='not a privacy ledger'):
    Ledger.from_json(json.dumps(content))


@pytest.mark.parametrize('sampling', ['poisson', 'fixed'])
def test_who_promises_something_must_say_for_which_cohorts(sampling):
  with pytest.raises(PrivacyError, match='does not say whether its figure holds'):
    _Boastful().check_sampling(sampling)
  _Silent().check_sampling(sampling)
  NoMechanism('none').check_sampling(sampling)
  # What each user pays for does not depend on who else is drawn.
  LocalGaussian(clip_norm=1.0, stddev=1.0, delta=1e-5).check_sampling(sampling)
