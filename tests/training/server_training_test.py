"""Training on text that the server may read: what it learns, and what it touches."""

import pathlib

import numpy as np
import pytest

from tff_textpriv import randomness
from tff_textpriv.datasets import clients, embedded
from tff_textpriv.tasks import base, stackoverflow
from tff_textpriv.text import subword
from tff_textpriv.training import language_workbench, server_training


class _Forbidden(clients.ClientText):
  """Users whose text must not be read."""

  client_ids = ('ann', 'bob')
  fingerprint = 'forbidden'

  def read(self, client_id):
    raise AssertionError('a user’s text was read')


@pytest.fixture(scope='module')
def data():
  return embedded.build(0, 20, 5, 5, 400)


def _chosen(*argv):
  given = ['--algo=dp_fed_avg', '--noise_multiplier=1', '--vocab_size=500', *argv]
  return base.parse(stackoverflow.TASK, given)


def _bench(chosen, data):
  tokenizer = subword.train(data.public_text, 500)
  return language_workbench.LanguageWorkbench(
    chosen, data, tokenizer, '0.model', data.train.client_ids, pathlib.Path()
  )


def _train(bench, texts, seed=0, num_epochs=1):
  return server_training.train(
    bench,
    bench.model.initial_weights(0),
    texts,
    num_epochs=num_epochs,
    learning_rate=0.005,
    rng=randomness.generator(seed, 'test'),
    name='test',
  )


def _loss(bench, weights, texts):
  """Mean negative log-likelihood of a token."""
  scores = bench._evaluator.score(weights, bench.tokenizer.encode(texts))
  return -scores.log_likelihood.mean()


@pytest.mark.parametrize('dropout', [pytest.param('0', marks=pytest.mark.slow), '0.2'])
def test_a_model_learns_the_text_and_is_a_function_of_the_seed(data, tmp_path, dropout):
  bench = _bench(_chosen(f'--data_dir={tmp_path}', f'--dropout={dropout}'), data)
  texts = list(data.public_text)[:300]
  once, again = _train(bench, texts), _train(bench, texts)
  for one, other in zip(once, again, strict=True):
    np.testing.assert_array_equal(one, other)
  another = _train(bench, texts, seed=1)
  assert any((one != other).any() for one, other in zip(once, another, strict=True))
  drawn = bench.model.initial_weights(0)
  first, second = (_loss(bench, weights, texts) for weights in (drawn, once))
  third = _loss(bench, _train(bench, texts, num_epochs=3), texts)
  # At first all 500 ids are about as likely.
  assert first == pytest.approx(np.log(500), abs=0.1)
  assert third < second < first - 0.5


def test_no_user_s_text_is_read_for_training(data, tmp_path):
  forbidden = clients.FederatedText(
    'forbidden', _Forbidden(), _Forbidden(), _Forbidden(), data.public_text
  )
  bench = _bench(_chosen(f'--data_dir={tmp_path}'), forbidden)
  _train(bench, data.public_text[:40])
  with pytest.raises(AssertionError, match='was read'):
    bench.evaluate(bench.model.initial_weights(0), 'validation')


def test_samples_are_read_as_lines_whatever_is_in_them(data, tmp_path, monkeypatch):
  chosen = _chosen(f'--data_dir={tmp_path}')
  bench = _bench(chosen, data)
  seen = []
  monkeypatch.setattr(
    server_training, 'trained', lambda *given, **more: seen.append(given[3])
  )
  (tmp_path / 'samples.txt').write_bytes('a\u2028b\n\n c  d \ne\r\n\x00\n'.encode())

  class _WithDistillation:
    distillation_epochs = 1
    distillation_learning_rate = 0.1

  object.__setattr__(chosen, 'algorithm_settings', _WithDistillation())
  server_training.distill(chosen, bench, [], tmp_path / 'samples.txt', 1)
  assert seen == [['a b', 'c d', 'e']]
