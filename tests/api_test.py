"""The Python API: what the command does, in a call, also in a notebook."""

import asyncio
import filecmp
import os
import pathlib
import signal
import sys
import threading

import numpy as np
import pytest

import tff_textpriv
from tff_textpriv import flags
from tff_textpriv import settings as settings_lib
from tff_textpriv.privacy import card_page
from tff_textpriv.tasks import base, imdb
from tff_textpriv.training import cohort_data, output, program

_TINY = {
  'num_clients': 3,
  'hash_buckets': 50,
  'max_train_examples': 60,
  'total_rounds': 2,
  'rounds_per_eval': 1,
}


def _run(folder, **given):
  where = {'root_output_dir': folder.parent, 'experiment_name': folder.name}
  return tff_textpriv.run('imdb', 'rr_ldp', **{**_TINY, **where, **given})


@pytest.fixture(scope='module')
def result(tmp_path_factory):
  return _run(tmp_path_factory.mktemp('runs') / 'call')


def test_the_command_with_the_same_flags_leaves_the_same_files(
  result, monkeypatch, tmp_path
):
  given = {**_TINY, 'algo': 'rr_ldp', 'root_output_dir': tmp_path}
  argv = [f'--{name}={value}' for name, value in given.items()]
  monkeypatch.setattr(sys, 'argv', ['imdb', *argv])
  with pytest.raises(SystemExit) as caught:
    base.main(imdb.TASK)
  assert caught.value.code == 0
  for name in ('metrics.csv', 'results.json', 'config.json', 'privacy_card.json'):
    assert filecmp.cmp(result.folder / name, tmp_path / 'imdb_rr_ldp' / name, False)


def test_a_result_has_figures_rounds_card_and_model(result):
  assert result.config['hash_buckets'] == 50
  assert 0 <= result.metrics['test_auc'] <= 1
  assert result.curve('auc')[0] == [1, 2]
  assert result.privacy_card['epsilon'] == result.metrics['epsilon'] > 0
  assert result.privacy_card.markdown == card_page.render(result.privacy_card)
  ids = np.array([[3, 7, 50, 50]], np.int32)
  assert result.model(ids).shape[0] == 1


def test_a_finished_run_is_loaded_and_repeating_the_call_trains_nothing(
  result, monkeypatch
):
  monkeypatch.setattr(cohort_data.CohortData, '__call__', None)
  assert tff_textpriv.load(result.folder) == result
  assert _run(result.folder) == result


def test_it_runs_where_an_event_loop_is_at_work_as_in_a_notebook(result, tmp_path):
  async def cell():
    return _run(tmp_path / 'cell')

  assert asyncio.run(cell()).rounds == result.rounds


def test_it_runs_in_a_thread_that_gets_no_signals(result, tmp_path):
  ended = []
  thread = threading.Thread(target=lambda: ended.append(_run(tmp_path / 'thread')))
  thread.start()
  thread.join()
  assert ended[0].rounds == result.rounds


def test_an_interrupt_stops_after_the_round_and_the_same_call_goes_on(
  result, monkeypatch, tmp_path
):
  round_metrics = program._round_metrics

  def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
    return round_metrics(*arguments)

  with monkeypatch.context() as patch:
    patch.setattr(program, '_round_metrics', interrupted)
    with pytest.raises(KeyboardInterrupt, match='SIGINT'):
      _run(tmp_path / 'stopped')
  assert not (tmp_path / 'stopped' / 'results.json').exists()
  assert _run(tmp_path / 'stopped').metrics == result.metrics


def test_a_run_that_failed_leaves_its_folder_unlocked(monkeypatch, tmp_path):
  def fail(*arguments):
    raise RuntimeError('out of order')

  monkeypatch.setattr(program, 'train', fail)
  with pytest.raises(RuntimeError) as caught:
    _run(tmp_path / 'failed')
  # A notebook keeps the traceback of the last error, and with it every variable.
  assert caught.tb is not None
  with output.OutputFolder(tmp_path / 'failed'):
    pass


@pytest.mark.parametrize(
  ('given', 'error', 'message'),
  [
    ({'total_round': 3}, flags.UsageError, '(?i)did you mean.*total_rounds'),
    ({'total_rounds': 0}, settings_lib.SettingsError, '--total_rounds=0: must be'),
    ({'total_rounds': 1.5}, settings_lib.SettingsError, '--total_rounds=1.5: must be'),
    ({'total_rounds': None}, settings_lib.SettingsError, 'cannot be None'),
    ({'model': 'logistics'}, settings_lib.SettingsError, 'did you mean logistic[?]'),
    ({'clip': 1.0}, flags.UsageError, '--clip is not a flag of --algo=rr_ldp'),
    ({'task': 'imbd'}, settings_lib.SettingsError, 'did you mean imdb[?]'),
    ({'task': 'language_data'}, settings_lib.SettingsError, 'must be one of agnews, '),
    ({'algo': 'rr_lpd'}, settings_lib.SettingsError, 'did you mean rr_ldp[?]'),
  ],
)
def test_what_the_command_refuses_the_call_refuses_in_the_same_words(
  given, error, message
):
  with pytest.raises(error, match=message):
    tff_textpriv.run(**{'task': 'imdb', 'algo': 'rr_ldp', **given})


def test_python_values_are_those_of_the_flags(monkeypatch):
  seen = []
  monkeypatch.setattr(base, 'run', lambda experiment: seen.append(experiment) or 130)
  with pytest.raises(KeyboardInterrupt):
    tff_textpriv.run(
      'stackoverflow',
      'fed_avg',
      data=pathlib.Path('posts.sqlite'),
      tied_embeddings=False,
      workers=['a:1', 'b:2'],
      client_learning_rate=np.float64(0.1),
    )
  (experiment,) = seen
  assert experiment.task_settings.data == 'posts.sqlite'
  assert experiment.task_settings.tied_embeddings is False
  assert experiment.machine.workers == ('a:1', 'b:2')
  assert experiment.algorithm_settings.client_learning_rate == 0.1
