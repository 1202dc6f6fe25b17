"""Noise that clients add: what it is worth, in the ledger and on the card."""

import json
import math
import re

import pytest
from scipy import stats

from tff_textpriv.privacy import card, card_page, ledger
from tff_textpriv.privacy.local_gaussian import LocalGaussianSettings
from tff_textpriv.privacy.mechanism import Deployment

_PRIVATE = LocalGaussianSettings(
  noise_magnitude=0.5, noise_stddev=8.0, clip_norm=0.25, delta=1e-5
)


def _charged(settings, rounds):
  plan = settings.mechanism(Deployment('fixed', population=3, cohort=3, rounds=9))
  spent = ledger.Ledger.of(plan)
  for users in rounds:
    spent.charge(plan, users)
  return plan, spent


def _card(plan, spent):
  made = card.privacy_card(spent, plan, task='ptb', algo='fed_att', facts={})
  return made, card_page.render(json.loads(json.dumps(made)))


def _delta_of_gaussian(epsilon: float, sensitivity_over_noise: float) -> float:
  """The exact delta of a Gaussian mechanism (Balle and Wang, 2018, theorem 8)."""
  mu = sensitivity_over_noise
  return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(
    -mu / 2 - epsilon / mu
  )


@pytest.mark.parametrize('accountant', ['rdp', 'pld'])
def test_the_figure_is_that_of_a_gaussian_with_twice_the_clip_as_sensitivity(
  accountant,
):
  plan, spent = _charged(_PRIVATE, [['ann', 'bob'], ['bob'], ['cem'], ['bob', 'cem']])
  assert plan.stddev == 4.0 and spent.rounds_by_user == {'ann': 1, 'bob': 3, 'cem': 2}
  # Bob answered three times. Each answer can move by 2 * 0.25 under noise of 4; three
  # Gaussians are one whose sensitivity is sqrt(3) times as large.
  ratio = math.sqrt(3) * 0.5 / 4
  epsilon = spent.epsilon(accountant)
  assert _delta_of_gaussian(epsilon, ratio) <= 1e-5
  slack = {'rdp': 0.75, 'pld': 0.99}[accountant]
  assert _delta_of_gaussian(slack * epsilon, ratio) > 1e-5
  # The broken twins: a sensitivity of one clip norm, and of one round.
  assert _delta_of_gaussian(spent.epsilon('pld') * 0.9, ratio) > 1e-5
  assert _delta_of_gaussian(spent.epsilon('pld') * 0.6, ratio / 2) < 1e-5
  assert _delta_of_gaussian(spent.epsilon('pld') * 0.7, ratio / math.sqrt(3)) < 1e-5


def test_cohorts_drawn_at_random_amplify_nothing():
  _, few = _charged(_PRIVATE, [['ann'], ['bob'], ['cem']])
  _, all_rounds = _charged(_PRIVATE, [['ann', 'bob', 'cem']])
  assert few.epsilon() == all_rounds.epsilon()


def test_the_ledger_survives_a_restart():
  plan, spent = _charged(_PRIVATE, [['ann', 'bob'], ['bob']])
  again = ledger.Ledger.from_json(spent.to_json())
  assert again == spent and again.epsilon() == spent.epsilon()
  again.charge(plan, ['bob'])
  assert again.entries[0].count == 3 and again.epsilon() > spent.epsilon()


@pytest.mark.parametrize(
  ('flags', 'reason'),
  [
    ({}, 'add no noise'),
    ({'clip_norm': 1.0}, 'add no noise'),
    ({'noise_magnitude': 0.5}, 'not clipped.*--clip_norm'),
    (
      {'noise_magnitude': 0.5, 'clip_norm': 1.0, 'privacy_claim': False},
      'claims nothing',
    ),
  ],
)
def test_noise_without_clipping_is_no_guarantee(flags, reason):
  plan, spent = _charged(LocalGaussianSettings(**flags), [['ann']])
  assert spent.epsilon() == math.inf
  made, page = _card(plan, spent)
  assert made['headline'] == 'No formal guarantee' and made['epsilon'] is None
  assert 'No formal guarantee' in page
  assert made['formal_guarantee'] is False
  assert re.search(reason, ' '.join(made['reasons']))


def test_the_card_says_what_is_sent_and_who_pays_most():
  plan, spent = _charged(_PRIVATE, [['ann', 'bob'], ['bob'], ['bob']])
  made, page = _card(plan, spent)
  assert made['formal_guarantee'] and made['epsilon'] == spent.epsilon()
  assert 'local differential privacy for everything that a user sends' in page
  assert 'clips the update to an L2 norm of 0.25' in page
  assert 'at most 0.5 away' in page and 'amplifies nothing' in page
  rows = made['plan']['by_user']
  assert [row['rounds'] for row in rows] == ['fewest: 1', 'median: 3', 'most: 3']
  assert rows[0]['epsilon'] < rows[-1]['epsilon'] == pytest.approx(spent.epsilon())
  assert {name: row['note'] for name, row in made['accounting'].items()} == {
    'rdp': 'for comparison',
    'pld': 'headline',
  }


def test_words_that_users_report_add_to_the_figure():
  plan, spent = _charged(_PRIVATE, [['ann']])
  alone = spent.epsilon()
  spent.charge_local('heavy hitters', 'three words', 2.0)
  assert spent.epsilon() == pytest.approx(alone + 2.0)
