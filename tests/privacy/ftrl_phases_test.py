"""Correlated noise over phases: what they cost together, computed by other means."""

import dataclasses
import itertools

import dp_accounting
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from tff_textpriv.privacy import card, card_page, ledger_entries
from tff_textpriv.privacy.costs import SampledGaussian
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ftrl_settings import FtrlPrivacySettings
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.mechanism import Deployment

_DELTA = 1e-5
# 40 users, 10 in a round: each takes part every fourth round.
_SEPARATION = 4
_SIZES = (1000, 1200, 900)


def _plans(stages, noise='blt', sizes=_SIZES, **flags):
  """Makes the mechanisms of all phases of a run, whose models differ in size."""
  flags = flags or {'target_epsilon': 3.0}
  settings = FtrlPrivacySettings(ftrl_noise=noise, delta=_DELTA, **flags)
  deployment = Deployment(
    'separated', 40, 10, rounds=sum(stages), separation=_SEPARATION, stages=stages
  )
  return [
    settings.mechanism(
      dataclasses.replace(deployment, stage=stage, num_coordinates=sizes[stage])
    )
    for stage in range(len(stages))
  ]


def _charged(plans):
  """Charges all rounds of all phases, as a run does."""
  ledger = Ledger.of(plans[0])
  for plan in plans:
    for _ in range(plan.strategy.rounds):
      assert not ledger.would_exceed(plan)
      ledger.charge(plan)
  return ledger


def _page(plan, ledger):
  return card_page.render(card.privacy_card(ledger, plan, task='t', algo='a', facts={}))


def _squared_move(strategy):
  """Returns the square of how far a user moves C x, by trying all sets of rounds."""
  noising = strategy.noising()
  # C is what M undoes: of all that M z could come from, the least.
  matrix = np.linalg.pinv(noising)
  rounds = strategy.rounds
  sets = (
    chosen
    for size in range(1, rounds + 1)
    for chosen in itertools.combinations(range(rounds), size)
    if all(b - a >= _SEPARATION for a, b in itertools.pairwise(chosen))
  )
  return max(np.sum(matrix[:, list(chosen)].sum(axis=1) ** 2) for chosen in sets)


def _gaussian_epsilon(moved):
  """Returns the epsilon of a Gaussian mechanism that is moved by so many deviations.

  Balle and Wang, Improving the Gaussian Mechanism for Differential Privacy (2018).
  """
  cdf = scipy.stats.norm.cdf

  def excess(epsilon):
    here, there = moved / 2 - epsilon / moved, -moved / 2 - epsilon / moved
    return cdf(here) - np.exp(epsilon) * cdf(there) - _DELTA

  return scipy.optimize.brentq(excess, 0, 100)


@pytest.mark.parametrize('noise', ['blt', 'banded'])
@pytest.mark.parametrize('stages', [(9,), (4, 5), (5, 5), (3, 6, 2)])
def test_the_ledger_ends_where_the_phases_take_it_and_at_what_was_promised(
  noise, stages
):
  plans = _plans(stages, noise)
  squares = [_squared_move(plan.strategy) / plan.noise_multiplier**2 for plan in plans]
  ledger = _charged(plans)
  assert ledger.epsilon() == pytest.approx(_gaussian_epsilon(sum(squares) ** 0.5), 3e-3)
  assert 2.99 < ledger.epsilon() <= 3.0
  assert ledger.epsilon('rdp') > ledger.epsilon()
  assert [entry.count for entry in ledger.entries] == list(stages)


def test_trees_of_phases_are_those_of_a_run_that_begins_new_trees():
  one, two = _plans((8, 8), 'tree', noise_multiplier=2.0)
  (whole,) = _plans((16,), 'tree', noise_multiplier=2.0)
  assert whole.strategy.restart == one.strategy.restart == 4
  assert _charged([one, two]).epsilon() == pytest.approx(
    _charged([whole]).epsilon(), 1e-6
  )


def test_rounds_of_phases_that_are_alike_are_not_further_rounds_of_one():
  one, two = _plans((5, 5), sizes=(1000, 1000), noise_multiplier=2.0)
  assert one.strategy == two.strategy and one.cost != two.cost
  ledger = _charged([one, two])
  alone = _charged([dataclasses.replace(one, rounds=5, other_strategies=())])
  assert alone.epsilon() < ledger.epsilon() < np.inf
  # Noise that begins anew, charged as if it went on: the error that stages are there for.
  (whole,) = _plans((10,), noise_multiplier=2.0)
  assert _charged([whole]).epsilon() < 0.97 * ledger.epsilon()
  # The same rounds again, after those that were planned.
  for _ in range(5):
    ledger.charge(one)
  assert ledger.epsilon() == np.inf


def test_a_ledger_of_phases_is_read_back_as_it_was():
  one, two = _plans((4, 5))
  ledger = Ledger.from_json(_charged([one, two]).to_json())
  assert ledger.entries == _charged([one, two]).entries
  assert ledger.epsilon() == _charged([one, two]).epsilon()


def test_a_far_larger_model_ends_the_run_early_and_never_beyond_its_promise():
  # A hundred million weights after a thousand; drawing their noise costs more.
  plans = _plans((4, 5), sizes=(10**3, 10**8))
  ledger = Ledger.of(plans[0])
  for plan in plans:
    for _ in range(plan.strategy.rounds):
      if not ledger.would_exceed(plan):
        ledger.charge(plan)
  assert ledger.epsilon() <= 3.0


def test_other_phases_are_a_part_of_the_plan():
  one, two = _plans((4, 5))
  assert one.noise_multiplier == pytest.approx(two.noise_multiplier, 1e-5)
  assert one.rounds == two.rounds == 9
  assert one.participations == two.participations == 1 + 2
  assert one.sensitivity == pytest.approx(two.sensitivity)
  assert (len(one.round_seeds()), len(two.round_seeds())) == (4, 5)
  assert len(two.mask_seeds()) == 6
  with pytest.raises(PrivacyError, match='a strategy for 5 rounds is none for 9'):
    dataclasses.replace(two, other_strategies=())


def test_the_card_counts_all_phases_and_says_how_they_add_up():
  plans = _plans((4, 5))
  ledger = _charged(plans)
  numbers = plans[-1].describe(ledger)
  assert (numbers['rounds_done'], numbers['rounds_planned']) == (9, 9)
  assert numbers['phases'] == 2 and numbers['participations'] == 3
  text = _page(plans[-1], ledger)
  assert 'Phases. The run has 2' in text
  moved = plans[-1].sensitivity / plans[-1].noise_multiplier
  assert f'{moved**2 / 2:.4g}' in text  # rho
  (alone,) = _plans((9,))
  assert 'Phases.' not in _page(alone, _charged([alone]))


def test_gaussian_mechanisms_are_composed_as_one_and_others_are_left_alone():
  def entry(cost, count=1):
    return ledger_entries.Entry(ledger_entries.CENTRAL, 'x', 'x', count, cost)

  one, two = _plans((4, 5), noise_multiplier=2.0)
  event, _ = ledger_entries.composition((entry(one.cost, 4), entry(two.cost, 5)))
  (gaussian,) = event.events
  assert gaussian.noise_multiplier == pytest.approx(2.0 / two.sensitivity)
  sampled = SampledGaussian('poisson', 40, 10, 1.0)
  mixed = ledger_entries.composition((entry(sampled, 3), entry(one.cost, 4)))[0]
  assert mixed.events == (
    dp_accounting.SelfComposedDpEvent(sampled.event(), 3),
    one.cost.composed(4),
  )
