"""The secret of a run: drawn once, for its owner's eyes only, and nowhere else."""

import stat

import pytest

from tff_textpriv.randomness import Stream
from tff_textpriv.training import secret


def test_seeded_runs_have_no_secret(tmp_path):
  assert secret.stream('seeded', 3, tmp_path) == Stream.of_seed(3)
  assert list(tmp_path.iterdir()) == []


def test_a_secret_is_drawn_once_and_read_again(tmp_path):
  first = secret.stream('system', 3, tmp_path)
  assert list(tmp_path.iterdir()) == []  # Until the run is sure to begin.
  secret.keep(first, tmp_path)
  assert secret.stream('system', 3, tmp_path) == first
  assert first != secret.stream('system', 3, tmp_path / 'another')


def test_only_its_owner_may_read_it(tmp_path):
  secret.keep(Stream.of_system(), tmp_path)
  file = tmp_path / secret.FILE
  assert stat.S_IMODE(file.stat().st_mode) == 0o600
  file.chmod(0o640)
  with pytest.raises(secret.SecretError, match='others than its owner may read it'):
    secret.stream('system', 0, tmp_path)


def test_a_kept_secret_is_not_drawn_anew(tmp_path):
  first = Stream.of_system()
  secret.keep(first, tmp_path)
  secret.keep(Stream.of_system(), tmp_path)
  assert secret.stream('system', 0, tmp_path) == first


def test_a_run_that_lost_its_secret_cannot_go_on_but_one_that_is_done_may_forget_it(
  tmp_path,
):
  secret.keep(Stream.of_system(), tmp_path)
  (tmp_path / 'config.json').write_text('{}')
  secret.forget(tmp_path)
  with pytest.raises(secret.SecretError, match='is missing'):
    secret.stream('system', 0, tmp_path)
  (tmp_path / 'results.json').write_text('{}')
  assert isinstance(secret.stream('system', 0, tmp_path), Stream)


def test_a_damaged_secret_is_refused_and_not_shown(tmp_path):
  file = tmp_path / secret.FILE
  secret.keep(Stream.of_system(), tmp_path)
  content = file.read_text()[:20]
  file.write_text(content)
  with pytest.raises(secret.SecretError, match='damaged') as caught:
    secret.stream('system', 0, tmp_path)
  assert content not in str(caught.value) and caught.value.__cause__ is None
