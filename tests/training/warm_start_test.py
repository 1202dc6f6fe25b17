"""The warm start: made once for all runs that share it, kept, and read back."""

import pathlib

import numpy as np
import pytest

from tff_textpriv import files
from tff_textpriv.datasets import clients, embedded
from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.text import subword
from tff_textpriv.training import language_workbench, server_training, warm_start


@pytest.fixture(scope='module')
def data():
  return embedded.build(0, 20, 5, 5, 400)


def _chosen(*argv):
  given = ['--algo=dp_fed_avg', '--vocab_size=500', '--warm_start_epochs=1', *argv]
  return base.parse(stackoverflow.TASK, given)


def _bench(chosen, data, pieces=500):
  tokenizer = subword.train(data.public_text, pieces)
  return language_workbench.LanguageWorkbench(
    chosen, data, tokenizer, '0.model', data.train.client_ids, pathlib.Path()
  )


def test_a_start_is_kept_and_read_back_and_damage_is_a_sentence(data, tmp_path):
  chosen = _chosen('--noise_multiplier=1')
  bench = _bench(chosen, data)
  made = warm_start.make(chosen, data, bench, 0, tmp_path)
  assert made.facts['perplexity_after'] < made.facts['perplexity_before']
  assert made.facts['num_texts'] == 400
  assert not (tmp_path / 'tokenizers').exists()
  warm_start.write(made, 0, tmp_path)
  nothing = clients.FederatedText('nothing', data.train, data.validation, data.test)
  read = warm_start.make(chosen, nothing, bench, 0, tmp_path)
  assert read.facts == made.facts
  for one, other in zip(read.weights, made.weights, strict=True):
    np.testing.assert_array_equal(one, other)
  bench.start_from(read.weights)
  np.testing.assert_array_equal(bench.functional.initial_weights[0][0], made.weights[0])

  with pytest.raises(clients.DataError, match='no public text for --warm_start_epochs'):
    warm_start.make(chosen, nothing, bench, 1, tmp_path)
  file = tmp_path / 'tokenizers' / '0_warm_start.safetensors'
  whole = file.read_bytes()
  file.write_bytes(whole[:100])
  with pytest.raises(files.FileError, match='0_warm_start.safetensors: cannot be read'):
    warm_start.make(chosen, data, bench, 0, tmp_path)
  smaller = server_training.Trained(made.weights[:-1], made.facts)
  warm_start.write(smaller, 0, tmp_path)
  with pytest.raises(files.FileError, match='not the weights of this run'):
    warm_start.make(chosen, data, bench, 0, tmp_path)


def test_runs_that_differ_in_what_comes_after_share_a_start(data, tmp_path):
  noisy, quiet = _chosen('--noise_multiplier=1'), _chosen('--noise_multiplier=2')
  made = warm_start.make(noisy, data, _bench(noisy, data), 0, tmp_path)
  assert warm_start.make(quiet, data, _bench(quiet, data), 0, tmp_path) is made


@pytest.mark.parametrize(
  'change',
  ['--seed=1', '--warm_start_learning_rate=0.01', '--max_eval_users=3', 'tokenizer'],
)
def test_another_start_is_not_taken_for_it(data, tmp_path, monkeypatch, change):
  first, second = _chosen(), _chosen(*([] if change == 'tokenizer' else [change]))
  pieces = 510 if change == 'tokenizer' else 500
  made = []
  monkeypatch.setattr(
    server_training, 'trained', lambda *given, **more: made.append(given) or made[-1]
  )
  monkeypatch.setattr(warm_start, '_MADE', type(warm_start._MADE)())
  warm_start.make(first, data, _bench(first, data), 0, tmp_path)
  warm_start.make(second, data, _bench(second, data, pieces), 0, tmp_path)
  assert len(made) == 2
