"""Scores of canaries: under correlated noise they show all that the claim allows for."""

import dataclasses

import numpy as np
import pytest

from tff_textpriv import randomness
from tff_textpriv.audits import training_audit
from tff_textpriv.privacy.ftrl_settings import FtrlPrivacySettings
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.privacy.no_mechanism import NoMechanism

_ROUNDS, _SEPARATION, _MEMBERS, _STDDEV = 11, 5, 4000, 2.0
_INDEPENDENT = NoMechanism('a test')


def _mechanism(noise: str):
  settings = FtrlPrivacySettings(
    noise_multiplier=_STDDEV, delta=1e-5, ftrl_noise=noise, clip=1.0
  )
  return settings.mechanism(
    Deployment(
      'separated',
      100,
      20,
      rounds=_ROUNDS,
      stream=randomness.Stream.of_seed(3),
      num_coordinates=10,
      separation=_SEPARATION,
    )
  )


def _turns() -> np.ndarray:
  """Rounds 0, 5 and 10 of each canary, float [rounds, members]."""
  turns = np.zeros([_ROUNDS, _MEMBERS])
  turns[::_SEPARATION] = 1
  return turns


def _spread(mechanism, scored_by) -> tuple[float, float]:
  """Returns mean and deviation of the scores of canaries that are there."""
  rng = np.random.default_rng(7)
  noising = mechanism.strategy.noising()
  drawn = rng.normal(0, _STDDEV, [noising.shape[1], _MEMBERS])
  scores = training_audit.matched(_turns() + noising @ drawn, _turns(), scored_by)
  return float(scores.mean()), float(scores.std())


# What a tree releases is a little less than all of its noisy nodes.
@pytest.mark.parametrize(
  ('noise', 'most'), [('blt', 1.0), ('banded', 1.0), ('tree', 1.1)]
)
def test_scores_are_as_clear_as_the_sensitivity_allows(noise, most):
  mechanism = _mechanism(noise)
  mean, deviation = _spread(mechanism, mechanism)
  # <R e, R s> / |R e| has the deviation of the noise, and |R e| is how far a canary moves
  # C x, who moves it most in rounds 0, 5 and 10.
  clearest = 3 * _STDDEV / mechanism.sensitivity
  error = clearest / np.sqrt(_MEMBERS)
  assert mean == pytest.approx(3, abs=5 * error)
  margin = 5 * error / np.sqrt(2)
  assert clearest - margin < deviation < most * clearest + margin
  # A broken twin: one that adds up what is seen in its turns shows less.
  _, plain = _spread(mechanism, _INDEPENDENT)
  assert plain > 1.2 * deviation


def test_under_independent_noise_scores_are_sums_over_turns():
  seen = np.arange(6.0).reshape(3, 2)
  turns = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
  scores = training_audit.matched(seen, turns, _INDEPENDENT)
  np.testing.assert_allclose(
    scores, [0 + 4, 0]
  )  # The second one is looked for nowhere.


def test_who_moves_correlated_sums_most_sends_the_same_in_all_rounds():
  mechanism = _mechanism('blt')
  assert mechanism.worst_user_repeats and not _INDEPENDENT.worst_user_repeats
  noising = mechanism.strategy.noising()
  columns = np.linalg.inv(noising)[:, ::_SEPARATION]  # Those of C.
  same = np.linalg.norm(columns.sum(axis=1))
  apart = np.linalg.norm(columns)  # In directions that have nothing in common.
  assert same > apart
  assert dataclasses.replace(mechanism).sensitivity == pytest.approx(same, rel=1e-3)
