import asyncio
import math

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_textpriv.datasets import clients
from tff_textpriv.models import language_models
from tff_textpriv.text import subword, tokenizers
from tff_textpriv.training import evaluation

_EOS, _UNKNOWN = tokenizers.EOS_ID, tokenizers.UNKNOWN_ID
# Ids 10 and 11 begin words, 12 continues them, the unknown token is a word.
_STARTS = np.zeros(13, bool)
_STARTS[[10, 11, _UNKNOWN]] = True


def test_word_metrics_follow_their_definition():
  targets = np.array([10, 12, 11, _EOS, 10, _UNKNOWN, 11, 12, 12, _EOS])
  correct = np.array([1, 1, 0, 0, 1, 1, 1, 1, 0, 1], bool)
  log_likelihood = np.log(np.full(10, 0.5))
  metrics = evaluation.word_metrics(targets, log_likelihood, correct, _STARTS)
  # Words: (10 12) right; (11) wrong; (10) right; unknown never right; (11 12 12) not
  # all right. The wrong EOS after the second word does not count against it.
  assert metrics['num_words'] == 5
  assert metrics['word_accuracy'] == 2 / 5
  assert metrics['word_perplexity'] == pytest.approx(math.exp(10 * math.log(2) / 5))
  assert metrics['tokens_per_word'] == 8 / 5
  assert metrics['oov_share'] == 1 / 5


def test_a_model_that_has_diverged_has_an_infinite_perplexity_that_can_be_released(
  tmp_path,
):
  targets = np.array([10, _EOS])
  metrics = evaluation.word_metrics(
    targets, np.array([-100.0, -1.0]), np.zeros(2, bool), _STARTS
  )
  # exp(101) fits a float64 but not the float32 of TensorBoard.
  assert metrics['word_perplexity'] == math.inf
  release = tff.program.TensorBoardReleaseManager(tmp_path).release(metrics, 1)
  asyncio.run(release)


def test_no_words_give_no_figure():
  empty = np.zeros(0, int)
  metrics = evaluation.word_metrics(empty, empty, empty.astype(bool), _STARTS)
  assert metrics['num_words'] == 0 and math.isnan(metrics['word_perplexity'])


@pytest.fixture(scope='module')
def text():
  words = ['alpha', 'beta', 'gamma', 'delta', 'epsilon']
  rng = np.random.default_rng(0)
  posts = {
    f'user_{i}': [' '.join(rng.choice(words, rng.integers(1, 30))) for _ in range(3)]
    for i in range(4)
  }
  return clients.InMemoryClientText(posts)


def test_a_uniform_model_has_the_perplexity_that_arithmetic_gives(text):
  texts = [t for user in text.client_ids for t in text.read(user)]
  tokenizer = subword.train(texts, 290)
  model = language_models.LstmLanguageModel(290, 4, 4, 1, tied=True)
  zeros = [np.zeros(shape, np.float32) for shape in model.weight_shapes]
  posts = tokenizer.encode(texts)
  num_predictions = sum(len(ids) - 1 for ids in posts)
  num_words = sum(len(t.split()) for t in texts)
  # Windows of any length predict every token once, so the figure is the same.
  for max_length in (4, 1000):
    evaluator = evaluation.LanguageModelEvaluator(model, tokenizer, max_length)
    metrics = evaluator.evaluate(zeros, posts)
    assert metrics['num_words'] == num_words
    assert metrics['word_perplexity'] == pytest.approx(
      290 ** (num_predictions / num_words), rel=1e-4
    )
    # Every logit is equal and argmax takes the first id, which is padding.
    assert metrics['word_accuracy'] == 0


def test_batching_does_not_change_the_scores(text, monkeypatch):
  texts = [t for user in text.client_ids for t in text.read(user)]
  tokenizer = subword.train(texts, 290)
  model = language_models.LstmLanguageModel(290, 4, 4, 1, tied=True)
  weights = [10 * weight for weight in model.initial_weights(0)]
  posts = tokenizer.encode(texts)
  results = []
  for batch_size in (1, 64):
    monkeypatch.setattr(evaluation, '_BATCH_SIZE', batch_size)
    evaluator = evaluation.LanguageModelEvaluator(model, tokenizer, 20)
    results.append(evaluator.evaluate(weights, posts))
  assert results[0] == pytest.approx(results[1], rel=1e-5)


def test_users_with_models_of_their_own_are_scored_together(text):
  """All words count alike, whoever wrote them: not the mean of users' perplexities."""
  texts = [t for user in text.client_ids for t in text.read(user)]
  tokenizer = subword.train(texts, 290)
  model = language_models.LstmLanguageModel(290, 4, 4, 1, tied=True)
  evaluator = evaluation.LanguageModelEvaluator(model, tokenizer, 20)
  weights = model.initial_weights(0)
  posts = tokenizer.encode(texts)
  parts = [evaluator.score(weights, part) for part in (posts[:1], posts[1:])]
  together = evaluator.of_users(parts)
  assert together == pytest.approx(evaluator.evaluate(weights, posts))
