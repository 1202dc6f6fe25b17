"""Fixtures that all tests share."""

import gc
import os
import pathlib
import signal

import pytest


def pytest_configure(config):
  """Makes Ctrl-C work in tests of it, whoever starts them.

  A shell that starts a command in the background makes it ignore SIGINT, and so
  would everything that the tests start.
  """
  del config  # Unused.
  signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope='module', autouse=True)
def old_objects_set_aside():
  """Keeps the collector from looking at what earlier modules have left.

  TensorFlow keeps much of every graph, so that in the end each look would take two
  seconds, and every training run looks.
  """
  gc.collect()
  gc.freeze()


@pytest.fixture(scope='session')
def tff_runtime(tmp_path_factory):
  """TFF on one worker of our own, for the whole test run."""
  from tff_textpriv.runtime import execution

  with execution.execution(log_dir=tmp_path_factory.mktemp('worker')) as runtime:
    yield runtime


@pytest.fixture(scope='session')
def real_data() -> pathlib.Path:
  """The folder of real data sets; tests that need it are skipped without it."""
  folder = os.environ.get('TFF_TEXTPRIV_DATA')
  if not folder:
    pytest.skip('TFF_TEXTPRIV_DATA does not name a folder with the real data sets')
  return pathlib.Path(folder)


@pytest.fixture(scope='session')
def make_run(tmp_path_factory):
  """Returns what makes the folder of a task's run with flags; the same one only once.

  The weights are drawn at random; see `untrained_runs`.
  """
  import untrained_runs

  root = tmp_path_factory.mktemp('runs')
  made: dict[tuple[str, ...], untrained_runs.Made] = {}

  def make(task, *given):
    key = (task.name, *given)
    if key not in made:
      made[key] = untrained_runs.make(task, given, root / str(len(made)))
    return made[key]

  return make
