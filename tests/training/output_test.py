"""The output folder: one run at a time, one set of settings, whole files."""

import errno
import json
import os
import sqlite3
import subprocess
import sys

import pytest

from tff_textpriv import files
from tff_textpriv.training import output

_CONFIG = {
  'task': 'stackoverflow',
  'seed': 1,
  'clip': float('inf'),
  'tied_embeddings': True,
  'workers': ('a:1', 'b:2'),
  'public_data': None,
}


def test_the_first_start_writes_the_settings_and_the_same_ones_are_accepted(tmp_path):
  folder = output.OutputFolder(tmp_path / 'runs' / 'first')
  folder.check_config(_CONFIG)
  # Looking does not claim the folder: a start that is refused later must not.
  assert not (folder.path / 'config.json').exists()
  folder.claim(_CONFIG)
  written = json.loads((folder.path / 'config.json').read_text())
  assert written == {**_CONFIG, 'workers': ['a:1', 'b:2']}
  before = (folder.path / 'config.json').stat()
  folder.check_config(dict(_CONFIG))
  folder.claim(_CONFIG)
  assert (folder.path / 'config.json').stat() == before


def test_other_settings_are_refused_by_name_with_both_values(tmp_path):
  folder = output.OutputFolder(tmp_path)
  folder.claim(_CONFIG)
  changed = {**_CONFIG, 'seed': 2, 'tied_embeddings': False, 'model': 'lstm_tiny'}
  with pytest.raises(output.OutputError) as caught:
    folder.check_config(changed)
  message = str(caught.value)
  assert str(tmp_path) in message and '--experiment_name' in message
  assert '--seed: 1 before, 2 now' in message
  assert '--tied_embeddings: true before, false now' in message
  assert '--model: (absent) before, lstm_tiny now' in message
  for same in ('--task', '--clip', '--workers', '--public_data'):
    assert same not in message
  # A refusal changes nothing: the first settings are still the folder's.
  folder.check_config(_CONFIG)


@pytest.mark.parametrize('content', ['', '{"seed": 1', '[1, 2]', '3'])
def test_a_damaged_config_is_named_and_not_overwritten(tmp_path, content):
  file = tmp_path / 'config.json'
  file.write_text(content)
  with pytest.raises(files.FileError, match='config.json: not the JSON'):
    output.OutputFolder(tmp_path).check_config(_CONFIG)
  assert file.read_text() == content


def test_a_second_process_is_refused_until_the_first_one_is_gone(tmp_path):
  # Killed, so that nothing but the kernel can give the lock back.
  holder = subprocess.Popen(
    [
      sys.executable,
      '-c',
      'import pathlib, sys, time\n'
      'from tff_textpriv.training import output\n'
      'folder = output.OutputFolder(pathlib.Path(sys.argv[1]))\n'
      'print("locked", flush=True)\n'
      'time.sleep(60)',
      str(tmp_path),
    ],
    stdout=subprocess.PIPE,
    text=True,
  )
  try:
    assert holder.stdout.readline() == 'locked\n'
    with pytest.raises(output.OutputError, match='another process is running in'):
      output.OutputFolder(tmp_path)
  finally:
    holder.kill()
    holder.communicate()
  output.OutputFolder(tmp_path).check_config(_CONFIG)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
  (tmp_path / 'file').write_text('')
  for path in (tmp_path / 'file', tmp_path / 'file' / 'run'):
    with pytest.raises(output.OutputError, match=f'cannot write to {path}'):
      output.OutputFolder(path)


def test_a_file_is_replaced_whole(tmp_path):
  file = tmp_path / 'results.json'
  files.write_atomically(file, 'first é')
  files.write_atomically(file, b'second')
  assert file.read_bytes() == b'second'
  assert os.listdir(tmp_path) == ['results.json']


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
  (tmp_path / 'tokenizers').mkdir()
  unfinished = []
  for file in (tmp_path / 'model.keras', tmp_path / 'tokenizers' / '0.model'):
    file.write_text('whole')
    with files.replacing(file) as temporary:
      temporary.write_text('half')
      # As it would be after kill -9: another process finds it.
      unfinished.append(temporary.rename(temporary.with_suffix('.killed')))
      temporary.write_text('new')
  output.OutputFolder(tmp_path)
  assert not any(path.exists() for path in unfinished)
  assert (tmp_path / 'model.keras').read_text() == 'new'


@pytest.mark.parametrize(
  'error',
  [
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), 'model.keras'),
    OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
    RuntimeError('/runs/a/variables; No space left on device\n\tmore'),
    sqlite3.OperationalError('database or disk is full'),
  ],
)
def test_a_full_disk_is_one_sentence_that_names_the_folder(tmp_path, error):
  with pytest.raises(output.OutputError) as caught, output.OutputFolder(tmp_path):
    try:
      raise error
    except Exception as cause:
      raise RuntimeError('the checkpoint could not be saved') from cause
  message = str(caught.value)
  assert f'no space is left for what the run in {tmp_path} writes' in message
  assert str(error).splitlines()[0] in message and '\n' not in message
  output.OutputFolder(tmp_path)  # Free again.


def test_other_errors_pass_through_the_folder(tmp_path):
  with pytest.raises(KeyError, match='x'), output.OutputFolder(tmp_path):
    raise KeyError('x')


@pytest.mark.parametrize('step', ['fsync', 'replace'])
def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch, step):
  file = tmp_path / 'results.json'
  files.write_atomically(file, 'old')

  def crash(*arguments):
    raise OSError(28, 'No space left on device')

  monkeypatch.setattr(os, step, crash)
  with pytest.raises(OSError, match='No space'):
    files.write_atomically(file, 'new' * 1000)
  assert file.read_text() == 'old'
  assert os.listdir(tmp_path) == ['results.json']


def test_the_folder_is_free_after_its_block_and_errors_name_its_flag(tmp_path):
  with output.OutputFolder(tmp_path, 'sweep_name') as folder:
    folder.claim(_CONFIG)
    with pytest.raises(output.OutputError, match='choose another --sweep_name'):
      folder.check_config({**_CONFIG, 'seed': 2})
    with pytest.raises(output.OutputError, match='choose another --experiment_name'):
      output.OutputFolder(tmp_path)
  output.OutputFolder(tmp_path)


def test_a_run_may_grow_where_that_is_allowed_and_is_not_done_any_more(tmp_path):
  config = {**_CONFIG, 'total_rounds': 10}
  longer = {**_CONFIG, 'total_rounds': 20}
  with output.OutputFolder(tmp_path / 'run') as folder:
    folder.claim(config)
    (folder.path / 'results.json').write_text('{}')
    with pytest.raises(output.OutputError, match='--total_rounds'):
      folder.check_config(longer)
    folder.check_config(longer, ('total_rounds',))
    folder.claim(longer)
    assert not (folder.path / 'results.json').exists()
    # Shorter than it was, it would be another run.
    with pytest.raises(output.OutputError, match='--total_rounds'):
      folder.check_config(config, ('total_rounds',))
