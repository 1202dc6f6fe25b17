"""Which round counts, and that a checkpoint remembers it."""

import json
import math

import numpy as np
import pytest

from tff_textpriv.training import selection

_SHAPES = [np.zeros(2), np.zeros([1, 3])]


def _weights(number):
  return [np.full(2, number), np.full([1, 3], -number)]


def _search(*perplexities, rule='best_validation', target=None):
  search = selection.Search(selection.Selection(rule, target), _SHAPES)
  for number, value in enumerate(perplexities, start=1):
    search.see(10 * number, {'token_perplexity': value}, _weights(number))
  return search


def test_the_first_of_the_best_rounds_is_selected():
  search = _search(9.0, 5.0, 7.0, 5.0)
  assert search.best_round == 20
  np.testing.assert_array_equal(search.selected(_weights(4))[1], [[-2.0] * 3])


def test_a_model_that_diverged_is_never_the_best():
  search = _search(math.nan, math.inf, 8.0, math.nan)
  assert search.best_round == 30
  search = _search(math.nan, math.inf)
  assert search.best_round is None
  np.testing.assert_array_equal(search.selected(_weights(7))[0], [7, 7])


def test_by_default_the_last_weights_count_and_nothing_more_is_kept():
  search = selection.Search(selection.Selection(), _SHAPES)
  search.see(1, {'accuracy': 1.0}, _weights(1))
  np.testing.assert_array_equal(search.selected(_weights(2))[0], [2, 2])
  assert search.kept('state') == 'state'


@pytest.mark.parametrize(
  ('target', 'reached'), [(10.0, 10), (7.0, 20), (6.9, 30), (3.9, None)]
)
def test_the_first_evaluated_round_at_or_below_the_target_is_noted(target, reached):
  for rule in selection.RULES:
    search = _search(10.0, 7.0, 4.0, 8.0, rule=rule, target=target)
    assert search.target_round == reached


def test_a_search_goes_on_from_a_checkpoint_as_if_it_had_not_stopped():
  whole = _search(9.0, 5.0, 7.0, 6.0, target=6.0)
  first = _search(9.0, 5.0, target=6.0)
  kept, notes = first.kept('state'), json.loads(json.dumps(first.notes()))
  second = selection.Search(selection.Selection('best_validation', 6.0), _SHAPES)
  assert second.restore(kept, notes) == 'state'
  for number, value in ((3, 7.0), (4, 6.0)):
    second.see(10 * number, {'token_perplexity': value}, _weights(number))
  assert second.best_round == whole.best_round == 20
  assert second.target_round == whole.target_round == 20
  for ours, theirs in zip(second.selected([]), whole.selected([]), strict=True):
    np.testing.assert_array_equal(ours, theirs)


def test_before_an_evaluation_a_checkpoint_has_the_same_structure():
  search = selection.Search(selection.Selection('best_validation'), _SHAPES)
  state, weights = search.kept('state')
  assert [weight.shape for weight in weights] == [(2,), (1, 3)]
  restored = selection.Search(selection.Selection('best_validation'), _SHAPES)
  restored.restore((state, weights), search.notes())
  restored.see(5, {'token_perplexity': 1e30}, _weights(1))
  assert restored.best_round == 5
