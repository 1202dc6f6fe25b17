"""Comparing runs: which figure counts, what dominates what, and what differs."""

import dataclasses

import pytest
import sample_plan

from tff_textpriv.privacy import card, ledger, randomized_bits
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.reports import attacks, comparison, folders, promises


def _compare(tmp_path):
  material = folders.search([tmp_path])
  return comparison.compare(material.runs, material.scoreboards)


def _front(compared):
  return {compared.variants[i].name for i in compared.front}


def test_a_run_that_another_beats_in_everything_is_not_on_the_front(
  write_run, tmp_path
):
  write_run('open', auc=0.9)
  write_run('weak', auc=0.8, epsilon=4, config={'target_epsilon': 4})
  write_run('strong', auc=0.7, epsilon=1, config={'target_epsilon': 1})
  write_run('poor', auc=0.6, epsilon=4, config={'target_epsilon': 4, 'x': 1})
  write_run('worst', auc=0.5, config={'x': 2})
  (compared,) = _compare(tmp_path)
  assert compared.title == 'imdb (embedded)'
  assert [v.name for v in compared.variants] == [
    'open',
    'weak',
    'strong',
    'poor',
    'worst',
  ]
  assert _front(compared) == {'open', 'weak', 'strong'}
  assert compared.criteria == ('AUC', 'epsilon (of the same promise)')


def test_bytes_count_where_all_are_known(write_run, tmp_path):
  write_run('large', auc=0.9, bytes_up_per_client=1000)
  write_run('small', auc=0.8, config={'x': 1}, bytes_up_per_client=10)
  (compared,) = _compare(tmp_path)
  assert _front(compared) == {'large', 'small'}
  write_run('unknown', auc=0.7, config={'x': 2})
  (compared,) = _compare(tmp_path)
  assert _front(compared) == {'large'}
  assert 'bytes sent' not in compared.criteria


def test_equal_runs_are_both_on_the_front(write_run, tmp_path):
  write_run('a', auc=0.9)
  write_run('b', auc=0.9, config={'x': 1})
  (compared,) = _compare(tmp_path)
  assert _front(compared) == {'a', 'b'}


def test_epsilons_of_different_promises_are_never_compared(cards):
  central = promises.read(cards[1])
  other = dataclasses.replace(central, epsilon=100.0, label='local')
  assert not central.is_at_least(other) and not other.is_at_least(central)
  assert central.is_at_least(promises.NONE) and not promises.NONE.is_at_least(other)
  assert central.is_at_least(promises.read(cards[4]))
  assert not promises.read(cards[4]).is_at_least(central)


def test_the_promise_of_randomized_bits_is_that_of_the_whole_run():
  settings = randomized_bits.LocalPrivacySettings(epsilon_per_coordinate=0.5)
  plan = settings.mechanism(Deployment('fixed', 1, 1, rounds=1, num_coordinates=10))
  book = ledger.Ledger.of(plan)
  book.charge(plan, ['a'])
  privacy = card.privacy_card(book, plan, task='imdb', algo='rr_ldp', facts={})
  promise = promises.read(privacy)
  assert promise.epsilon == privacy['epsilon'] > 0.5
  assert promise.label == 'local, a user’s whole run, delta 1e-06'
  assert 'epsilon_per_coordinate is of one bit' in promise.explanation


def test_central_promises_name_relation_deployment_and_delta(cards):
  plain = promises.read(cards[1])
  assert plain.label == 'central, a user added or removed, delta 1e-06'
  scaled = dataclasses.replace(sample_plan.PLAN, population=10**7)
  assert scaled.promise[0] == 'central, a user added or removed, accounted deployment'
  fixed = dataclasses.replace(sample_plan.PLAN, sampling='fixed')
  assert fixed.promise[0] == 'central, a user replaced by another'
  assert promises.read(cards[None]) == promises.NONE
  assert promises.read(None) == promises.NONE


@pytest.mark.parametrize('words', [None, 3, {}, {'label': []}])
def test_of_a_card_that_does_not_say_nothing_is_assumed(words):
  odd = {'epsilon': 1.0, 'delta': 'x', 'promise': words, 'ledger': [3, None]}
  promise = promises.read(odd)
  assert promise.epsilon == 1.0
  assert 'central' not in promise.label and 'local' not in promise.label


def test_runs_that_differ_in_the_seed_are_one_variant_with_a_mean(write_run, tmp_path):
  write_run('eps=1_seed=0', auc=0.7, config={'seed': 0})
  write_run('eps=1_seed=1', auc=0.9, config={'seed': 1})
  (compared,) = _compare(tmp_path)
  (variant,) = compared.variants
  assert variant.name == 'eps=1 (2 seeds)'
  assert variant.utility == pytest.approx(0.8)
  assert compared.differing == ['seed']


def test_runs_on_other_data_are_compared_apart(write_run, tmp_path):
  write_run('a')
  write_run('b', config={'data': 'reviews.csv'})
  assert [one.title for one in _compare(tmp_path)] == [
    'imdb (embedded)',
    'imdb (reviews.csv)',
  ]


def test_a_closed_vocabulary_is_not_judged_by_its_perplexity(write_run, tmp_path):
  figures = {'test_word_perplexity': 50, 'test_word_accuracy': 0.2}
  write_run('bpe', auc=None, **figures)
  (compared,) = _compare(tmp_path)
  assert compared.utility.label == 'perplexity per word'
  assert not compared.utility.higher_is_better
  write_run('word', auc=None, config={'tokenizer': 'word'}, **figures)
  (compared,) = _compare(tmp_path)
  assert compared.utility.label == 'word accuracy'


def test_leakage_goes_to_runs_with_the_attacked_privacy_settings_only(
  write_run, write_attack, tmp_path
):
  write_run('attacked', config={'algo': 'rr_ldp', 'epsilon_per_coordinate': 1})
  write_run('other', config={'algo': 'rr_ldp', 'epsilon_per_coordinate': 9})
  write_run('plain')
  write_attack(
    {'rr_ldp': [0.1, 0.3, None], 'fed_avg': [0.9]},
    privacy={'rr_ldp': {'epsilon_per_coordinate': 1}, 'fed_avg': {}},
  )
  (compared,) = _compare(tmp_path)
  assert {v.name: v.leakage for v in compared.variants} == {
    'attacked': 0.3,
    'other': None,
    'plain': 0.9,
  }


def test_an_attack_on_another_task_says_nothing(write_run, write_attack, tmp_path):
  write_run('plain', config={'task': 'agnews'})
  folder = write_attack({'fed_avg': [0.9]})
  (run,) = folders.search([tmp_path]).runs
  assert attacks.read(folder, 'x').leakage(run) is None


def test_settings_that_differ_are_found(write_run, tmp_path):
  write_run('a', config={'rate': 0.1, 'vectors_file': None})
  write_run('b', config={'rate': 0.2, 'vectors_file': None, 'own': True})
  (compared,) = _compare(tmp_path)
  assert compared.differing == ['rate', 'own']
  shown = [comparison.shown_setting(run, 'own') for run in compared.runs]
  assert shown == ['–', 'true']
  assert comparison.shown_setting(compared.runs[0], 'vectors_file') == 'not set'
