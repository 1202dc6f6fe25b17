"""The output bias of a model that was carried over to another tokenizer.

The map gives a long token the mean of its pieces' rows and biases, and with it about their
frequency, which is far above its own. Biases alone can put that right.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tff_textpriv.datasets import batching
from tff_textpriv.models import language_models
from tff_textpriv.text import tokenizers

_BATCH_SIZE = 64
# Tokens of the text whose contexts are looked at, and how often.
_MOST_TOKENS = 20_000
_PASSES = 5


def fitted(
  model: language_models.LanguageModel,
  weights: Sequence[np.ndarray],
  examples: Sequence[np.ndarray],
) -> list[np.ndarray]:
  """Sets the output bias so that the model expects tokens as often as a text has them.

  With N the tokens of the text, f their frequencies and q the mean, over the places of
  the text, of the probabilities that the model gives, the bias is increased by

    log((N f + 1) / (N q + 1)),

  a few times. Where f = q the biases are those of greatest likelihood, as f - q is its
  gradient; the 1 keeps tokens that the text does not have from being ruled out.

  Args:
    model: The model.
    weights: Its weights.
    examples: Windows of the text, each int32 [2 or more]. All count for frequencies; the
      first ones are the places at which the model is asked.

  Returns:
    The weights with the new output bias.
  """
  targets = np.concatenate([example[1:] for example in examples])
  counts = np.bincount(targets, minlength=model.vocab_size)
  lengths = np.cumsum([len(example) for example in examples])
  asked = examples[: int(np.searchsorted(lengths, _MOST_TOKENS)) + 1]
  specs = [tf.TensorSpec(shape, tf.float32) for shape in model.weight_shapes]
  tokens = tf.TensorSpec([None, None], tf.int32)

  @tf.function(input_signature=[specs, tokens, tokens], autograph=False)
  def expected(weights, inputs, targets):
    is_token = tf.cast(tf.not_equal(targets, tokenizers.PAD_ID), tf.float32)
    return tf.einsum(
      'btv,bt->v', tf.nn.softmax(model.logits(weights, inputs)), is_token
    )

  *others, bias = (tf.constant(weight) for weight in weights)
  bias = bias.numpy().astype(np.float64)
  for _ in range(_PASSES):
    current = [*others, tf.constant(bias, tf.float32)]
    sums = np.zeros(model.vocab_size)
    for _, batch in batching.evaluation_batches(asked, _BATCH_SIZE):
      sums += expected(current, *batch).numpy()
    bias += np.log((counts + 1) / (counts.sum() * sums / sums.sum() + 1))
  return [*(np.asarray(other) for other in others), bias.astype(np.float32)]
