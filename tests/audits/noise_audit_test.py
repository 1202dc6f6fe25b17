"""Checks of noise: sound noise passes, each planted bug fails the check that is for it."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tff_textpriv.aggregators import lattice_noise
from tff_textpriv.audits import bound, findings, noise_audit
from tff_textpriv.privacy import rounded_gaussian

_ROUNDS, _SIZE = 4, 5_000


def _noise(seed=0, rounds=_ROUNDS, size=_SIZE):
  return list(np.random.default_rng(seed).normal(size=[rounds, size]))


def _verdicts(noise):
  return {check.name: check.verdict for check in noise_audit.checks(noise)}


def test_sound_noise_passes_for_every_seed():
  for seed in range(300):
    assert set(_verdicts(_noise(seed)).values()) == {'sound'}


def test_p_values_of_sound_noise_are_those_of_chance():
  found = [noise_audit.checks(_noise(seed, 3, 500)) for seed in range(1_000)]
  for number, name in enumerate(['amount', 'shared', 'tails']):
    values = np.array([each[number].p_value for each in found])
    assert found[0][number].name == name
    # At most a tenth is below a tenth, but for 5 standard errors.
    assert np.mean(values < 0.1) < 0.1 + 5 * np.sqrt(0.09 / 1_000)
    assert np.mean(values < 0.5) > 0.1


_BUGS = {
  'half of it': (lambda noise: [each / 2 for each in noise], 'amount'),
  '5% too little': (lambda noise: [0.95 * each for each in noise], 'amount'),
  'one noise for two rounds': (lambda noise: [*noise[:3], noise[0]], 'shared'),
  'one noise with two signs': (lambda noise: [*noise[:3], -noise[1]], 'shared'),
  'a part of it in two rounds': (
    lambda noise: [*noise[:3], np.concatenate([noise[0][:600], noise[3][600:]])],
    'shared',
  ),
  'one noise for models of two sizes': (
    lambda noise: [*noise[:3], noise[0][:2_000]],
    'shared',
  ),
  'cut off at 3 deviations': (
    lambda noise: [np.clip(each, -3, 3) for each in noise],
    'tails',
  ),
}


@pytest.mark.parametrize('bug', _BUGS)
def test_a_planted_bug_is_found(bug):
  plant, name = _BUGS[bug]
  verdicts = _verdicts(plant(_noise()))
  assert verdicts.pop(name) == 'FAILED'
  assert set(verdicts.values()) == {'sound'}


def test_more_noise_than_is_accounted_for_is_no_fault():
  assert _verdicts([1.2 * each for each in _noise()])['amount'] == 'sound'


def test_one_round_shares_its_noise_with_nobody():
  assert set(_verdicts(_noise(rounds=1))) == {'amount', 'tails'}


def test_each_check_says_what_it_could_have_seen():
  amount, shared, tails = noise_audit.checks(_noise())
  least = float(amount.could_see.removeprefix('less than '))
  just_seen = [(least - 0.002) / each.std() * each for each in _noise()]
  assert _verdicts(just_seen)['amount'] == 'FAILED'
  just_not = [(least + 0.002) / each.std() * each for each in _noise()]
  assert _verdicts(just_not)['amount'] == 'sound'
  assert 0.05 < float(shared.could_see.removeprefix('more than ')) < 0.1
  # What is cut off is a part of the deviation, too, which is a bit smaller then.
  cut = float(tails.could_see.removeprefix('cut off below ')) - 0.1
  assert _verdicts([np.clip(x, -cut, cut) for x in _noise()])['tails'] == 'FAILED'
  assert _verdicts([np.clip(x, -cut - 0.5, cut + 0.5) for x in _noise()])['tails'] == (
    'sound'
  )


def _tail_p_value(draw, limit, number, chunk):
  """Returns how likely as few draws beyond a limit are, or fewer."""
  beyond = sum(
    int(tf.reduce_sum(tf.cast(tf.abs(draw(seed, chunk)) > limit, tf.int32)))
    for seed in range(number // chunk)
  )
  return stats.binom.cdf(beyond, number, 2 * stats.norm.sf(5.7))


@pytest.mark.slow
def test_with_enough_draws_the_noise_has_tails_and_that_of_tensorflow_has_none():
  """Beyond 5.7 standard deviations there should be 10.8 of 900 million draws."""
  number, chunk = 900_000_000, 20_000_000
  old = _tail_p_value(
    lambda seed, size: tf.random.stateless_normal([size], [seed, 1]), 5.7, number, chunk
  )
  assert old < noise_audit.ERROR / 3
  law = rounded_gaussian.RoundedGaussian(2.0**20, shift=0.0)
  new = _tail_p_value(
    lambda seed, size: lattice_noise.draw(law, tf.constant([seed, 1], tf.int64), size),
    int(5.7 * law.stddev),
    number,
    chunk,
  )
  assert new > noise_audit.ERROR


# Several runs, and what a bound says.


def _finding(seed, shift, number=2_000, claim=1.0):
  """Scores of a Gaussian mechanism with the shift for heads."""
  rng = np.random.default_rng(seed)
  coins = rng.random(number) < 0.5
  scores = rng.normal(size=number) + shift * coins
  return _AUDITOR.finding(
    'rounds', 'a user', ('in', 'out'), scores, coins, delta=1e-5, claim=claim, unit='u'
  )


_AUDITOR = findings.Auditor(0.95, (0.05, 0.15, 0.3, 0.6, 1.0))
# Gaussian noise that is (1, 1e-5)-private, and half of it.
_SOUND, _HALF = 0.268, 0.536


def test_half_of_the_noise_is_seen_by_several_runs_and_hardly_by_one():
  alone = [_finding(seed, _HALF) for seed in range(20)]
  assert [each.verdict for each in alone].count(findings.EXCEEDED) < 8
  (together,) = findings.pooled([[each] for each in alone], _AUDITOR)
  assert together.verdict == findings.EXCEEDED
  assert together.num_coins == 40_000
  assert together.num_heads == sum(each.num_heads for each in alone)


def test_several_runs_of_a_sound_mechanism_exceed_nothing():
  for first in range(0, 400, 20):
    runs = [[_finding(seed, _SOUND)] for seed in range(first, first + 20)]
    (together,) = findings.pooled(runs, _AUDITOR)
    assert together.guesses.epsilon < 1


def test_bits_of_several_runs_are_counted_together():
  one = findings.Finding(
    'bits',
    'a bit',
    ('+', '-'),
    500,
    1_000,
    bound.made(1_000, 1_000, 740, 0.0),
    0.0,
    1.0,
  )
  (together,) = findings.pooled([[one], [one], [one]], _AUDITOR)
  assert together.guesses == bound.made(3_000, 3_000, 2_220, 0.0)
  assert together.guesses.epsilon > one.guesses.epsilon


def test_a_bound_far_below_the_claim_is_only_not_refuted():
  far = _finding(0, 1.0, claim=8.0)
  assert far.verdict == findings.NOT_REFUTED
  sentence = findings.sentence(far)
  assert f'could have seen up to {far.guesses.most:.2f}' in sentence
  near = _finding(0, 1.0, claim=far.guesses.epsilon * 1.5)
  assert near.verdict == findings.HOLDS
  assert 'could have seen' not in findings.sentence(near)
  # Of all numbers of guesses, that with the most to show.
  assert far.guesses.most == max(
    bound.lower_bound(2_000, number, number, 1e-5, 1 - 0.05 / 5)
    for number in (100, 300, 600, 1_200, 2_000)
  )
