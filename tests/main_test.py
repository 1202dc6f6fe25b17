"""`python -m tff_textpriv`: what there is to run, and running it by name."""

import subprocess
import sys

import pytest


def _run(*arguments):
  return subprocess.run(
    [sys.executable, '-m', 'tff_textpriv', *arguments], capture_output=True, text=True
  )


def test_tasks_tools_and_the_demo_are_listed():
  listed = _run().stdout
  for name in ('demo', 'stackoverflow', 'custom', 'plan', 'report', 'suggest'):
    assert f'\n  {name} ' in listed


def test_a_name_runs_the_command_of_that_name():
  given = ('--epsilon=2', '--rounds=100', '--cohort=20000', '--format=json')
  assert '"solved_for": "noise_multiplier"' in _run('plan', *given).stdout
  assert 'python -m tff_textpriv.tasks.imdb' in _run('imdb', '--help').stdout


@pytest.mark.parametrize(
  ('wrong', 'right'), [('stackoverflw', 'stackoverflow'), ('demmo', 'demo')]
)
def test_a_wrong_name_is_answered_with_the_right_one(wrong, right):
  done = _run(wrong)
  assert done.returncode == 2
  assert f'did you mean {right}?' in done.stderr
