"""What a study is: runs side by side, and the paper's figures beside ours."""

import dataclasses
from collections.abc import Callable, Mapping

# Figures of results.json and how a table heads them.
COLUMNS = {
  'tokenizer_kl': ('KL', '{:.3f}'),
  'test_oov_share': ('OOV', '{:.1%}'),
  'test_tokens_per_word': ('tokens/word', '{:.2f}'),
  'test_word_accuracy': ('accuracy', '{:.2%}'),
  'test_word_perplexity': ('perplexity', '{:.1f}'),
  'test_token_perplexity': ('perplexity', '{:.1f}'),
  'selected_round': ('best round', '{:.0f}'),
  'rounds_to_target': ('rounds to target', '{:.0f}'),
  'test_accuracy': ('accuracy', '{:.2%}'),
  'test_auc': ('AUC', '{:.4f}'),
  'test_global_accuracy': ('global accuracy', '{:.1%}'),
  'test_local_accuracy': ('local accuracy', '{:.1%}'),
  'test_received_local_accuracy': ('... as received', '{:.1%}'),
  'bytes_down_per_client': ('bytes down', '{:,.0f}'),
  'bytes_up_per_client': ('bytes up', '{:,.0f}'),
  'epsilon': ('epsilon', '{:.2f}'),
}
LANGUAGE_MODEL_COLUMNS = (
  'tokenizer_kl',
  'test_oov_share',
  'test_tokens_per_word',
  'test_word_accuracy',
  'test_word_perplexity',
  'epsilon',
)
# How plots and tables name a validation metric.
VALIDATION_METRICS = {
  'word_perplexity': 'perplexity per word',
  'token_perplexity': 'perplexity',
  'auc': 'AUC',
  'local_accuracy': 'local accuracy',
}


def column_format(column: str) -> tuple[str, str]:
  """Returns a column's header and format; `validation_auc@5` is that of round 5."""
  name, _, round_number = column.partition('@')
  return (f'R={round_number}', '{:.3f}') if round_number else COLUMNS[name]


@dataclasses.dataclass(frozen=True)
class Arm:
  """One run of a study.

  Attributes:
    label: The row's name, e.g. `BPE sample`.
    flags: What this run has and others do not, `--algo` among them.
    paper: The paper's figures for it: by task, then by column.
    curve: The line of a plot that its point belongs to; empty if there is none.
    x: Its place on the plot's axis.
  """

  label: str
  flags: tuple[str, ...]
  paper: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
  curve: str = ''
  x: float | None = None


@dataclasses.dataclass(frozen=True)
class Study:
  """Runs that answer one question.

  Attributes:
    name: The value of `--study`.
    title: The question, and where the paper asks it.
    arms: Makes the runs, given the settings of the study's command.
    columns: Which figures the table shows; `validation_auc@5` for one of round 5.
    x_label: What the arms differ in, if that is a number; plots lines then.
    x_scale: The scale of that axis.
    plots_rounds: Whether the plot shows the metric over rounds.
    tasks: The tasks it can be run on, the usual one first.
    metric: What is plotted, of validation users over rounds or else of the test; or
      `rounds_to_target`, or `bytes_up_per_client`.
    row_header: What the rows of the table are.
    default_flags: Flags of all runs that have them; those of the command line count
      more.
  """

  name: str
  title: str
  arms: Callable[['Scale'], list[Arm]]
  columns: tuple[str, ...] = LANGUAGE_MODEL_COLUMNS
  x_label: str = ''
  x_scale: str = 'log'
  plots_rounds: bool = False
  tasks: tuple[str, ...] = ('stackoverflow', 'reddit')
  metric: str = 'word_perplexity'
  row_header: str = 'tokenizer'
  default_flags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Scale:
  """What of the command's flags decides the arms.

  Attributes:
    task: The task's name.
    total_rounds: Rounds of every run.
    num_clients: The number of training clients, where settings tell it.
    vocab_size: Size of the vocabulary of a language model.
    model_size: A language model's: `tiny`, `small` or `paper`.
    cross_data: A text file of another domain, for the cross-domain study.
    vectors_file: A file of word vectors, if one is given.
    given: The names of the flags that are passed on to the runs.
  """

  task: str
  total_rounds: int
  num_clients: int = 0
  vocab_size: int = 0
  model_size: str = ''
  cross_data: str = ''
  vectors_file: str = ''
  given: frozenset[str] = frozenset()
