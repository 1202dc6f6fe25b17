"""Command lines that several algorithms share."""

import dataclasses

import pytest

from tff_textpriv import flags, settings
from tff_textpriv.settings import setting
from tff_textpriv.tasks import imdb, shared_flags


@dataclasses.dataclass(frozen=True)
class _Own(settings.Settings):
  folder: str = setting('', 'A folder.')
  again: bool = setting(False, 'A switch.')


def test_own_flags_are_told_from_others_however_they_are_written(tmp_path):
  file = tmp_path / 'some.flags'
  file.write_text('--folder=b\n--clip=2\n')
  own, others = shared_flags.split(
    [
      '--folder',
      'a',
      '--clip',
      '1',
      '--noagain',
      '--switch',
      f'--flagfile={file}',
      'x',
    ],
    _Own,
  )
  assert own == ['--folder=a', '--noagain', '--folder=b']
  assert others == ['--clip=1', '--switch', '--clip=2', 'x']
  with pytest.raises(flags.HelpRequested):
    shared_flags.split(['--help'], _Own)


def test_an_algorithm_keeps_its_flags_and_those_that_nobody_has():
  given = [
    '--noise_multiplier=1',
    '--epsilon_per_coordinate=1',
    '--noprivacy_claim',
    '--total_rounds=3',
    '--num_workers=2',
    '--unknown=1',
  ]
  assert shared_flags.kept(given, imdb.TASK, 'fed_avg') == given[3:]
  assert shared_flags.kept(given, imdb.TASK, 'rr_ldp') == given[1:]
  assert shared_flags.kept(given, imdb.TASK, 'dp_fed_avg') == [given[0], *given[2:]]
