"""Audits of tokenizers: strings of one user are not published, unless code is broken."""

import collections
import json

import numpy as np
import pytest
import tensorflow as tf

from tff_textpriv import settings
from tff_textpriv.aggregators import clipping, lattice_noise
from tff_textpriv.audits import vocabulary_audit
from tff_textpriv.tools import audit

_RUN = (
  '--task=stackoverflow', '--algo=subword_resample', '--num_users=6',
  '--vocab_size=900', '--max_words_per_user=350', '--sample_tokens=40000',
  '--clients_per_round=28', '--accounted_population=30', '--accounted_cohort=28',
  '--total_rounds=61', '--resample_rounds=60', '--rounds_per_eval=61',
  # Canaries train as hard as they can.
  '--client_epochs_per_round=3', '--client_optimizer=adam',
  '--client_learning_rate=0.02', '--server_optimizer=sgd', '--server_learning_rate=1',
  '--delta=1e-3', '--vocabulary_canaries=24', '--guess_shares=1',
)  # fmt: skip


def _audit(folder, *argv):
  code = audit.main([*_RUN, *argv, f'--audit_dir={folder}'])
  content = json.loads((folder / 'audit.json').read_text())
  (finding,) = content['findings']
  return code, finding, content['strings']


@pytest.mark.slow
def test_with_clip_and_noise_no_string_of_a_user_becomes_a_piece(tmp_path, capsys):
  code, finding, strings = _audit(tmp_path, '--target_epsilon=8')
  assert code == 0 and finding['verdict'] == 'not refuted'
  assert strings['written'] == finding['heads'] > 5
  assert strings['written_pieces'] == strings['written_samples'] == 0
  assert finding['claimed_epsilon'] == pytest.approx(8, abs=0.3)
  assert 'became pieces' in capsys.readouterr().out
  files = {file.name for file in tmp_path.iterdir()}
  assert files == {'audit.json', 'audit.md', 'audit_vocabulary.png', 'run.log'}


@pytest.mark.slow
def test_without_clip_and_noise_strings_of_users_are_found(tmp_path, monkeypatch):
  def without_clip(update, clip, points):
    whole = [
      tf.cast(tf.round(leaf * (points.clip / clip)), tf.int32)
      for leaf in tf.nest.flatten(update)
    ]
    return collections.OrderedDict(
      update=tf.nest.pack_sequence_as(update, whole),
      unclipped_half=tf.constant(1),
      left_out=tf.constant(0),
    )

  monkeypatch.setattr(clipping, 'clip_update', without_clip)
  monkeypatch.setattr(
    lattice_noise, 'draw', lambda law, seed, number: tf.zeros([number], tf.int64)
  )
  # So few coins cannot show more than an epsilon of 2, whatever goes wrong.
  code, finding, strings = _audit(tmp_path, '--target_epsilon=0.1')
  assert code == 1 and finding['verdict'] == 'EXCEEDED'
  assert strings['written_samples'] > 0
  assert strings['held_out_pieces'] == strings['held_out_samples'] == 0


def test_scores_are_the_longest_parts_that_were_published():
  published = vocabulary_audit.Published(
    ['\u2581abcdef', 'xyz', '\u2581qrstuvwxyzab'], ['zzabcdezz', 'klmno']
  )
  assert published.score('abcdefghij') == 6 + 5
  assert published.score('klmnoklmno') == 0 + 5
  assert published.score('qrstuvwxyz') == 10
  assert published.score('xyzxyzxyzx') == 0  # Three letters tell nothing.


@pytest.mark.parametrize('replaces', [True, False])
def test_coins_decide_what_is_written_and_counts_follow(replaces):
  canaries = vocabulary_audit.StringCanaries(40, 3, replaces)
  written = set()
  for index, (one, other) in enumerate(canaries.strings):
    words = {word for text in canaries.texts(index) for word in text.split()}
    expected = {one} if canaries.coins[index] else {other} if replaces else set()
    assert words == expected
    written |= words
  found = canaries.found(vocabulary_audit.Published(written, []))
  assert found.written == found.written_pieces == len(written)
  assert found.held_out == 80 - len(written) and found.held_out_pieces == 0
  scores = canaries.scores(vocabulary_audit.Published(written, []))
  assert scores[canaries.coins].min() > scores[~canaries.coins].max()
  silent = canaries.scores(vocabulary_audit.Published([], []))
  np.testing.assert_array_equal(silent, 0)
  assert found.plus(found).written == 2 * found.written


def test_half_a_million_strings_are_told_apart_and_found_by_chance_seldom():
  # A word of ten letters has seven parts of four: of 10,000 words about 70,000 of 26^4,
  # so that a string, with seven parts of its own, has one of them with probability 0.66.
  # Parts of six letters it shares with probability 5 * 50,000 / 26^6 = 0.0008.
  rng = np.random.default_rng(0)
  words = [
    ''.join(rng.choice(list('abcdefghijklmnopqrstuvwxyz'), 10)) for _ in range(10_000)
  ]
  published = vocabulary_audit.Published([], words)
  canaries = vocabulary_audit.StringCanaries(500, 0, False)
  scores = canaries.scores(published)
  shared = 1 - np.exp(-7 * 70_000 / 26**4)
  error = 5 * np.sqrt(shared * (1 - shared) / 500)
  assert np.mean(scores >= 4) == pytest.approx(shared, abs=error)
  assert np.mean(scores >= 6) < 0.0008 + 5 * np.sqrt(0.0008 / 500)


def test_algorithms_that_learn_no_tokenizer_are_refused():
  with pytest.raises(settings.SettingsError, match='learns no tokenizer'):
    audit.main(['--task=stackoverflow', '--algo=dp_fed_avg', '--vocabulary_canaries=3'])
