"""The scoreboard's parts are commands of tools.attack, and its page sets them side by side."""

import csv
import pathlib

import pytest

from benchmarks import attack_scoreboard
from tff_textpriv import flags
from tff_textpriv.attacks.inversion_settings import InversionSettings
from tff_textpriv.tasks import shared_flags
from tff_textpriv.tools import attack

_ROW = {
  'algorithm': 'fede_vocab',
  'attack': 'span',
  'table': 'public',
  'message': 'round',
  'sentences': '8',
  'recall': '0.5',
  'ptlr': '0.25',
  'advantage': '-0.1',
  'advantage_margin': 'nan',
}


@pytest.mark.parametrize('part', attack_scoreboard.PARTS)
def test_every_part_is_a_command(part):
  own, passed_on = shared_flags.split(
    attack_scoreboard.PARTS[part], attack.AttackSettings, InversionSettings
  )
  groups = [
    flags.Group('Attack', attack.AttackSettings),
    flags.Group('Inversion', InversionSettings),
  ]
  chosen = flags.make(
    attack.AttackSettings, flags.parse(['--sentences=128', *own], groups)
  )
  assert {'prior'} < set(chosen.attacks) and passed_on


def test_parts_are_made_and_set_side_by_side(tmp_path, monkeypatch):
  made = []

  def make(argv):
    made.append(argv)
    (folder,) = (a.partition('=')[2] for a in argv if a.startswith('--attack_dir='))
    path = pathlib.Path(folder) / 'agnews'
    path.mkdir(parents=True)
    with open(path / 'attack.csv', 'w', newline='') as file:
      writer = csv.DictWriter(file, list(_ROW))
      writer.writeheader()
      writer.writerow(_ROW)

  monkeypatch.setattr(attack, 'main', make)
  settings = attack_scoreboard.ScoreboardSettings(
    data='data', output=str(tmp_path), parts=('MiniLM', 'first round')
  )
  assert attack_scoreboard.main(settings) == 0
  assert len(made) == 2 and '--checkpoint=data/minilm' in made[0]
  page = (tmp_path / 'scoreboard.md').read_text()
  assert page.index('## first round') < page.index('## MiniLM')
  assert '-0.100 ± nan (0.500 / 0.250)' in page
  assert '| fede_vocab | round of 8 |' in page
