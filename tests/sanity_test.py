"""Whether a model is said to be of use, and when it is said to be of none."""

import pytest

from tff_textpriv import sanity


def _results(**figures):
  return {'epsilon': 2.0, **{f'test_{name}': value for name, value in figures.items()}}


def _sentence(**figures):
  (comparison,) = sanity.compare(_results(**figures))
  return comparison.sentence


def test_a_model_that_beats_the_most_frequent_class_is_said_beside_it():
  said = _sentence(accuracy=0.8, majority_accuracy=0.62, num_examples=1000)
  assert said == ('accuracy 80.00%; always answering the most frequent class: 62.00%')


@pytest.mark.parametrize('accuracy', [0.5, 0.62, 0.64])
def test_a_model_that_is_better_by_chance_at_most_is_of_no_use(accuracy):
  # Two standard errors are 2 sqrt(0.62 * 0.38 / 1000) = 0.031.
  figures = {'majority_accuracy': 0.62, 'num_examples': 1000}
  said = _sentence(accuracy=accuracy, **figures)
  assert said.startswith('NOT BETTER than always answering the most frequent class')
  assert said.endswith('as it is, the model is of no use')
  assert _sentence(accuracy=0.66, **figures).startswith('accuracy 66.00%')


def test_a_perplexity_must_be_below_that_of_token_frequencies():
  assert 'NOT BETTER' in _sentence(word_perplexity=900, unigram_word_perplexity=800)
  assert 'NOT' not in _sentence(word_perplexity=700, unigram_word_perplexity=800)
  diverged = _sentence(word_perplexity=float('inf'), unigram_word_perplexity=800)
  assert 'NOT BETTER' in diverged


def test_a_ranking_may_be_of_use_where_answers_are_not():
  figures = {'accuracy': 0.9, 'majority_accuracy': 0.9, 'num_examples': 1000}
  answers, ranking = sanity.compare(_results(**figures, auc=0.8))
  assert not answers.is_beaten and answers.sentence.endswith('of texts is of use')
  assert ranking.is_beaten
  assert sanity.is_of_use([answers, ranking])
  assert not sanity.is_of_use(sanity.compare(_results(**figures, auc=0.51)))


def test_users_own_models_are_compared_with_users_own_frequent_classes():
  compared = sanity.compare(
    _results(
      global_accuracy=0.4,
      global_majority_accuracy=0.25,
      local_accuracy=0.88,
      local_majority_accuracy=0.9,
    )
  )
  assert [each.is_beaten for each in compared] == [True, False]


def test_an_epsilon_that_promises_nothing_is_said_to():
  assert sanity.lines({'epsilon': 35816.0}) == [
    'epsilon 35,816 promises next to nothing; it begins to mean something below 20'
  ]
  assert sanity.lines({'epsilon': 8.0}) == sanity.lines({'epsilon': None}) == []


def test_without_guesses_nothing_is_claimed():
  assert sanity.compare(_results(accuracy=0.9)) == []
  assert sanity.is_of_use([]) is None
