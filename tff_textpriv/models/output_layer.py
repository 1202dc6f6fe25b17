"""The output layer and its loss as one function with its own gradient.

Over a vocabulary of thousands, most of a small model's time is spent here. The
softmax is computed once and serves the loss and the gradient; the gradient of each
loss scales the few features instead of the many probabilities; and positions that
are padding are left out altogether.
"""

import tensorflow as tf

# Losses are cut off where float32 cannot hold the probability any more; the gradient
# is not.
_SMALLEST_PROBABILITY = 1e-37


def masked_loss(
  hidden: tf.Tensor,
  kernel: tf.Tensor,
  bias: tf.Tensor,
  targets: tf.Tensor,
  mask: tf.Tensor,
  *,
  tied: bool,
) -> tf.Tensor:
  """Mean negative log-likelihood of the targets under the mask.

  Args:
    hidden: Float tensor [batch, time, width].
    kernel: The output kernel [width, vocab]; tied, the embedding [vocab, width].
    bias: The output bias [vocab].
    targets: Integer tensor [batch, time].
    mask: Boolean tensor [batch, time], true for the targets that count.
    tied: Whether the kernel is the embedding.

  Returns:
    A scalar; 0 where no target counts.
  """
  positions = tf.where(mask)
  losses = token_losses(
    tf.gather_nd(hidden, positions),
    kernel,
    bias,
    tf.gather_nd(targets, positions),
    tied=tied,
  )
  return tf.math.divide_no_nan(
    tf.reduce_sum(losses), tf.cast(tf.shape(positions)[0], losses.dtype)
  )


def token_losses(
  hidden: tf.Tensor,
  kernel: tf.Tensor,
  bias: tf.Tensor,
  targets: tf.Tensor,
  *,
  tied: bool,
) -> tf.Tensor:
  """Negative log-likelihoods [n] of targets [n] given features [n, width].

  Args:
    hidden: Float tensor [n, width].
    kernel: The output kernel [width, vocab]; tied, the embedding [vocab, width].
    bias: The output bias [vocab].
    targets: Integer tensor [n].
    tied: Whether the kernel is the embedding.
  """

  @tf.custom_gradient
  def losses(hidden, kernel, bias):
    logits = tf.matmul(hidden, kernel, transpose_b=tied)
    probabilities = tf.nn.softmax(tf.nn.bias_add(logits, bias))
    places = tf.stack([tf.range(tf.shape(targets)[0]), targets], axis=1)
    of_targets = tf.gather_nd(probabilities, places)

    def gradient(d_losses):
      # The gradient of a target's loss by its logits: probabilities - one-hot.
      d_logits = tf.tensor_scatter_nd_sub(
        probabilities, places, tf.ones_like(of_targets)
      )
      scale = d_losses[:, tf.newaxis]
      d_hidden = scale * tf.matmul(d_logits, kernel, transpose_b=not tied)
      # The bias is the weight of a feature that is always one.
      features = tf.concat([scale * hidden, scale], axis=1)
      if tied:
        d_weights = tf.matmul(d_logits, features, transpose_a=True)
        return d_hidden, d_weights[:, :-1], d_weights[:, -1]
      d_weights = tf.matmul(features, d_logits, transpose_a=True)
      return d_hidden, d_weights[:-1], d_weights[-1]

    return -tf.math.log(tf.maximum(of_targets, _SMALLEST_PROBABILITY)), gradient

  return losses(hidden, kernel, bias)
