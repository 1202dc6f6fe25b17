"""A classifier's way from raw strings to what its Keras model reads, in TensorFlow."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tff_textpriv.export import text_ops
from tff_textpriv.models import usage
from tff_textpriv.text import tokens


class TextEncoder(tf.Module):
  """Turns strings into the ids or the numbers that a classifier reads.

  Attributes:
    num_ids: The number of different ids, and the id that is padding.
  """

  def __init__(
    self,
    encoding: usage.Encoding,
    vocabulary: Sequence[str] = (),
    vectors: np.ndarray | None = None,
  ):
    """Makes the tables.

    Args:
      encoding: What to do.
      vocabulary: The tokens by their ids, where there is a vocabulary.
      vectors: Of an encoding by vectors, those of the vocabulary [tokens, width].
    """
    super().__init__()
    self._encoding = encoding
    self.num_ids = encoding.hash_buckets or len(vocabulary)
    if encoding.hash_buckets is None:
      # An id of their own for unknown words, that the tables of models end with.
      self.num_ids += encoding.kind not in ('term_frequency', 'vectors')
      self._table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
          tf.constant(list(vocabulary)), tf.range(len(vocabulary), dtype=tf.int64)
        ),
        default_value=len(vocabulary),
      )
    if encoding.kind == 'wordpieces':
      self._pieces = text_ops.WordPieces(self._table, is_cased=encoding.is_cased)
    if vectors is not None:
      self._vectors = tf.Variable(vectors, trainable=False)

  def __call__(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Encodes strings [batch].

    Returns:
      `ids`, int32 [batch, length], padded; or `dense`, float32 [batch, width].
    """
    if self._encoding.kind == 'vectors':
      return {'dense': self._mean_vectors(texts)}
    return {'ids': self._padded(self._ids(texts))}

  def _ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
    """Returns the ids of texts, [batch, (length)]."""
    encoding = self._encoding
    if encoding.hash_buckets is not None:
      hashes = text_ops.rolling_hash(
        text_ops.split_letters(texts), encoding.hash_base or 1, encoding.hash_buckets
      )
      return _distinct(hashes) if encoding.kind == 'hash' else self._cut(hashes)
    if encoding.kind == 'term_frequency':
      ids = self._table[text_ops.split_letters(texts)]
      return tf.ragged.boolean_mask(ids, ids < self.num_ids)
    if encoding.kind == 'words':
      return self._table[self._cut(text_ops.split_words(texts))]
    split = (
      self._pieces.split if encoding.kind == 'wordpieces' else text_ops.split_words
    )
    start, end = (
      tf.fill([tf.shape(texts)[0], 1], mark) for mark in (tokens.START, tokens.END)
    )
    return self._table[tf.concat([start, self._cut(split(texts), 2), end], axis=1)]

  def _cut(self, sequence: tf.RaggedTensor, room: int = 0) -> tf.RaggedTensor:
    """Cuts off what is too long, and leaves room for so many marks."""
    assert self._encoding.max_tokens is not None  # All sequences have it.
    return sequence[:, : self._encoding.max_tokens - room]

  def _padded(self, ids: tf.RaggedTensor) -> tf.Tensor:
    padded = tf.cast(ids.to_tensor(self.num_ids), tf.int32)
    if self._encoding.kind in ('marked_words', 'wordpieces'):
      return padded
    # Keras does not like batches of empty texts: there is always some padding.
    return tf.pad(padded, [[0, 0], [0, 1]], constant_values=self.num_ids)

  def _mean_vectors(self, texts: tf.Tensor) -> tf.Tensor:
    ids = self._table[text_ops.split_letters(texts)]
    known = tf.ragged.boolean_mask(ids, ids < self.num_ids)
    total = tf.reduce_sum(tf.gather(self._vectors, known), axis=1)
    count = tf.cast(known.row_lengths(), total.dtype)[:, tf.newaxis]
    mean = tf.math.divide_no_nan(total, count)
    if self._encoding.whitening is None:
      return mean
    length = tf.norm(mean, axis=1, keepdims=True)
    width = tf.cast(tf.shape(mean)[1], mean.dtype)
    return tf.math.divide_no_nan(mean * tf.sqrt(width), length)


def _distinct(ids: tf.RaggedTensor) -> tf.RaggedTensor:
  """Leaves out what is repeated in a row."""
  ordered = tf.sort(ids.to_tensor(-1), axis=1)
  before = tf.pad(ordered, [[0, 0], [1, 0]], constant_values=-1)[:, :-1]
  return tf.ragged.boolean_mask(ordered, tf.not_equal(ordered, before))
