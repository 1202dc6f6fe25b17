"""What devices keep: versions, privacy of files, resuming, many users."""

import os
import stat

import pytest

from tff_textpriv.runtime import device_store


@pytest.fixture(params=['disk', 'memory'])
def open_store(request, tmp_path):
  """Opens a store, again and again: each time as a new run would."""

  def open_it(set_up=lambda user: {'state': b'first', 'vocabulary.txt': user.encode()}):
    if request.param == 'disk':
      return device_store.DeviceStore(tmp_path / 'devices', set_up)
    return device_store.MemoryDeviceStore(
      tmp_path / 'devices', set_up, tmp_path / 'memory'
    )

  return open_it


def _train(store, users, round_number, content=None):
  """Does what a worker does in a round: reads one file, writes another."""
  for before, after in store.begin(users, round_number):
    with open(before, 'rb') as stream:
      read = stream.read()
    with open(after, 'wb') as stream:
      stream.write(content or read + f' {round_number}'.encode())
  store.commit(round_number)


def _checkpoint(store, rounds):
  """Does what the program does before and after it saves a checkpoint."""
  store.flush()
  store.prune(rounds)


def _bins(folder):
  return sorted(file.name for file in folder.glob('*.bin'))


def test_a_device_goes_on_from_the_last_round_in_which_it_took_part(open_store):
  store = open_store()
  _train(store, ['a', 'b'], 1)
  _train(store, ['b'], 2)
  _train(store, ['a', 'b'], 5)
  assert store.state('a') == b'first 1 5'
  assert store.state('b') == b'first 1 2 5'
  assert store.state('never there') == b'first'
  assert store.kept('a', 'vocabulary.txt') == b'a'


def test_a_device_is_set_up_once(open_store):
  calls = []
  store = open_store(lambda user: calls.append(user) or {'state': b'x'})
  for round_number in (1, 2):
    _train(store, ['a'], round_number)
  assert calls == ['a']


def test_files_and_folders_are_for_their_owner_alone_whoever_writes_them(
  tmp_path, open_store
):
  previous = os.umask(0)
  try:
    store = open_store()
    _train(store, ['a'], 1)
    _checkpoint(store, [1])
  finally:
    os.umask(previous)
  for folder, _, files in os.walk(tmp_path):
    if folder == str(tmp_path):
      continue
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    for file in files:
      assert stat.S_IMODE(os.stat(os.path.join(folder, file)).st_mode) == 0o600


def test_a_killed_run_goes_back_to_the_states_of_its_checkpoint(open_store):
  store = open_store()
  _checkpoint(store, [0])
  for round_number in (1, 2, 3):
    _train(store, ['a'], round_number)
  _train(store, ['b'], 3)
  _checkpoint(store, [0, 3])
  for round_number in (4, 5):
    _train(store, ['a', 'b'], round_number)
  store.begin(['a'], 6)  # Killed in the middle of round 6.
  store = open_store()
  store.restore(3)
  assert store.state('a') == b'first 1 2 3'
  assert store.state('b') == b'first 3'
  _train(store, ['a'], 4)
  assert store.state('a') == b'first 1 2 3 4'


def test_states_are_on_the_disk_before_the_checkpoint_that_counts_on_them(open_store):
  store = open_store()
  _checkpoint(store, [0])
  _train(store, ['a'], 1)
  store.flush()  # Killed after the checkpoint of round 1 was saved, before pruning.
  store = open_store()
  store.restore(1)
  assert store.state('a') == b'first 1'
  # Or killed before it was saved: then the checkpoint is that of round 0.
  store = open_store()
  store.restore(0)
  _checkpoint(store, [0])
  assert store.state('a') == b'first'
  _train(store, ['a'], 1, b'again')
  _checkpoint(store, [0, 1])
  store = open_store()
  store.restore(1)
  assert store.state('a') == b'again'


def test_the_checkpoint_before_the_last_can_be_gone_back_to(open_store):
  store = open_store()
  for round_number in range(1, 7):
    _train(store, ['a'], round_number)
    if round_number in (2, 4):
      _checkpoint(store, [round_number - 2, round_number])
  store = open_store()
  store.restore(2)
  assert store.state('a') == b'first 1 2'


def test_versions_that_nobody_needs_are_deleted(tmp_path):
  store = device_store.DeviceStore(tmp_path / 'devices', lambda _: {'state': b'x'})
  for round_number in range(1, 8):
    _train(store, ['a'], round_number)
    if round_number in (2, 4):
      _checkpoint(store, [round_number - 2, round_number])
  assert _bins(tmp_path / 'devices' / 'a') == ['2.bin', '4.bin', '7.bin']
  _checkpoint(store, [4, 7])
  assert _bins(tmp_path / 'devices' / 'a') == ['4.bin', '7.bin']


def test_a_round_that_is_repeated_starts_from_the_same_states(open_store):
  store = open_store()
  _train(store, ['a'], 1)
  [(before, after)] = store.begin(['a'], 2)
  with open(after, 'wb') as stream:
    stream.write(b'the worker died')
  assert store.begin(['a'], 2) == [(before, after)]
  with open(after, 'rb') as stream:
    assert stream.read() == b''


def test_a_worker_that_cannot_reach_the_folder_is_noticed(open_store):
  store = open_store()
  store.begin(['a'], 1)
  with pytest.raises(device_store.DeviceStoreError, match='round 1.*reach'):
    store.commit(1)


def test_names_of_users_cannot_leave_the_folder(tmp_path, open_store):
  store = open_store()
  assert store.state('../../x/y') == b'first'
  assert not (tmp_path.parent / 'x').exists()


def test_memory_is_given_back(tmp_path):
  store = device_store.MemoryDeviceStore(
    tmp_path / 'devices', lambda _: {'state': b'x'}, tmp_path / 'memory'
  )
  _train(store, ['a'], 1)
  _checkpoint(store, [1])
  store.close()
  assert not (tmp_path / 'memory').exists()
  assert _bins(tmp_path / 'devices' / 'a') == ['1.bin']


def test_a_thousand_users_take_the_memory_of_one(tmp_path):
  """6 MB a user, the table of 5,000 words: sparse files, but really read."""
  tracemalloc = pytest.importorskip('tracemalloc')
  size = 5_000 * 300 * 4
  store = device_store.DeviceStore(tmp_path / 'devices', lambda _: {'state': b'0' * 9})
  users = [f'client_{number}' for number in range(1_000)]
  for _, after in store.begin(users, 1):
    os.truncate(after, size)
  tracemalloc.start()
  try:
    store.commit(1)
    _checkpoint(store, [1])
    assert len(store.state(users[500])) == size
    _, peak = tracemalloc.get_traced_memory()
  finally:
    tracemalloc.stop()
  assert peak < 4 * size
