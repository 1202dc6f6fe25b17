"""The figures of runs: one table of their names, labels, formats and directions.

results.json and metrics.csv name them as here. Those of an evaluation have a prefix:
`test_auc` in results.json, `validation_auc` in metrics.csv.
"""

import dataclasses
import math
from typing import Any

TEST = 'test_'
VALIDATION = 'validation_'


@dataclasses.dataclass(frozen=True)
class Metric:
  """A figure of runs.

  Attributes:
    name: Its name in files, without a prefix.
    label: What people call it.
    pattern: How a value is written.
    better: `higher`, `lower`, or empty where neither is better.
    heading: What heads its column in a table of many runs; by default the label.
    is_tested: Whether it is of an evaluation, and has a prefix.
    is_main: Whether a table of many runs shows it unasked.
    is_perplexity: Whether it is exp of a mean loss. Differences are those of its
      logarithm then, and a closed vocabulary makes it no figure to compare.
  """

  name: str
  label: str
  pattern: str
  better: str = ''
  heading: str = ''
  is_tested: bool = False
  is_main: bool = False
  is_perplexity: bool = False

  @property
  def test(self) -> str:
    """Its name in results.json, if it is of an evaluation."""
    return f'{TEST}{self.name}'

  @property
  def validation(self) -> str:
    """Its name in metrics.csv, if it is of an evaluation."""
    return f'{VALIDATION}{self.name}'

  @property
  def column(self) -> str:
    """Its name in results.json."""
    return self.test if self.is_tested else self.name

  @property
  def short(self) -> str:
    """What heads its column."""
    return self.heading or self.label

  @property
  def higher_is_better(self) -> bool:
    """Whether more of it is better."""
    return self.better == 'higher'

  def shown(self, value: float) -> str:
    """Writes a value."""
    return self.pattern.format(value)

  def is_as_good(self, value: float, other: float) -> bool:
    """Tells whether a value is as good as another, or better."""
    return value >= other if self.higher_is_better else value <= other


def _main(name: str, label: str, pattern: str, heading: str = '') -> Metric:
  """Makes a figure of the run itself that is better if it is lower."""
  return Metric(name, label, pattern, 'lower', heading, is_main=True)


def _tested(
  name: str, label: str, pattern: str, better: str, heading: str = ''
) -> Metric:
  """Makes a figure of evaluations."""
  is_perplexity = name.endswith('perplexity')
  return Metric(name, label, pattern, better, heading, True, True, is_perplexity)


METRICS = {
  metric.name: metric
  for metric in (
    _main('tokenizer_kl', 'KL divergence of the tokenizer', '{:.3f}', 'KL'),
    Metric(
      'tokenizer_kl_floor',
      'KL divergence of a perfect copy of its size',
      '{:.3f}',
      heading='KL floor',
    ),
    _tested('oov_share', 'share of unknown words', '{:.1%}', 'lower', 'OOV'),
    Metric(
      'unknown_row_share',
      'share of words read as the unknown word',
      '{:.1%}',
      'lower',
      'unknown row',
      is_tested=True,
    ),
    _tested('tokens_per_word', 'tokens per word', '{:.2f}', 'lower', 'tokens/word'),
    Metric(
      'tokens_per_word_median_user',
      'tokens per word of the median user',
      '{:.2f}',
      'lower',
      'median user',
      is_tested=True,
    ),
    Metric(
      'tokens_per_word_p90_user',
      'tokens per word that nine of ten users stay below',
      '{:.2f}',
      'lower',
      '90th percentile',
      is_tested=True,
    ),
    _tested('word_accuracy', 'word accuracy', '{:.2%}', 'higher', 'accuracy'),
    _tested('word_perplexity', 'perplexity per word', '{:,.1f}', 'lower', 'perplexity'),
    _tested('token_perplexity', 'perplexity', '{:,.1f}', 'lower'),
    Metric('selected_round', 'best round', '{:.0f}'),
    _main(
      'rounds_to_target',
      'rounds to the target perplexity',
      '{:.0f}',
      'rounds to target',
    ),
    _tested('accuracy', 'accuracy', '{:.2%}', 'higher'),
    _tested('auc', 'AUC', '{:.4f}', 'higher'),
    _tested('global_accuracy', 'global accuracy', '{:.1%}', 'higher'),
    _tested('local_accuracy', 'local accuracy', '{:.1%}', 'higher'),
    Metric(
      'received_global_accuracy',
      'global accuracy as received',
      '{:.1%}',
      'higher',
      'global as received',
      is_tested=True,
    ),
    _tested(
      'received_local_accuracy',
      'local accuracy as received',
      '{:.1%}',
      'higher',
      '... as received',
    ),
    Metric(
      'majority_accuracy',
      'accuracy of always answering the most frequent class',
      '{:.2%}',
      'higher',
      'majority',
      is_tested=True,
    ),
    Metric(
      'global_majority_accuracy',
      'global accuracy of always answering the most frequent class',
      '{:.1%}',
      'higher',
      'majority, global',
      is_tested=True,
    ),
    Metric(
      'local_majority_accuracy',
      'local accuracy of always answering a user’s most frequent class',
      '{:.1%}',
      'higher',
      'majority, local',
      is_tested=True,
    ),
    Metric(
      'twin_accuracy',
      'accuracy of the same model trained in one place, without privacy',
      '{:.2%}',
      'higher',
      'without privacy',
      is_tested=True,
    ),
    Metric(
      'unigram_word_perplexity',
      'perplexity per word of token frequencies alone',
      '{:,.1f}',
      'lower',
      'unigram',
      is_tested=True,
      is_perplexity=True,
    ),
    Metric(
      'local_unigram_word_perplexity',
      'perplexity per word of token frequencies alone, on users’ own posts',
      '{:,.1f}',
      'lower',
      'unigram, local',
      is_tested=True,
      is_perplexity=True,
    ),
    Metric(
      'bytes_down_per_client',
      'bytes received by a client in a round',
      '{:,.0f}',
      'lower',
      'bytes down',
    ),
    _main(
      'bytes_up_per_client',
      'bytes sent by a client in a round',
      '{:,.0f}',
      'bytes up',
    ),
    _main('epsilon', 'epsilon', '{:.2f}'),
    Metric('loss', 'loss', '{:.3f}', 'lower', is_tested=True),
    Metric('train_loss', 'training loss', '{:.3f}', 'lower'),
    Metric('bytes_per_client', 'measured bytes per client', '{:,.0f}', 'lower'),
    Metric('round', 'round', '{:.0f}'),
    Metric('rounds', 'rounds', '{:.0f}'),
    Metric('num_clients', 'clients', '{:,.0f}'),
    Metric('contributing_clients', 'clients that contributed', '{:,.0f}'),
    Metric('dropped_clients', 'clients that dropped out', '{:,.0f}'),
    Metric('left_out_workers', 'workers that did not take part', '{:,.0f}'),
    Metric('num_examples', 'examples', '{:,.0f}'),
    Metric('num_tokens', 'tokens', '{:,.0f}'),
    Metric('num_words', 'words', '{:,.0f}', is_tested=True),
    Metric('num_users', 'users', '{:,.0f}', is_tested=True),
  )
}

# What tells most of a model, where runs have it; the first ones tell more.
UTILITIES = tuple(
  METRICS[name]
  for name in (
    'auc',
    'local_accuracy',
    'accuracy',
    'global_accuracy',
    'word_perplexity',
    'word_accuracy',
  )
)


def is_known(column: str) -> bool:
  """Tells whether a column of results.json or metrics.csv is in the table."""
  return _plain(column) in METRICS


def find(column: str) -> Metric:
  """Returns the figure of a column, with or without a prefix: `test_auc` is `auc`."""
  return METRICS[_plain(column)]


def number(value: Any) -> float | None:
  """Returns a figure that is a finite number, or `None` for anything else."""
  is_number = isinstance(value, int | float) and not isinstance(value, bool)
  return float(value) if is_number and math.isfinite(value) else None


def _plain(column: str) -> str:
  return column.removeprefix(TEST).removeprefix(VALIDATION)
