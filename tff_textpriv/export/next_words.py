"""The words that a language model finds most likely next, whatever its pieces are.

A word is a piece that begins one and pieces that go on with it, up to the next that
begins a word or ends the text:

  P(word) = product over its pieces of P(piece | what is before)
            * P(a new word or the end | the word).

The search keeps the most likely beginnings of words (beams), lets each go on by one
piece at a time, and stops once no beginning is more likely than the last of the words
found. Several ways to write one word are added up.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tff_textpriv.models import interface, sampling
from tff_textpriv.text import tokenizers

# Beginnings of words that are followed at the same time, and pieces of a word at most.
_NUM_BEAMS = 32
_MAX_PIECES = 16
_NOTHING = float('-inf')


class Words(NamedTuple):
  """Words, the most likely first; empty, with probability 0, where there are no more.

  Attributes:
    words: Strings [batch, number].
    probabilities: float32 [batch, number].
  """

  words: tf.Tensor
  probabilities: tf.Tensor


class NextWords:
  """Finds the most likely next words.

  Probabilities are those of the distribution that texts are sampled from: without
  padding, unknown words and beginnings of texts (see `models.sampling.Sampler`).
  """

  def __init__(
    self,
    model: interface.LanguageModel,
    pieces: Sequence[bytes],
    starts_word: np.ndarray,
    number: int,
  ):
    """Prepares masks.

    Args:
      model: The model.
      pieces: The text of each token, without marks of word starts.
      starts_word: Which tokens begin a word, booleans [vocab].
      number: How many words to find.
    """
    is_control = np.arange(model.vocab_size) < tokenizers.NUM_CONTROL_IDS
    never = np.zeros(model.vocab_size, np.float32)
    never[list(sampling.NEVER_SAMPLED)] = _NOTHING
    self._model = model
    self._pieces = list(pieces)
    self._never = never
    self._begins = _zero_where(starts_word & ~is_control)
    self._goes_on = _zero_where(~starts_word & ~is_control)
    is_end = np.arange(model.vocab_size) == tokenizers.EOS_ID
    self._ends = _zero_where((starts_word & ~is_control) | is_end)
    self._number = number
    self._num_beams = min(_NUM_BEAMS, model.vocab_size)

  def find(
    self, weights: interface.Weights, context: tf.RaggedTensor, start: tf.Tensor
  ) -> Words:
    """Finds the next words.

    Args:
      weights: The model's weights.
      context: The tokens of the words before, BOS first, int32 [batch, (time)].
      start: What the word begins with, strings [batch]; anything if empty.
    """
    logits, state = self._read(weights, context)
    scores = self._log_probabilities(logits) + self._begins + self._fits(start)
    log_p, ids = tf.math.top_k(scores, self._num_beams)
    batch_size = tf.shape(start)[0]
    row_of_beam = tf.repeat(tf.range(batch_size), self._num_beams)
    beams = (
      log_p,
      ids,
      tf.fill(tf.shape(ids), ''),
      tf.tile(start[:, tf.newaxis], [1, self._num_beams]),
      tf.nest.map_structure(lambda part: tf.gather(part, row_of_beam), state),
    )
    found = (
      tf.fill([batch_size, self._number], ''),
      tf.fill([batch_size, self._number], _NOTHING),
    )
    each_beam = tf.TensorShape([None, self._num_beams])
    any_rows = _any_rows(beams[-1])
    _, (words, log_p) = tf.while_loop(
      lambda beams, found: _may_improve(beams[0], found[1]),
      lambda beams, found: self._go_on(weights, beams, found),
      (beams, found),
      shape_invariants=(
        (each_beam, each_beam, each_beam, each_beam, any_rows),
        (tf.TensorShape([None, self._number]),) * 2,
      ),
      maximum_iterations=_MAX_PIECES,
    )
    return Words(words, tf.exp(log_p))

  def _read(self, weights, context):
    """Reads rows of different lengths; returns the last logits and the states."""
    tokens = context.to_tensor(tokenizers.PAD_ID)
    batch_size, longest = tf.unstack(tf.shape(tokens))
    lengths = tf.cast(context.row_lengths(), tf.int32)
    state = self._model.initial_state(batch_size, longest + _MAX_PIECES)

    def read_one(place, last):
      token = tf.gather(tokens, [place], axis=1)
      logits, state = self._model.step(weights, token, last[1])
      # A row that has ended keeps what it was.
      return place + 1, tf.nest.map_structure(
        lambda new, old: _choose(place < lengths, new, old), (logits[:, 0], state), last
      )

    last = (tf.zeros([batch_size, self._model.vocab_size]), state)
    return tf.while_loop(
      lambda place, _: place < longest,
      read_one,
      (0, last),
      shape_invariants=(tf.TensorShape([]), _any_rows(last)),
    )[1]

  def _go_on(self, weights, beams, found):
    """Ends all beams where they are, and lets the best of them go on by a piece."""
    log_p, ids, words, start, state = beams
    pieces = tf.gather(tf.constant(self._pieces), ids)
    words = words + pieces
    start = _behind(start, tf.strings.length(pieces))
    logits, state = self._model.step(weights, tf.reshape(ids, [-1, 1]), state)
    following = self._log_probabilities(logits[:, 0])
    end = tf.reduce_logsumexp(following + self._ends, axis=1)
    ended = tf.where(_is_word(words, start), log_p + _like(end, log_p), _NOTHING)
    found = self._best(
      tf.concat([found[0], words], axis=1), tf.concat([found[1], ended], axis=1)
    )
    following += self._goes_on + self._fits(tf.reshape(start, [-1]))
    following = tf.reshape(following, [-1, self._num_beams, self._model.vocab_size])
    total = tf.reshape(
      log_p[:, :, tf.newaxis] + following,
      [-1, self._num_beams * self._model.vocab_size],
    )
    log_p, places = tf.math.top_k(total, self._num_beams)
    beam = places // self._model.vocab_size
    first_beam = tf.range(tf.shape(beam)[0])[:, tf.newaxis] * self._num_beams
    rows = tf.reshape(first_beam + beam, [-1])
    return (
      log_p,
      places % self._model.vocab_size,
      tf.gather(words, beam, batch_dims=1),
      tf.gather(start, beam, batch_dims=1),
      tf.nest.map_structure(lambda part: tf.gather(part, rows), state),
    ), found

  def _best(self, words, log_p):
    """Adds up equal words, and returns the best ones."""
    is_same = tf.equal(words[:, :, tf.newaxis], words[:, tf.newaxis])
    is_first = tf.equal(
      tf.argmax(tf.cast(is_same, tf.int32), axis=2, output_type=tf.int32),
      tf.range(tf.shape(words)[1]),
    )
    sums = tf.reduce_logsumexp(
      tf.where(is_same, log_p[:, tf.newaxis], _NOTHING), axis=2
    )
    log_p, places = tf.math.top_k(tf.where(is_first, sums, _NOTHING), self._number)
    words = tf.gather(words, places, batch_dims=1)
    return tf.where(log_p > _NOTHING, words, ''), log_p

  def _log_probabilities(self, logits):
    return tf.nn.log_softmax(logits + self._never)

  def _fits(self, start):
    """Returns 0 for tokens that go with what a word must begin with, else -inf.

    Args:
      start: What is left of it, strings [n].

    Returns:
      float32 [n, vocab].
    """
    shape = [tf.shape(start)[0], self._model.vocab_size]

    def compare():
      pieces = tf.constant(self._pieces)
      common = tf.minimum(
        tf.strings.length(start)[:, tf.newaxis], tf.strings.length(pieces)
      )
      of_start, of_piece = (
        tf.strings.substr(
          tf.broadcast_to(strings, shape), tf.zeros_like(common), common
        )
        for strings in (start[:, tf.newaxis], pieces)
      )
      return tf.where(tf.equal(of_start, of_piece), 0.0, _NOTHING)

    # Comparing strings takes longer than the model does.
    return tf.cond(
      tf.reduce_any(tf.not_equal(start, '')), compare, lambda: tf.zeros(shape)
    )


def _any_rows(parts: interface.State) -> interface.State:
  """Returns the shapes of tensors [batch, ...], whatever the batch is."""
  return tf.nest.map_structure(
    lambda part: tf.TensorShape([None, *part.shape[1:]]), parts
  )


def _may_improve(log_p: tf.Tensor, found_log_p: tf.Tensor) -> tf.Tensor:
  """Whether a beam is more likely than the last of the words that are found."""
  return tf.reduce_any(log_p[:, 0] > found_log_p[:, -1])


def _is_word(words: tf.Tensor, start: tf.Tensor) -> tf.Tensor:
  """Whether words are complete: not empty, as they must begin, valid in UTF-8."""
  decoded = tf.strings.unicode_transcode(words, 'UTF-8', 'UTF-8', errors='replace')
  return tf.equal(decoded, words) & tf.not_equal(words, '') & tf.equal(start, '')


def _behind(strings: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
  """Returns strings without so many bytes at their beginning."""
  own = tf.strings.length(strings)
  return tf.strings.substr(strings, tf.minimum(own, lengths), own)


def _choose(rows: tf.Tensor, new: tf.Tensor, old: tf.Tensor) -> tf.Tensor:
  """Takes some rows of `new` and the others of `old`, of any rank."""
  return tf.where(tf.reshape(rows, [-1] + [1] * (len(new.shape) - 1)), new, old)


def _like(flat: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
  return tf.reshape(flat, tf.shape(table))


def _zero_where(mask: np.ndarray) -> np.ndarray:
  return np.where(mask, np.float32(0), np.float32(_NOTHING))
