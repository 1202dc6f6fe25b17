"""Attacks what clients send: one scoreboard of all algorithms, with case studies.

    python -m tff_textpriv.tools.attack --task=agnews --algo=fed_avg,fede_vocab \
      --client_optimizer=sgd --batch_sizes=1,4

Flags of the task and of the algorithms are those of training; each algorithm gets those
that it has.
"""

import dataclasses
import pathlib
import sys
from collections.abc import Sequence

import tqdm

from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.attacks.inversion_settings import InversionSettings
from tff_textpriv.attacks.rounds import BATCH, MESSAGES, ROUND
from tff_textpriv.iterative_processes import registry
from tff_textpriv.iterative_processes.algorithm import CLASSIFICATION
from tff_textpriv.settings import setting
from tff_textpriv.tasks import base, shared_flags

TASKS = ('agnews', 'newsgroups', 'sst2')
ATTACKS = ('guess', 'prior', 'rows', 'span', 'dlg', 'decipher')
_DEFAULT_ATTACKS = ATTACKS[:-1]
ALGORITHMS = tuple(
  algorithm.name
  for algorithm in registry.ALGORITHMS.values()
  if CLASSIFICATION in algorithm.kinds and not algorithm.gathers_data
)
VIEWS = ('server', 'released')


@dataclasses.dataclass(frozen=True)
class AttackSettings(settings_lib.Settings):
  """Flags of the command itself."""

  task: str = setting('agnews', 'The task whose texts are attacked.', choices=TASKS)
  algo: tuple[str, ...] = setting(
    ('fed_avg', 'fede_vocab'),
    'The algorithms, separated by commas.',
    choices=ALGORITHMS,
  )
  attacks: tuple[str, ...] = setting(
    _DEFAULT_ATTACKS,
    'The attacks: as controls random tokens (guess) and the most frequent ones (prior); '
    'rows of the embedding’s gradient (rows), table rows in the span of a kernel’s '
    'gradient (span), and gradient inversion (dlg), which takes by far the most time; '
    'and vectors without names, of all messages together, as a substitution cipher, '
    'solved by public text and vectors (decipher): those that dlg has found, if it is '
    'made, and the device’s own, to see what better recovery could lead to.',
    choices=ATTACKS,
  )
  messages: tuple[str, ...] = setting(
    ('batch',),
    'What is attacked: the message after one step on one batch (batch), or what a client '
    'sends after a round of training on all its sentences, in batches of '
    '--client_batch_size and --client_epochs_per_round passes (round).',
    choices=MESSAGES,
  )
  batch_sizes: tuple[int, ...] = setting(
    (1,), 'Sentences in the batch behind a message, with --messages=batch.', low=1
  )
  client_sentences: int = setting(
    16, 'Sentences that each attacked client has, with --messages=round.', low=1
  )
  sentences: int = setting(32, 'Sentences to attack, of the test examples.', low=1)
  private_tokens: int = setting(
    3, 'Tokens with a digit that a sentence must have to be attacked.', low=0
  )
  view: str = setting(
    'server',
    'Who looks: the server that collects what clients send, or whoever gets the sum of '
    'a round after the server’s noise and knows all other clients’ updates (released).',
    choices=VIEWS,
  )
  rounds_before: int = setting(
    0,
    'Rounds in which the attacked clients have trained together before, each on its own '
    '--client_sentences, so that tables have moved from the public start.',
    low=0,
  )
  known_vectors: str | None = setting(
    None,
    'File of vectors that attackers compare with the users’ (decipher), if users start '
    'from others; by default --vectors_file.',
  )
  attack_dir: str = setting('runs/attacks', 'The folder of scoreboards.')
  cases: int = setting(3, 'Sentences shown side by side in the report.', low=0)

  def __post_init__(self) -> None:
    super().__post_init__()
    for message, size in self.kinds:
      if self.sentences < size:
        raise settings_lib.SettingsError(
          'sentences', self.sentences, f'must fill a {message} of {size}'
        )
    if self.rounds_before and self.client_sentences % max(self.batch_sizes):
      raise settings_lib.SettingsError(
        'batch_sizes',
        self.batch_sizes,
        f'with --rounds_before, --client_sentences={self.client_sentences} must be a '
        'multiple of each: a batch is one client’s',
      )

  @property
  def kinds(self) -> list[tuple[str, int]]:
    """The kinds of message to attack, and the sentences behind each."""
    sizes = {BATCH: self.batch_sizes, ROUND: (self.client_sentences,)}
    return [(message, size) for message in self.messages for size in sizes[message]]


# Dropout hides from an attack, and so do texts with more tokens than an embedding has
# numbers: a scoreboard that reassures by them would say nothing of the algorithm.
_MOST_IS_SEEN = (('dropout', '0'), ('max_words', '24'))

_GROUPS = [
  flags.Group('Attack', AttackSettings),
  flags.Group('Gradient inversion (dlg)', InversionSettings),
]


def main(argv: Sequence[str]) -> int:
  """Makes the attacks and writes the report; returns 0."""
  own, passed_on = shared_flags.split(argv, AttackSettings, InversionSettings)
  given = flags.parse(own, _GROUPS)
  chosen = flags.make(AttackSettings, given)
  inversion = flags.make(InversionSettings, given)
  task = base.find(chosen.task)
  passed_on = [*_most_is_seen(passed_on), *passed_on]
  experiments = [
    base.parse(task, [f'--algo={name}', *shared_flags.kept(passed_on, task, name)])
    for name in chosen.algo
  ]
  # Only now is TensorFlow needed: help and wrong flags are answered before.
  from tff_textpriv.attacks import scene as scene_lib
  from tff_textpriv.attacks import scoreboard
  from tff_textpriv.attacks.campaign import Outcome

  scene = scene_lib.Scene(
    experiments[0], chosen.sentences, chosen.private_tokens, chosen.known_vectors
  )
  print(scene.summary)
  limits = scene.limits([size for _, size in chosen.kinds])
  for limit in limits:
    print(f'note: {limit}')
  board = scoreboard.Scoreboard(
    pathlib.Path(chosen.attack_dir) / chosen.task,
    scoreboard.Scenario(
      chosen.task,
      chosen.view,
      {
        one.algorithm.name: dataclasses.asdict(one.privacy_settings)
        for one in experiments
      },
      ' '.join([scene.summary, *limits]),
      argv,
    ),
    chosen.cases,
  )
  for experiment in experiments:
    campaign = scene.campaign(
      experiment,
      chosen.attacks,
      inversion,
      view=chosen.view,
      client_sentences=chosen.client_sentences,
      rounds_before=chosen.rounds_before,
    )
    for message, size in chosen.kinds:
      name = experiment.algorithm.name
      messages = tqdm.tqdm(
        campaign.run(message, size),
        f'{name}, {message} of {size}',
        len(scene.sentences) // size,
        unit='message',
        disable=None,  # No bar where there is no terminal.
      )
      outcomes: list[Outcome] = []
      for found in messages:
        outcomes += found
        board.show(scoreboard.Result(name, message, size, outcomes))
  print(f'\n{board.write()}\n\nwritten: {board.folder}/attack.md, .csv, .json, .png')
  return 0


def _most_is_seen(passed_on: Sequence[str]) -> list[str]:
  """Returns the flags, of those that are not given, with which an attacker sees most."""
  given = {argument.lstrip('-').split('=')[0] for argument in passed_on}
  return [f'--{name}={value}' for name, value in _MOST_IS_SEEN if name not in given]


def help_page() -> str:
  """Writes the command's help."""
  return flags.format_help(
    'python -m tff_textpriv.tools.attack [--flag=value ...]',
    'Reconstructs texts from what clients send, and writes a scoreboard and case '
    'studies, as far as it has come every half minute. All other flags are those of the '
    'task and of the algorithms (see the help of the task); each algorithm gets those '
    'that it has. Unless given, --dropout=0 and --max_words=24: more of either hides.',
    _GROUPS,
  )


if __name__ == '__main__':
  flags.exit_with_sentences(lambda: main(sys.argv[1:]), help_page)
