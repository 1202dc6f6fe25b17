"""How well a language model predicts the words of users it was not trained on."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tff_textpriv.datasets import batching
from tff_textpriv.models import language_models
from tff_textpriv.text import tokenizers

_BATCH_SIZE = 64


class Scores(NamedTuple):
  """What a model finds of tokens.

  Attributes:
    targets: Token ids [n] of posts one after the other, each with its EOS.
    log_likelihood: Their log-likelihoods [n].
    correct: Whether each was the model's first choice [n].
  """

  targets: np.ndarray
  log_likelihood: np.ndarray
  correct: np.ndarray


class LanguageModelEvaluator:
  """Scores text per word, so that tokenizers can be compared with each other."""

  def __init__(
    self,
    model: language_models.LanguageModel,
    tokenizer: tokenizers.Tokenizer,
    max_length: int,
  ):
    """Traces the scoring of one batch.

    Args:
      model: The language model.
      tokenizer: The tokenizer that it was built for.
      max_length: Predictions in a window, as in training.
    """
    self._tokenizer = tokenizer
    self._max_length = max_length
    tokens_spec = tf.TensorSpec([None, None], tf.int32)
    weight_specs = [tf.TensorSpec(shape, tf.float32) for shape in model.weight_shapes]

    @tf.function(
      input_signature=[weight_specs, tokens_spec, tokens_spec], autograph=False
    )
    def score(weights, inputs, targets):
      logits = model.logits(weights, inputs)
      log_likelihood = -tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
      return log_likelihood, tf.equal(tf.argmax(logits, 2, tf.int32), targets)

    self._score = score

  def evaluate(
    self, weights: Sequence[np.ndarray | tf.Tensor], posts: Sequence[np.ndarray]
  ) -> dict[str, float]:
    """Evaluates a model on posts, in one teacher-forced pass.

    Args:
      weights: The model's weights.
      posts: Users' encoded posts.

    Returns:
      `word_accuracy`: the share of words all of whose pieces are the model's first
      choice given the true text before them. `word_perplexity`: exp of the negative
      log-likelihood of all pieces and ends of posts, per word. `token_perplexity`:
      the same per predicted token, ends of posts counted; for a word-level tokenizer
      the perplexity of the language-modelling literature. `tokens_per_word`,
      `oov_share` (words that the tokenizer does not know) and `num_words`.
    """
    return word_metrics(*self.score(weights, posts), self._tokenizer.starts_word)

  def score(
    self, weights: Sequence[np.ndarray | tf.Tensor], posts: Sequence[np.ndarray]
  ) -> 'Scores':
    """Scores every token of posts; see `evaluate`."""
    examples = batching.windows(posts, self._max_length)
    log_likelihood: list[np.ndarray] = [np.zeros(0)] * len(examples)
    correct: list[np.ndarray] = [np.zeros(0, bool)] * len(examples)
    weights = [tf.constant(weight) for weight in weights]
    for positions, batch in batching.evaluation_batches(examples, _BATCH_SIZE):
      batch_scores, batch_correct = (
        part.numpy() for part in self._score(weights, *batch)
      )
      for row, position in enumerate(positions):
        length = len(examples[position]) - 1
        log_likelihood[position] = batch_scores[row, :length]
        correct[position] = batch_correct[row, :length]
    return Scores(
      _concatenate([example[1:] for example in examples], np.int32),
      _concatenate(log_likelihood, np.float64),
      _concatenate(correct, np.bool_),
    )

  def of_users(self, scores: Sequence['Scores']) -> dict[str, float]:
    """Returns the metrics of several users' posts, each scored by the user's own model."""
    joined = Scores(*(np.concatenate(part) for part in zip(*scores, strict=True)))
    return word_metrics(*joined, self._tokenizer.starts_word)


def word_metrics(
  targets: np.ndarray,
  log_likelihood: np.ndarray,
  correct: np.ndarray,
  starts_word: np.ndarray,
) -> dict[str, float]:
  """Turns scores of tokens into scores of words.

  Args:
    targets: Token ids [n] of posts one after the other, each with its EOS.
    log_likelihood: Their log-likelihoods [n].
    correct: Whether each was the model's first choice [n].
    starts_word: Which ids begin a word [vocab].

  Returns:
    The metrics; see `LanguageModelEvaluator.evaluate`.
  """
  is_end = targets == tokenizers.EOS_ID
  is_unknown = targets == tokenizers.UNKNOWN_ID
  word_starts = np.flatnonzero(starts_word[targets])
  num_words = len(word_starts)
  if num_words == 0:
    return {
      'word_accuracy': math.nan,
      'word_perplexity': math.nan,
      'token_perplexity': math.nan,
      'tokens_per_word': math.nan,
      'oov_share': math.nan,
      'num_words': 0,
    }
  # The end of a post is no piece of its last word; an unknown word is never right.
  piece_is_right = (correct & ~is_unknown) | is_end
  word_is_right = np.logical_and.reduceat(piece_is_right, word_starts)

  def perplexity(count: int) -> float:
    with np.errstate(over='ignore'):
      # Infinite for a model that has diverged, rather than too large for TensorBoard.
      return float(np.float32(np.exp(-log_likelihood.sum() / count)))

  return {
    'word_accuracy': float(word_is_right.mean()),
    'word_perplexity': perplexity(num_words),
    'token_perplexity': perplexity(len(targets)),
    'tokens_per_word': float((~is_end).sum() / num_words),
    'oov_share': float(is_unknown.sum() / num_words),
    'num_words': num_words,
  }


def _concatenate(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
  return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)
