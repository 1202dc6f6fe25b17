"""What a client sends under smoothed attention with central privacy is bounded."""

import numpy as np
import pytest

from tff_textpriv.iterative_processes import smoothed_mean

_CLIP = 0.5


def _length(message) -> float:
  parts = [*message['update'], message['weight']]
  return float(np.sqrt(sum(np.sum(np.square(part)) for part in parts)))


@pytest.mark.parametrize('length', [0.0, 1e-6, 0.1, 0.5, 0.7, 1.0, 3.0, 1e3, 1e15])
def test_no_update_makes_a_message_longer_than_the_clip_norm(length):
  direction = np.random.default_rng(0).normal(size=20)
  update = np.float32(length * direction / np.linalg.norm(direction))
  message = smoothed_mean.message([update[:12], update[12:]], _CLIP)
  assert _length(message) <= _CLIP * (1 + 1e-6)
  # The broken twin, whose weight is measured on a scale twice as long.
  if length == 1.0:
    weight = 1 / (1 + length**2 / (8 * _CLIP**2))
    assert weight * np.hypot(length, _CLIP) > _CLIP


def test_weights_are_a_half_at_twice_the_clip_norms_square():
  update = np.array([np.sqrt(2) * _CLIP], np.float32)
  message = smoothed_mean.message([update], _CLIP)
  assert float(message['weight'][0]) == pytest.approx(_CLIP / 2)
  np.testing.assert_allclose(message['update'][0], update / 2)
