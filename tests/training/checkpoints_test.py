"""Checkpoints: what was saved comes back, and damage is noticed."""

import collections
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tree

from tff_textpriv.training import checkpoints, coroutines

_NOTES = {'ledger': '{"delta": 1e-06}', 'list': [1, 'two', None]}


@pytest.fixture
def runner():
  with coroutines.CoroutineRunner() as runner:
    yield runner


def _state(seed: int = 0, width: int = 300):
  rng = np.random.default_rng(seed)
  return collections.OrderedDict(
    weights=(rng.normal(size=(40, width)).astype(np.float32), np.float32(seed)),
    optimizer=[np.int32(seed), rng.normal(size=(width,)), np.array([True, False])],
    nothing=(),
  )


def _saved(folder, runner, rounds):
  kept = checkpoints.Checkpoints(folder, runner)
  for round_number in rounds:
    state = _state(round_number)
    kept.save(checkpoints.Checkpoint(round_number, state, _NOTES))
  return kept


def _variables(folder, round_number):
  (file,) = folder.glob(f'program_state_{round_number}/variables/*.data-*')
  return file


def _truncate(folder, round_number):
  file = _variables(folder, round_number)
  file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _flip_a_bit(folder, round_number):
  file = _variables(folder, round_number)
  content = bytearray(file.read_bytes())
  content[len(content) // 3] ^= 1
  file.write_bytes(content)


def _remove_the_graph(folder, round_number):
  (folder / f'program_state_{round_number}' / 'saved_model.pb').unlink()


def _empty(folder, round_number):
  shutil.rmtree(folder / f'program_state_{round_number}')
  (folder / f'program_state_{round_number}').mkdir()


_DAMAGES = [_truncate, _flip_a_bit, _remove_the_graph, _empty]


def _assert_is(checkpoint, round_number):
  assert checkpoint.round_number == round_number
  assert checkpoint.notes == _NOTES
  expected = _state(round_number)
  tree.assert_same_structure(checkpoint.state, expected)
  for ours, theirs in zip(
    tree.flatten(checkpoint.state), tree.flatten(expected), strict=True
  ):
    assert np.asarray(ours).dtype == np.asarray(theirs).dtype
    np.testing.assert_array_equal(ours, theirs)


def test_an_empty_folder_has_no_checkpoint(tmp_path, runner):
  kept = checkpoints.Checkpoints(tmp_path / 'new', runner)
  assert kept.load_latest(_state()) is None


def test_the_newest_checkpoint_comes_back_bit_for_bit(tmp_path, runner):
  _saved(tmp_path, runner, [0, 9, 10])
  fresh = checkpoints.Checkpoints(tmp_path, runner)
  _assert_is(fresh.load_latest(_state(77)), 10)


def test_two_checkpoints_are_kept(tmp_path, runner):
  _saved(tmp_path, runner, [1, 2, 3, 4])
  assert sorted(p.name for p in tmp_path.iterdir()) == [
    'format.json',
    'program_state_3',
    'program_state_4',
  ]


def test_a_folder_of_another_format_is_refused_and_not_touched(tmp_path, runner):
  _saved(tmp_path, runner, [2])
  (tmp_path / 'format.json').write_text('{"format": 5, "more": true}')
  (tmp_path / 'program_state_3_temp1234').mkdir()
  before = sorted(tmp_path.rglob('*'))
  with pytest.raises(
    checkpoints.CheckpointError, match='have format 5, and .* reads format 4'
  ):
    checkpoints.Checkpoints(tmp_path, runner)
  assert sorted(tmp_path.rglob('*')) == before


@pytest.mark.parametrize('content', ['', '{"format"', '[1]', '{}'])
def test_a_damaged_name_of_the_format_is_refused(tmp_path, runner, content):
  _saved(tmp_path, runner, [2])
  (tmp_path / 'format.json').write_text(content)
  with pytest.raises(ValueError, match='format.json: not the JSON|format None'):
    checkpoints.Checkpoints(tmp_path, runner)


def test_checkpoints_from_before_formats_had_names_are_of_the_first(tmp_path, runner):
  _saved(tmp_path, runner, [2])
  (tmp_path / 'format.json').unlink()
  with pytest.raises(checkpoints.CheckpointError, match='have format 1'):
    checkpoints.Checkpoints(tmp_path, runner)


def test_what_a_killed_process_left_half_written_is_no_checkpoint(tmp_path, runner):
  kept = _saved(tmp_path, runner, [2])
  shutil.copytree(tmp_path / 'program_state_2', tmp_path / 'program_state_3_temp1234')
  _assert_is(kept.load_latest(_state()), 2)


@pytest.mark.parametrize('damage', _DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_and_then_replaced(
  tmp_path, runner, damage
):
  kept = _saved(tmp_path, runner, [4, 6])
  damage(tmp_path, 6)
  _assert_is(kept.load_latest(_state()), 4)
  # The run goes on from round 4, and the checkpoint it makes of round 6 counts.
  kept.save(checkpoints.Checkpoint(6, _state(6), _NOTES))
  _assert_is(kept.load_latest(_state()), 6)


@pytest.mark.parametrize('damage', _DAMAGES)
def test_without_any_readable_checkpoint_the_run_does_not_start_anew_by_itself(
  tmp_path, runner, damage
):
  kept = _saved(tmp_path, runner, [4, 6])
  damage(tmp_path, 4)
  damage(tmp_path, 6)
  for _ in range(2):  # Looking changes nothing.
    with pytest.raises(checkpoints.CheckpointError, match=r'rounds 4, 6\)'):
      kept.load_latest(_state())


@pytest.mark.parametrize(
  ('other', 'problem'),
  [
    (_state(width=301), 'other shapes'),
    (
      tree.map_structure(lambda leaf: np.asarray(leaf).astype(np.float64), _state()),
      'other shapes or types',
    ),
    (_state() | {'nothing': (np.float32(0),)}, 'same nested structure'),
  ],
)
def test_a_checkpoint_of_another_model_is_refused_and_kept(
  tmp_path, runner, other, problem
):
  kept = _saved(tmp_path, runner, [4, 6])
  expected = rf'for the model and algorithm of this run \(.*{problem}'
  with pytest.raises(checkpoints.CheckpointError, match=expected):
    kept.load_latest(other)
  _assert_is(kept.load_latest(_state()), 6)


def test_a_checkpoint_that_is_a_program_is_not_run(tmp_path, runner):
  written = tmp_path / 'written'

  class Program(tf.Module):
    @tf.function(input_signature=[])
    def __call__(self):
      tf.io.write_file(str(written), 'x')
      return {'leaves': (tf.constant(1.0),), 'notes': tf.constant('{}')}

  folder = tmp_path / 'checkpoints'
  kept = checkpoints.Checkpoints(folder, runner)
  tf.saved_model.save(Program(), str(folder / 'program_state_3'))
  with pytest.raises(
    checkpoints.CheckpointError, match='a function in it uses .*Write'
  ):
    kept.load_latest([np.float32(0)])
  assert not written.exists()


def test_a_checkpoint_with_a_table_of_its_own_is_not_run(tmp_path, runner):
  class Program(tf.Module):
    def __init__(self):
      super().__init__()
      (tmp_path / 'words').write_text('a\t1')
      self.table = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(
          str(tmp_path / 'words'), tf.string, 0, tf.int64, 1
        ),
        1,
      )

  folder = tmp_path / 'checkpoints'
  kept = checkpoints.Checkpoints(folder, runner)
  tf.saved_model.save(Program(), str(folder / 'program_state_3'))
  with pytest.raises(
    checkpoints.CheckpointError, match='something else in it than var'
  ):
    kept.load_latest([np.float32(0)])
