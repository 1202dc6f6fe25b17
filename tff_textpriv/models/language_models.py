"""Language models by name, their loss, and the shape of their batches."""

import tensorflow as tf

from tff_textpriv.models import output_layer, presets
from tff_textpriv.models.interface import LanguageModel
from tff_textpriv.models.recurrent_lm import GruLanguageModel, LstmLanguageModel
from tff_textpriv.models.transformer_lm import TransformerLanguageModel
from tff_textpriv.text import tokenizers

PRESETS = presets.PRESETS
_CELLS = {'lstm': LstmLanguageModel, 'gru': GruLanguageModel}


def build(
  preset: str, vocab_size: int, tied: bool, dropout: float = 0.0
) -> LanguageModel:
  """Makes the language model of a preset's name for a vocabulary's size."""
  size = presets.SIZES[preset]
  width, inner_width = size.tied if tied else size.untied
  if isinstance(size, presets.RecurrentSize):
    return _CELLS[size.cell](
      vocab_size=vocab_size,
      embedding_size=width,
      hidden_size=inner_width,
      num_layers=size.num_layers,
      tied=tied,
      dropout=dropout,
    )
  return TransformerLanguageModel(
    vocab_size=vocab_size,
    width=width,
    feed_forward_size=inner_width,
    num_heads=size.num_heads,
    num_layers=size.num_layers,
    tied=tied,
    dropout=dropout,
  )


def next_token_loss(
  hidden: tf.Tensor,
  kernel: tf.Tensor,
  bias: tf.Tensor,
  targets: tf.Tensor,
  *,
  tied: bool,
) -> tf.Tensor:
  """Mean negative log-likelihood of the targets that are not padding.

  Args:
    hidden: What the output layer reads [batch, time, width].
    kernel: The output layer's kernel, see `LanguageModel.output_layer`.
    bias: Its bias.
    targets: Integer tensor [batch, time].
    tied: Whether the kernel is the embedding.

  Returns:
    A scalar; 0 where every target is padding.
  """
  mask = tf.cast(token_mask(targets), tf.bool)
  return output_layer.masked_loss(hidden, kernel, bias, targets, mask, tied=tied)


def trim(tokens: tf.Tensor) -> tf.Tensor:
  """Cuts a batch to its longest row and drops empty rows.

  Args:
    tokens: Integer tensor [batch, time]; rows are padded at the end, and rows of
      padding alone come last.

  Returns:
    The upper left part that holds all tokens.
  """
  lengths = tf.reduce_sum(tf.cast(token_mask(tokens), tf.int32), axis=1)
  num_rows = tf.reduce_sum(tf.cast(lengths > 0, tf.int32))
  return tokens[:num_rows, : tf.reduce_max(lengths)]


def token_mask(targets: tf.Tensor) -> tf.Tensor:
  """Returns 1.0 for every target that is a token and 0.0 for padding."""
  # `!=` compares identities, not values, while TFF builds a graph.
  return tf.cast(tf.not_equal(targets, tokenizers.PAD_ID), tf.float32)
