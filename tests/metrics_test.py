"""The table of figures: complete, and with directions."""

import pytest

from tff_textpriv import metrics


def test_a_figure_has_the_same_entry_whatever_was_evaluated():
  auc = metrics.find('auc')
  assert metrics.find('test_auc') is metrics.find('validation_auc') is auc
  assert (auc.test, auc.validation) == ('test_auc', 'validation_auc')
  assert not metrics.is_known('test_test_auc') and not metrics.is_known('made_up')
  with pytest.raises(KeyError):
    metrics.find('made_up')


def test_more_accuracy_and_less_perplexity_are_better():
  accuracy, perplexity = metrics.find('accuracy'), metrics.find('word_perplexity')
  assert accuracy.is_as_good(0.5, 0.4) and not accuracy.is_as_good(0.4, 0.5)
  assert perplexity.is_as_good(90, 100) and not perplexity.is_as_good(100, 90)
  assert perplexity.is_perplexity and not accuracy.is_perplexity
  assert (accuracy.shown(0.8125), perplexity.shown(1234.56)) == ('81.25%', '1,234.6')


def test_what_is_preferred_or_shown_unasked_has_a_direction():
  for metric in metrics.METRICS.values():
    assert metric.better in ('higher', 'lower', '')
    assert metric.better or not metric.is_main
  assert all(metric.is_main for metric in metrics.UTILITIES)
