"""Processes that end with their parents."""

import subprocess
import sys

import processes
import psutil
import pytest

from tff_textpriv.runtime import bound_process

_SLEEP = (
  sys.executable,
  '-c',
  'import time; print("here", flush=True); time.sleep(60)',
)


def test_a_program_runs_with_its_arguments_and_tells_its_exit_code():
  done = subprocess.run(
    bound_process.command(['/bin/sh', '-c', 'echo "$1"; exit 3', 'sh', 'a b']),
    capture_output=True,
    text=True,
  )
  assert (done.stdout, done.returncode) == ('a b\n', 3)


def test_a_program_ends_when_its_parent_is_killed():
  script = (
    'import subprocess, sys; from tff_textpriv.runtime import bound_process;'
    f'child = subprocess.Popen(bound_process.command({_SLEEP!r}), stdout=sys.stdout);'
    'print(child.pid, flush=True); child.wait()'
  )
  parent = subprocess.Popen(
    [sys.executable, '-c', script], stdout=subprocess.PIPE, text=True
  )
  lines = {parent.stdout.readline().strip(), parent.stdout.readline().strip()}
  (pid,) = lines - {'here'}
  child = psutil.Process(int(pid))
  parent.kill()
  parent.communicate()
  assert processes.ends(child)


def test_the_launcher_does_not_start_a_program_for_a_dead_parent():
  result = subprocess.run(
    [sys.executable, '-c', bound_process._LAUNCHER, '1', '/bin/echo', 'started'],
    capture_output=True,
    text=True,
  )
  assert result.returncode == 1
  assert result.stdout == ''
  assert 'parent process is gone' in result.stderr


@pytest.mark.parametrize(
  ('code', 'words'),
  [(-9, 'was ended by SIGKILL'), (0, 'ended with exit code 0'), (1, 'exit code 1')],
)
def test_the_end_of_a_process_is_told_in_words(code, words):
  assert bound_process.how_it_ended(code).endswith(words)
