"""Moves of tokens: gradients and language decide together what stays."""

import numpy as np
import pytest

from tff_textpriv.attacks import discrete_moves, public_text

# Each word is followed by the next one, nearly always.
_TEXTS = [np.arange(start, start + 6) % 8 for start in range(8)] * 5
_LANGUAGE = public_text.PublicText(_TEXTS, 9)
_TRUTH = np.array([2, 3, 4, 5, 6])


def _improve(start, misfit, weight, moves=400):
  return discrete_moves.improve(
    [np.array(text) for text in start],
    misfit,
    _LANGUAGE,
    lambda text, place: np.arange(8),
    weight=weight,
    moves=moves,
    rng=np.random.default_rng(0),
  )


def _of_words(texts):
  """Gradients that tell which words there are, and not where: a bag."""
  return float(
    np.abs(np.bincount(texts[0], minlength=9) - np.bincount(_TRUTH, minlength=9)).sum()
  )


def test_language_puts_words_in_order_that_gradients_leave_open():
  start = [[6, 2, 7, 3, 4]]
  (alone,) = _improve(start, _of_words, weight=0)
  assert sorted(alone) == sorted(_TRUTH) and list(alone) != list(_TRUTH)
  (found,) = _improve(start, _of_words, weight=0.1)
  assert list(found) == list(_TRUTH)


def test_gradients_that_know_better_are_not_overruled():
  true = np.array([2, 5, 3, 6, 4])

  def misfit(texts):
    return float(np.count_nonzero(texts[0] != true))

  (found,) = _improve([_TRUTH], misfit, weight=0.01)
  assert list(found) == list(true)


def test_words_go_from_one_text_to_another():
  def misfit(texts):
    return float(np.count_nonzero(np.concatenate(texts) != [1, 2, 3, 5, 6]))

  found = _improve([[6, 2, 3], [5, 1]], misfit, weight=0.1)
  assert [text.tolist() for text in found] == [[1, 2, 3], [5, 6]]


def test_pairs_are_as_probable_as_they_are_frequent():
  likely = np.exp(_LANGUAGE.log_following(np.array([3, 3]), np.array([4, 5])))
  # All of 3's followers are 4; a fifth comes from the frequency of 4.
  assert likely[0] == pytest.approx(0.8 + 0.2 * _LANGUAGE.frequencies[4])
  assert likely[1] == pytest.approx(0.2 * _LANGUAGE.frequencies[5])
