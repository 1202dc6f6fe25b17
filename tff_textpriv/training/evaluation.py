"""How well a language model predicts the words of users it was not trained on."""

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tff_textpriv.datasets import batching
from tff_textpriv.models import language_models
from tff_textpriv.text import tokenizers

# Posts that are read at the same time, and tokens of each per call.
_BATCH_SIZE = 64
_CHUNK = 32


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


def stream(posts: Sequence[np.ndarray]) -> np.ndarray:
  """Joins posts into one, int32 [length], in which each follows the EOS of the last."""
  return np.concatenate([posts[0][:1], *(post[1:] for post in posts)])


class LanguageModelEvaluator:
  """Scores text per word, so that tokenizers can be compared with each other.

  A recurrent model reads a post, or a stream of them, from its beginning to its end. A model that looks back
  at all it has read does so within a window of the length of training's; windows overlap
  by half, so that no token but the first ones of a post is predicted without context.
  """

  def __init__(
    self,
    model: language_models.LanguageModel,
    tokenizer: tokenizers.Tokenizer,
    windows: batching.WindowRule,
  ):
    """Prepares the scoring; the first batch traces it.

    Args:
      model: The language model.
      tokenizer: The tokenizer that it was built for.
      windows: How training cuts posts.
    """
    self._tokenizer = tokenizer
    self._reader: _WholeReader | _WindowReader
    if model.carries_state:
      self._reader = _WholeReader(model)
    else:
      self._reader = _WindowReader(model, windows)

  def evaluate(
    self, weights: Sequence[np.ndarray | tf.Tensor], posts: Sequence[np.ndarray]
  ) -> dict[str, float]:
    """Evaluates a model on posts, in one teacher-forced pass.

    Args:
      weights: The model's weights.
      posts: Users' encoded posts, or streams of them.

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
    weights = [tf.constant(weight) for weight in weights]
    found = self._reader.read(weights, posts)
    return Scores(
      _concatenate([post[1:] for post in posts], np.int32),
      _concatenate([scores for scores, _ in found], np.float64),
      _concatenate([correct for _, correct in found], np.bool_),
    )

  def of_users(self, scores: Sequence['Scores']) -> dict[str, float]:
    """Returns the metrics of several users' posts, each scored by the user's own model."""
    joined = Scores(*(np.concatenate(part) for part in zip(*scores, strict=True)))
    return word_metrics(*joined, self._tokenizer.starts_word)


# Log-likelihoods and whether the model's first choice was right, each [predictions].
_Found = tuple[np.ndarray, np.ndarray]
_TOKENS = tf.TensorSpec([None, None], tf.int32)


class _WholeReader:
  """Reads whole streams of tokens, the model's state carried from call to call."""

  def __init__(self, model: language_models.LanguageModel):
    """Traces nothing yet."""
    self._model = model
    state_specs = tf.nest.map_structure(
      lambda part: tf.TensorSpec([None, *part.shape[1:]], part.dtype),
      model.initial_state(1, 0),
    )

    @tf.function(
      input_signature=[_weight_specs(model), _TOKENS, _TOKENS, state_specs],
      autograph=False,
    )
    def score(weights, inputs, targets, state):
      logits, state = model.step(weights, inputs, state)
      return *_scores(logits, targets), state

    self._score = score

  def read(
    self, weights: Sequence[tf.Tensor], streams: Sequence[np.ndarray]
  ) -> list[_Found]:
    """Scores streams, each read from its first token to its last.

    Args:
      weights: The model's weights.
      streams: Token ids, each int32 [length].

    Returns:
      What was found of each stream's tokens but the first.
    """
    found: list[_Found] = [_NOTHING] * len(streams)
    for positions, (inputs, targets) in batching.evaluation_batches(
      streams, _BATCH_SIZE
    ):
      lengths = np.array([len(streams[position]) - 1 for position in positions])
      inputs = _as_trained(inputs)
      scores, correct = np.zeros(inputs.shape), np.zeros(inputs.shape, bool)
      state, ended = self._model.initial_state(len(positions), 0), 0
      for start in range(0, inputs.shape[1], _CHUNK):
        # Rows stand in the order of their lengths: the first ones end first.
        newly = np.count_nonzero(lengths <= start) - ended
        if newly:
          state = tf.nest.map_structure(operator.itemgetter(slice(newly, None)), state)
          ended += newly
        part = slice(ended, None), slice(start, start + _CHUNK)
        *answers, state = self._score(weights, inputs[part], targets[part], state)
        scores[part], correct[part] = (answer.numpy() for answer in answers)
      for row, position in enumerate(positions):
        length = lengths[row]
        found[position] = scores[row, :length], correct[row, :length]
    return found


class _WindowReader:
  """Reads windows that overlap by half, each from its beginning."""

  def __init__(
    self, model: language_models.LanguageModel, windows: batching.WindowRule
  ):
    """Traces nothing yet."""
    self._windows = windows

    @tf.function(
      input_signature=[_weight_specs(model), _TOKENS, _TOKENS], autograph=False
    )
    def score(weights, inputs, targets):
      return _scores(model.logits(weights, inputs), targets)

    self._score = score

  def read(
    self, weights: Sequence[tf.Tensor], streams: Sequence[np.ndarray]
  ) -> list[_Found]:
    """Scores streams; see `_WholeReader.read`."""
    cut = [self._windows.slide(stream) for stream in streams]
    examples = [window for windows in cut for window, _ in windows]
    by_window: list[_Found] = [_NOTHING] * len(examples)
    for positions, (inputs, targets) in batching.evaluation_batches(
      examples, _BATCH_SIZE
    ):
      answers = self._score(weights, _as_trained(inputs), targets)
      scores, correct = (part.numpy() for part in answers)
      for row, position in enumerate(positions):
        length = len(examples[position]) - 1
        by_window[position] = scores[row, :length], correct[row, :length]
    following = iter(by_window)
    return [_joined(following, windows) for windows in cut]


def _joined(
  following: Iterator[_Found], windows: Sequence[tuple[np.ndarray, int]]
) -> _Found:
  """Joins what was found of a stream's windows, but for what stood in the one before."""
  parts = [
    (scores[known:], correct[known:])
    for (_, known), (scores, correct) in zip(windows, following, strict=False)
  ]
  if not parts:
    return _NOTHING
  scores, correct = zip(*parts, strict=True)
  return np.concatenate(scores), np.concatenate(correct)


_NOTHING: _Found = np.zeros(0), np.zeros(0, bool)


def _as_trained(inputs: np.ndarray) -> np.ndarray:
  """Lets a post within a stream begin with BOS: nobody has trained on an EOS."""
  return np.where(inputs == tokenizers.EOS_ID, tokenizers.BOS_ID, inputs)


def _weight_specs(model: language_models.LanguageModel) -> list[tf.TensorSpec]:
  return [tf.TensorSpec(shape, tf.float32) for shape in model.weight_shapes]


def _scores(logits: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns targets' log-likelihoods and whether each is the first choice."""
  log_likelihood = -tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
  return log_likelihood, tf.equal(tf.argmax(logits, 2, tf.int32), targets)


class Unigram:
  """A guess without a model: each token as often as it was in some text, whatever is before it."""

  def __init__(self, tokenizer: tokenizers.Tokenizer, posts: Iterable[np.ndarray]):
    """Counts tokens; every one counts once more than it is there.

    Args:
      tokenizer: What encoded the text.
      posts: Encoded posts, each int32 [length], BOS first.
    """
    self._starts_word = tokenizer.starts_word
    counts = np.ones(tokenizer.size)
    for post in posts:
      counts += np.bincount(post[1:], minlength=tokenizer.size)
    self._log_likelihood = np.log(counts / counts.sum())

  def word_perplexity(self, posts: Sequence[np.ndarray]) -> float:
    """Returns the perplexity per word of other posts; see `word_metrics`."""
    targets = _concatenate([post[1:] for post in posts], np.int32)
    nothing = np.zeros(len(targets), bool)
    scores = targets, self._log_likelihood[targets], nothing
    return word_metrics(*scores, self._starts_word)['word_perplexity']


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
