"""The privacy card says what is promised, and what is not."""

import dataclasses
import json
import math

import pytest
from sample_plan import PLAN

from tff_textpriv.privacy import card as card_lib
from tff_textpriv.privacy import card_page
from tff_textpriv.privacy.adaptive_clipping import AdaptiveClipping
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.no_mechanism import NoMechanism

_NO_MECHANISM = NoMechanism('updates are averaged as they are', delta=PLAN.delta)


def card_and_page(plan, rounds=3, ledger=None, sent=(), **facts):
  ledger = ledger or Ledger(PLAN.delta)
  for _ in range(rounds):
    ledger.charge(plan)
  card = card_lib.privacy_card(
    ledger, plan, task='stackoverflow', algo='dp_fed_avg', facts=facts, sent=sent
  )
  return card, card_page.render(card), ledger


def test_a_private_run_has_its_figure_and_both_accountants():
  card, page, ledger = card_and_page(PLAN)
  assert card['formal_guarantee']
  assert card['epsilon'] == ledger.epsilon('rdp')
  assert card['accounting']['rdp']['epsilon'] == ledger.epsilon('rdp')
  assert card['accounting']['pld']['epsilon'] == ledger.epsilon('pld')
  assert card['headline'].endswith('1e-05)-differential privacy for every user')
  assert f'**{card["headline"]}**' in page
  assert 'trusted aggregator' in page
  assert 'adding or removing all the data of one user' in page
  assert '| rounds done | 3 |' in page
  assert '| rounds planned | 100 |' in page
  assert 'accounted sizes are those of the run itself' in page


def test_the_card_says_what_its_figure_rests_on():
  card, page, _ = card_and_page(PLAN)
  (source,) = card['sources']  # Each once, however many rounds there are.
  assert 'Poisson-sampled' in source and f'- {source}' in page
  everybody = dataclasses.replace(PLAN, cohort=PLAN.population)
  fixed = dataclasses.replace(PLAN, sampling='fixed', accountant='rdp')
  sources = [card_and_page(plan)[0]['sources'][0] for plan in (everybody, fixed)]
  assert sources[0].startswith('Gaussian mechanism, which composes exactly')
  assert 'without replacement' in sources[1]
  without, page, _ = card_and_page(_NO_MECHANISM)
  assert without['sources'] == [] and 'rests on' not in page


def test_the_figure_is_rounded_up():
  card, page, ledger = card_and_page(PLAN)
  shown = float(card['headline'].split('(')[1].split(',')[0])
  assert ledger.epsilon() <= shown < ledger.epsilon() + 1e-3


def test_the_card_names_what_is_not_covered():
  _, page, _ = card_and_page(PLAN)
  for words in ('Training metrics', 'evaluation users', 'hyper-parameters'):
    assert words in page


def test_a_run_without_noise_has_no_guarantee_and_no_figure():
  card, page, _ = card_and_page(
    dataclasses.replace(PLAN, noise_multiplier=0.0, clip=math.inf)
  )
  assert card['headline'] == 'No formal guarantee'
  assert card['epsilon'] is None
  assert 'no noise is added' in page
  assert 'neither clipped nor noised' in page
  assert 'differential privacy for every user' not in page
  json.dumps(card, allow_nan=False)


def test_a_plan_without_noise_claims_nothing_even_before_its_first_round():
  card, _, _ = card_and_page(dataclasses.replace(PLAN, noise_multiplier=0.0), rounds=0)
  assert not card['formal_guarantee']
  assert card['epsilon'] is None


@pytest.mark.parametrize('rounds', [0, 3])
def test_an_algorithm_without_a_mechanism_claims_nothing(rounds):
  card, page, _ = card_and_page(_NO_MECHANISM, rounds)
  assert not card['formal_guarantee'] and card['epsilon'] is None
  assert 'updates are averaged as they are' in page
  assert 'no mechanism protects the users' in page


def test_a_comparison_says_why_it_claims_nothing():
  card, page, _ = card_and_page(dataclasses.replace(PLAN, claim=False))
  assert card['epsilon'] is None
  assert '--privacy_claim=false' in page


def test_a_scaled_run_says_whose_figure_it_is():
  scaled = dataclasses.replace(PLAN, population=100_000, cohort=2000)
  card, page, _ = card_and_page(scaled)
  assert card['headline'].startswith('This model: no guarantee. The deployment it')
  assert 'scaled by 0.01' in page
  assert 'The simulation does not itself carry the guarantee' in page
  assert '| accounted users per round | 2,000 |' in page
  assert '| simulated users per round | 20 |' in page


def test_fixed_size_cohorts_have_no_pld_figure_and_say_why():
  card, page, ledger = card_and_page(dataclasses.replace(PLAN, sampling='fixed'))
  assert card['epsilon'] == ledger.epsilon()
  assert card['accounting']['pld']['epsilon'] is None
  assert 'not available: PLD cannot account cohorts of a fixed size' in page
  assert 'replacing all the data of one user' in page
  assert 'twice the clip norm' in page


def test_adaptive_clipping_shows_both_shares():
  plan = dataclasses.replace(PLAN, adaptive=AdaptiveClipping(0.5, 0.2, 1.0))
  card, page, _ = card_and_page(plan)
  assert card['plan']['update_noise_multiplier'] == pytest.approx((4 / 3) ** 0.5)
  assert '| ... of the update | 1.155 |' in page
  assert '| ... of the clipping counts | 2 |' in page


@pytest.mark.parametrize(
  ('source', 'words'),
  [('seeded', 'experiments only'), ('system', 'secret.key and nowhere else')],
)
def test_the_source_of_noise_comes_with_its_caveat(source, words):
  _, page, _ = card_and_page(dataclasses.replace(PLAN, noise_source=source))
  assert words in page


def test_the_ledger_shows_free_post_processing_and_local_reports():
  ledger = Ledger(PLAN.delta)
  ledger.charge_post_processing('remap', 'rows a|b')
  ledger.charge_local('words', 'three words a user', epsilon=8.0)
  card, page, _ = card_and_page(PLAN, ledger=ledger)
  assert card['epsilon'] > 8
  assert '| remap | all | 1 | 0 (post-processing) | rows a\\|b |' in page
  assert 'epsilon 8, added' in page
  assert 'Local differential privacy' in page


def test_local_reports_do_not_make_a_guarantee_of_updates_without_one():
  ledger = Ledger(PLAN.delta)
  ledger.charge_local('words', 'three words a user', epsilon=8.0)
  assert ledger.epsilon() == 8.0
  card, page, _ = card_and_page(_NO_MECHANISM, rounds=0, ledger=ledger)
  assert card['epsilon'] is None and card['headline'] == 'No formal guarantee'
  # What was reported is said all the same.
  assert 'epsilon 8, added' in page
  assert 'trusted aggregator' not in page


def test_what_leaves_the_device_is_marked_by_what_the_figure_covers():
  sent = [('update', 4000), ('loss', 8)]
  card, page, _ = card_and_page(PLAN, sent=sent)
  assert [item['covered'] for item in card['leaves_device']] == [True, False]
  assert '| update | 4,000 | yes |' in page and '| loss | 8 | **no** |' in page
  card, page, _ = card_and_page(dataclasses.replace(PLAN, claim=False), sent=sent)
  assert not any(item['covered'] for item in card['leaves_device'])
  assert '| update | 4,000 | **no** |' in page


def test_the_card_is_written_whole_and_replaces_the_old_one(tmp_path):
  folder = tmp_path / 'run'
  card, _, ledger = card_and_page(PLAN, tokenizer='public')
  card_lib.write(card, folder)
  card, page, _ = card_and_page(PLAN, ledger=ledger, tokenizer='public')
  card_lib.write(card, folder)
  assert sorted(path.name for path in folder.iterdir()) == [
    'privacy_card.json',
    'privacy_card.md',
  ]
  assert json.loads((folder / 'privacy_card.json').read_text()) == card
  assert (folder / 'privacy_card.md').read_text() == page
  assert '| tokenizer | public |' in page


def test_a_card_that_cannot_be_written_leaves_the_old_one(tmp_path):
  card, _, _ = card_and_page(PLAN)
  card_lib.write(card, tmp_path)
  before = (tmp_path / 'privacy_card.json').read_text()
  with pytest.raises(ValueError):
    card_lib.write({**card, 'epsilon': math.nan}, tmp_path)
  assert (tmp_path / 'privacy_card.json').read_text() == before
  assert len(list(tmp_path.iterdir())) == 2


def test_rho_is_that_of_the_users_with_most_rounds():
  def rho(*groups):
    ledger = Ledger.of(PLAN)
    for group in groups:
      ledger.charge(PLAN, group=group)
    page = card_page.render(
      card_lib.privacy_card(ledger, PLAN, task='reddit', algo='dp_fed_avg', facts={})
    )
    (row,) = [line for line in page.splitlines() if 'rho-zCDP' in line]
    return float(row.split('|')[2])

  # Rounds of noise multiplier 1 have a rho of a half each; halves do not add up.
  assert rho('', '', '') == 1.5
  assert rho('first', 'first', 'second') == 1.0
  assert rho('', 'first', 'second') == 1.0
