"""What messages reveal: every algorithm, attacker and kind of message, on AG News.

python -m benchmarks.attack_scoreboard --data=FOLDER --output=FOLDER

Each part is a command of `tools.attack`, which writes its own report into a folder of the
output; `scoreboard.md` sets them side by side. --parts makes some of them only.
"""

import csv
import dataclasses
import pathlib

from tff_textpriv import files, flags
from tff_textpriv.reports import tables
from tff_textpriv.settings import REQUIRED, Settings, setting
from tff_textpriv.tools import attack

_ALL = (
  'fed_sgd,fed_avg,fed_prox,fed_nova,robust_avg,scaffold,dp_fed_avg,dp_ftrl,fed_att,'
  'rr_ldp,fed_recon,fede_vocab,lg_fedavg,local_only'
)
_PAPER = 'fed_avg,fed_prox,fed_recon,fede_vocab,lg_fedavg,local_only'
_SGD = ('--client_optimizer=sgd', '--client_learning_rate=0.1')
_PLAIN_MEAN = ('--server_optimizer=sgd', '--server_learning_rate=1')
_ROUND = ('--messages=batch,round', '--client_sentences=8', '--client_batch_size=4')
_VECTORS = '{data}/glove/glove.6B.50d.top100k.txt'
_GLOVE = (
  '--model=bilstm_small',
  f'--vectors_file={_VECTORS}',
  '--vocab_size=20000',
)
_MINILM = ('--model=encoder_checkpoint', '--checkpoint={data}/minilm')
_ADAM = ('--client_optimizer=adam', '--client_learning_rate=0.005')
_ADAMW = ('--client_optimizer=adamw', '--client_learning_rate=5e-5')
_DECIPHERED = (*_SGD, '--algo=fede_vocab', '--attacks=prior,span,decipher')

# What each part adds to the command, and to the settings of others.
PARTS = {
  'first round': (
    *_GLOVE,
    *_SGD,
    *_ROUND,
    f'--algo={_ALL}',
    '--attacks=guess,prior,rows,span',
    '--privacy_claim=false',
    '--noise_multiplier=1',
  ),
  'noised': (
    *_GLOVE,
    *_SGD,
    *_ROUND,
    '--algo=dp_fed_avg,dp_ftrl,fed_att',
    '--view=released',
    '--privacy_claim=false',
    '--noise_multiplier=1',
    '--noise_magnitude=0.01',
    '--attacks=prior,rows,span',
  ),
  'after 10 rounds': (
    *_GLOVE,
    *_PLAIN_MEAN,
    *_ROUND,
    f'--algo={_PAPER}',
    *_ADAM,
    '--client_epochs_per_round=2',
    '--rounds_before=10',
    '--attacks=prior,rows,span',
  ),
  # Table 2 and Figure 3 of the private-vocabulary paper.
  'batch sizes': (
    *_GLOVE,
    *_SGD,
    '--algo=fed_avg,fed_recon,fede_vocab',
    '--batch_sizes=1,2,4,8,16,32,64',
    '--attacks=guess,prior,rows,span',
  ),
  # The paper's width: a round has fewer tokens than an embedding has numbers.
  'wide BiLSTM': (
    '--model=bilstm_paper',
    '--vocab_size=20000',
    *_SGD,
    *_ROUND,
    '--algo=fed_avg,fede_vocab',
    '--sentences=64',
    '--attacks=prior,rows,span',
  ),
  'wide BiLSTM by Adam': (
    '--model=bilstm_paper',
    '--vocab_size=20000',
    *_ADAM,
    *_ROUND,
    '--algo=fed_avg,fede_vocab',
    '--sentences=32',
    '--attacks=prior,rows,span',
  ),
  'MiniLM': (
    *_MINILM,
    *_SGD,
    *_ROUND,
    '--algo=fed_avg,fede_vocab',
    '--attacks=prior,rows,span',
  ),
  'MiniLM by AdamW': (
    *_MINILM,
    *_ADAMW,
    *_ROUND,
    '--algo=fed_avg,fede_vocab',
    '--sentences=32',
    '--attacks=prior,rows,span',
  ),
  'MiniLM otherwise': (
    *_MINILM,
    *_SGD,
    *_ROUND,
    '--algo=dp_fed_avg,fed_att,rr_ldp,fed_recon,lg_fedavg,local_only',
    '--sentences=16',
    '--attacks=prior,rows,span',
    '--privacy_claim=false',
    '--noise_multiplier=1',
  ),
  'deciphered public vectors': (*_GLOVE, *_DECIPHERED),
  'deciphered own vectors': (
    '--model=bilstm_small',
    '--different_init',
    f'--known_vectors={_VECTORS}',
    '--vocab_size=20000',
    *_DECIPHERED,
  ),
  'inverted and deciphered': (
    *_GLOVE,
    *_SGD,
    '--algo=fede_vocab',
    '--attacks=prior,dlg,decipher',
    '--attack_steps=60',
    '--sentences=48',
  ),
}


@dataclasses.dataclass(frozen=True)
class ScoreboardSettings(Settings):
  """What is attacked, and where results go."""

  data: str = setting(REQUIRED, 'Folder with ag_news, glove and minilm.')
  output: str = setting(REQUIRED, 'Folder for the reports, one per part.')
  sentences: int = setting(
    128, 'Sentences to attack, in parts that do not say.', low=16
  )
  parts: tuple[str, ...] = setting(
    tuple(PARTS), 'Parts to make, separated by commas.', choices=tuple(PARTS)
  )


def main(settings: ScoreboardSettings) -> int:
  """Makes the attacks; returns 0."""
  output = pathlib.Path(settings.output)
  for name in settings.parts:
    print(f'\n== {name}', flush=True)
    attack.main(
      [
        '--task=agnews',
        f'--data={settings.data}/ag_news',
        f'--sentences={settings.sentences}',
        f'--attack_dir={output / name}',
        *(flag.format(data=settings.data) for flag in PARTS[name]),
      ]
    )
    files.write_atomically(output / 'scoreboard.md', _page(output))
  return 0


def _page(output: pathlib.Path) -> str:
  """Sets all parts that are there side by side: an attacker per column."""
  sections = []
  for name in PARTS:
    file = output / name / 'agnews' / 'attack.csv'
    if file.exists():
      with open(file, newline='', encoding='utf-8') as stream:
        sections.append(f'## {name}\n\n{_table(list(csv.DictReader(stream)))}\n')
  return '\n'.join(sections)


def _table(rows: list[dict[str, str]]) -> str:
  """Writes advantage, its margin, and recall and PTLR of each attacker."""
  attackers = dict.fromkeys(f'{row["attack"]} ({row["table"]})' for row in rows)
  lines: dict[tuple[str, str], dict[str, str]] = {}
  for row in rows:
    line = lines.setdefault(
      (row['algorithm'], f'{row["message"]} of {row["sentences"]}'), {}
    )
    line[f'{row["attack"]} ({row["table"]})'] = (
      f'{float(row["advantage"]):+.3f} ± {float(row["advantage_margin"]):.3f} '
      f'({float(row["recall"]):.3f} / {float(row["ptlr"]):.3f})'
    )
  return tables.markdown(
    ('algorithm', 'message', *attackers),
    [
      [*key, *(line.get(each, 'not sent') for each in attackers)]
      for key, line in lines.items()
    ],
  )


if __name__ == '__main__':
  flags.run(main, ScoreboardSettings, __doc__.splitlines()[0])
