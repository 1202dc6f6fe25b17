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
  'epsilon': ('epsilon', '{:.2f}'),
}


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
    columns: Which figures the table shows.
    x_label: What the arms differ in, if that is a number; plots lines then.
    plots_rounds: Whether the plot shows perplexity over rounds.
  """

  name: str
  title: str
  arms: Callable[['Scale'], list[Arm]]
  columns: tuple[str, ...] = tuple(COLUMNS)
  x_label: str = ''
  plots_rounds: bool = False


@dataclasses.dataclass(frozen=True)
class Scale:
  """What of the command's flags decides the arms.

  Attributes:
    total_rounds: Rounds of every run.
    vocab_size: Size of the vocabulary.
    model_size: `tiny`, `small` or `paper`.
    cross_data: A text file of another domain, for the cross-domain study.
  """

  total_rounds: int
  vocab_size: int
  model_size: str
  cross_data: str
