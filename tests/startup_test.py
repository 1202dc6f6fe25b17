"""Commands answer help and mistakes without loading TensorFlow, which takes long."""

import os
import pathlib
import subprocess
import sys

import tff_textpriv

_PACKAGE = pathlib.Path(tff_textpriv.__file__).parent
_COMMANDS = sorted(
  f'tff_textpriv.{folder}.{file.stem}'
  for folder in ('tasks', 'tools')
  for file in (_PACKAGE / folder).glob('*.py')
  if "if __name__ == '__main__':" in file.read_text()
)
# Runs commands as `python -m` does; a mistake in a command line exits with 2.
_SCRIPT = """
import runpy, sys
for module in {modules!r}:
  for arguments, expected in ((['--help'], 0), (['--no_such_flag=1'], 2)):
    sys.argv = [sys.argv[0], *arguments]
    try:
      runpy.run_module(module, run_name='__main__', alter_sys=True)
    except SystemExit as exit:
      assert exit.code == expected, (module, arguments, exit.code)
    else:
      raise AssertionError(f'{{module}} {{arguments}} did not end the command')
  slow = {{'tensorflow', 'tensorflow_federated', 'jax'}} & sys.modules.keys()
  assert not slow, (module, slow)
"""


def _trouble(*modules: str) -> str:
  """Returns what commands say if one of them does not answer at once."""
  done = subprocess.run(
    [sys.executable, '-c', _SCRIPT.format(modules=modules)],
    capture_output=True,
    text=True,
  )
  return done.stderr[-500:] if done.returncode else ''


def test_tasks_and_tools_are_found():
  assert {'tff_textpriv.tasks.stackoverflow', 'tff_textpriv.tools.plan'} <= set(
    _COMMANDS
  )


def test_help_and_wrong_flags_are_answered_without_tensorflow():
  # One after the other in one process: what none of them imports, none imports alone.
  assert not _trouble(*_COMMANDS)


def test_a_command_that_imports_tensorflow_first_would_be_noticed(
  tmp_path, monkeypatch
):
  source = (_PACKAGE / 'tools' / 'worker.py').read_text()
  (tmp_path / 'tensorflow.py').touch()
  (tmp_path / 'eager_worker.py').write_text(source)
  monkeypatch.setenv('PYTHONPATH', str(tmp_path))
  assert not _trouble('eager_worker')
  (tmp_path / 'eager_worker.py').write_text(
    source.replace('\nimport ', '\nimport tensorflow\nimport ', 1)
  )
  assert "'tensorflow'" in _trouble('eager_worker')


def test_a_reader_of_help_may_leave_before_its_end():
  reader, writer = os.pipe()
  os.close(reader)
  with open(writer, 'wb') as nobody_reads:
    done = subprocess.run(
      [sys.executable, '-m', 'tff_textpriv.tools.study', '--help'],
      stdout=nobody_reads,
      stderr=subprocess.PIPE,
      text=True,
    )
  assert (done.returncode, done.stderr) == (0, '')
