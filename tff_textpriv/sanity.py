"""Is it any good? A run's figures beside those of guesses that need no model.

Always answering the most frequent class, or word frequencies alone, costs nobody any
privacy. A model that does not beat them has learnt nothing worth having, whatever its
epsilon is. The guesses are measured on the same test users and tokens as the model.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv import metrics

# Differences of accuracies below so many standard errors are no difference.
_STANDARD_ERRORS = 2.0
# Above it, whatever a user has written is next to certain in a test of two hypotheses.
LARGEST_TELLING_EPSILON = 20.0


@dataclasses.dataclass(frozen=True)
class _Rival:
  """A guess that needs no model.

  Attributes:
    figure: The figure of the model that it is for.
    name: Its own figure's name.
    what: What it does.
    metric: What both measure.
  """

  figure: str
  name: str
  what: str
  metric: metrics.Metric


_MAJORITY = 'always answering the most frequent class'
_OWN_MAJORITY = 'always answering each user’s own most frequent class'
_UNIGRAM = 'frequencies of tokens alone (unigram)'
_ACCURACY, _PERPLEXITY = (
  metrics.METRICS[name] for name in ('accuracy', 'word_perplexity')
)
_RIVALS = (
  _Rival('accuracy', 'majority_accuracy', _MAJORITY, _ACCURACY),
  _Rival(
    'global_accuracy',
    'global_majority_accuracy',
    _MAJORITY,
    metrics.METRICS['global_accuracy'],
  ),
  _Rival(
    'local_accuracy',
    'local_majority_accuracy',
    _OWN_MAJORITY,
    metrics.METRICS['local_accuracy'],
  ),
  _Rival('word_perplexity', 'unigram_word_perplexity', _UNIGRAM, _PERPLEXITY),
  _Rival(
    'local_word_perplexity', 'local_unigram_word_perplexity', _UNIGRAM, _PERPLEXITY
  ),
)
_TWIN = metrics.METRICS['twin_accuracy']
_CHANCE = 0.5


@dataclasses.dataclass(frozen=True)
class Comparison:
  """A figure of a run beside that of a guess.

  Attributes:
    metric: What is measured.
    value: The model's.
    rival: The guess's.
    what: What the guess does.
    is_beaten: Whether the model is better, by more than chance allows.
    but: What is to be said for a model that is not better.
  """

  metric: metrics.Metric
  value: float
  rival: float
  what: str
  is_beaten: bool
  but: str = 'as it is, the model is of no use'

  @property
  def sentence(self) -> str:
    """Says what the comparison amounts to."""
    value, rival = self.metric.shown(self.value), self.metric.shown(self.rival)
    if self.is_beaten:
      return f'{self.metric.label} {value}; {self.what}: {rival}'
    return (
      f'NOT BETTER than {self.what}: {self.metric.label} {value} against {rival}; '
      f'{self.but}'
    )


def compare(results: Mapping[str, Any]) -> list[Comparison]:
  """Compares the figures of results.json with those of guesses, where both are known."""
  found = []
  for rival in _RIVALS:
    value = results.get(f'{metrics.TEST}{rival.figure}')
    guess = results.get(f'{metrics.TEST}{rival.name}')
    if not isinstance(value, int | float) or not isinstance(guess, int | float):
      continue
    better = _is_better(rival.metric, value, guess, _margin(results, guess))
    found.append(Comparison(rival.metric, value, guess, rival.what, better))
  ranking = _ranking(results)
  if ranking is None:
    return found
  if ranking.is_beaten:
    ranks = 'only its ranking of texts is of use'
    found = [dataclasses.replace(one, but=ranks) for one in found]
  return [*found, ranking]


def lines(results: Mapping[str, Any]) -> list[str]:
  """Says in sentences whether a model is any good, and what its privacy costs it."""
  said = [one.sentence for one in compare(results)]
  twin = metrics.number(results.get(_TWIN.test))
  if twin is not None:
    said.append(
      f'the same model trained in one place, without privacy: {_TWIN.shown(twin)}'
    )
  epsilon = metrics.number(results.get('epsilon'))
  if epsilon is not None and epsilon > LARGEST_TELLING_EPSILON:
    said.append(
      f'epsilon {epsilon:,.0f} promises next to nothing; it begins to mean something '
      f'below {LARGEST_TELLING_EPSILON:g}'
    )
  return said


def is_of_use(comparisons: Sequence[Comparison]) -> bool | None:
  """Tells whether a guess is beaten; `None` if there are none to compare with."""
  return any(one.is_beaten for one in comparisons) if comparisons else None


def _ranking(results: Mapping[str, Any]) -> Comparison | None:
  """Compares the ranking of texts of two classes with chance, if it was measured."""
  auc = metrics.METRICS['auc']
  value = metrics.number(results.get(auc.test))
  share = metrics.number(results.get('test_majority_accuracy'))
  number = metrics.number(results.get(f'{metrics.TEST}num_examples'))
  if value is None or share is None or number is None:
    return None
  # The variance of the area under the curve of scores that tell nothing.
  spread = math.sqrt(1 / (12 * max(number * share * (1 - share), 1 / 12)))
  better = _is_better(auc, value, _CHANCE, _STANDARD_ERRORS * spread)
  return Comparison(auc, value, _CHANCE, 'chance', better)


def _margin(results: Mapping[str, Any], share: float) -> float:
  """Returns by how much an accuracy may differ by chance."""
  number = results.get(f'{metrics.TEST}num_examples')
  if not isinstance(number, int) or number < 1:
    return 0.0
  return _STANDARD_ERRORS * math.sqrt(max(share * (1 - share), 0.0) / number)


def _is_better(
  metric: metrics.Metric, value: float, rival: float, margin: float
) -> bool:
  """Tells whether a figure is better than a guess's, by more than chance allows."""
  if not math.isfinite(value):
    return False
  return value > rival + margin if metric.higher_is_better else value < rival
