"""Settings of a run that are not its task's nor its algorithm's."""

import dataclasses

from tff_textpriv import settings as settings_lib
from tff_textpriv.models import presets
from tff_textpriv.privacy import count_mean_sketch
from tff_textpriv.settings import setting


@dataclasses.dataclass(frozen=True)
class RunSettings(settings_lib.Settings):
  """What decides the result, together with the task and the algorithm."""

  total_rounds: int = setting(100, 'Rounds of training.', low=1)
  clients_per_round: int = setting(
    20,
    'Users a round: the expected number, or with fixed cohorts the exact one.',
    low=1,
  )
  cohort_sampling: str = setting(
    'poisson',
    'How users are drawn: each independently (poisson), or a fixed number without '
    'replacement.',
    choices=('poisson', 'fixed'),
  )
  rounds_per_eval: int = setting(
    20, 'Rounds between evaluations on the validation users.', low=1
  )
  seed: int = setting(
    0, 'Decides every random number of the run.', low=0, high=2**31 - 1
  )


@dataclasses.dataclass(frozen=True)
class MachineSettings(settings_lib.Settings):
  """Where a run writes and what it runs on; may differ when it is resumed."""

  root_output_dir: str = setting('runs', 'The folder of all runs.')
  experiment_name: str | None = setting(
    None, 'The name of the run and of its folder; by default the task and algorithm.'
  )
  rounds_per_checkpoint: int = setting(20, 'Rounds between checkpoints.', low=1)
  num_workers: int = setting(
    1, 'TFF worker processes on this machine among which a cohort is spread.', low=1
  )
  workers: tuple[str, ...] = setting(
    (),
    'Workers on other machines, as host:port,... (see tff_textpriv.tools.worker); '
    'used instead of local ones.',
  )
  max_concurrent_clients: int = setting(
    0,
    'Clients that a worker trains at the same time, which bounds its memory; 0 for as '
    'many as it has cores.',
    low=0,
  )


@dataclasses.dataclass(frozen=True)
class LanguageModelSettings(count_mean_sketch.HeavyHittersSettings):
  """The text, the tokenizer and the model of a language-model task."""

  data: str = setting(
    'embedded',
    'The data: embedded (generated, nothing to download), download (by TFF’s own '
    'loader), or the path of a file.',
  )
  data_dir: str = setting(
    'runs/data', 'The folder for downloads and for the cache of encoded text.'
  )
  public_data: str | None = setting(
    None,
    'Public text, one document a line, for the tokenizer; the embedded data bring '
    'their own.',
  )
  num_users: int = setting(300, 'Training users of the embedded data.', low=1)
  model: str = setting(
    'lstm_tiny',
    'The model: tiny trains on a laptop, paper has 3 layers and 14M parameters.',
    choices=presets.PRESETS,
  )
  tied_embeddings: bool = setting(
    True, 'Use the input embedding as the output layer too.'
  )
  dropout: float = setting(
    0.0, 'Share of the model’s units that training drops.', low=0, below=1
  )
  tokenizer: str = setting(
    'bpe',
    'Sub-words, which can write any word (bpe), or the most frequent words (word).',
    choices=('bpe', 'word'),
  )
  vocab_size: int = setting(2000, 'Size of the vocabulary.', low=5)
  tokenizer_source: str = setting(
    'public',
    'What the (first) tokenizer is trained on: public text; words that users report '
    'under local differential privacy (heavy_hitters); or, for comparison only, as '
    'there is no privacy in it, the training users’ own text (oracle).',
    choices=('public', 'heavy_hitters', 'oracle'),
  )
  train_users: str = setting(
    'all',
    'Who trains: all training users, or the second half of them, which leaves the '
    'first half to whatever finds the tokenizer.',
    choices=('all', 'second_half'),
  )
  max_tokens_per_user: int = setting(1600, 'Where a user’s text is cut off.', low=2)
  max_sentence_length: int = setting(
    32, 'Tokens in a training example; longer posts go on in the next one.', low=2
  )
  max_eval_users: int = setting(
    200, 'Users of each evaluation, at most; drawn once, by the seed.', low=1
  )
  model_selection: str = setting(
    'last',
    'Which round’s model is tested and written: the last one, or the one with the '
    'least perplexity on the validation users (best_validation).',
    choices=('last', 'best_validation'),
  )
  target_perplexity: float | None = setting(
    None,
    'Validation perplexity per token; results.json names the first evaluated round '
    'that was at or below it (see --rounds_per_eval).',
    above=1,
  )
