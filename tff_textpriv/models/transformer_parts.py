"""What transformers are made of, as functions that take the next of their weights."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

# What takes a position out of a softmax, as in Keras's attention.
MASKED = -1e9


def dense(hidden: tf.Tensor, weights: Iterator) -> tf.Tensor:
  """A dense layer with the next two weights, kernel and bias."""
  return tf.tensordot(hidden, next(weights), 1) + next(weights)


def normalize(hidden: tf.Tensor, weights: Iterator, epsilon: float) -> tf.Tensor:
  """Layer normalisation with the next two weights, scale and shift."""
  centered = hidden - tf.reduce_mean(hidden, axis=-1, keepdims=True)
  variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
  return centered * tf.math.rsqrt(variance + epsilon) * next(weights) + next(weights)


def split_heads(projected: tf.Tensor, num_heads: int) -> list[tf.Tensor]:
  """Returns queries, keys and values, each [batch, heads, time, head size].

  Args:
    projected: All of them side by side, [batch, time, 3 * width].
    num_heads: The number of heads.
  """
  batch_size, time = tf.unstack(tf.shape(projected)[:2])
  head_size = projected.shape[-1] // (3 * num_heads)
  parts = tf.reshape(projected, [batch_size, time, 3, num_heads, head_size])
  return tf.unstack(tf.transpose(parts, [2, 0, 3, 1, 4]))


def join_heads(mixed: tf.Tensor) -> tf.Tensor:
  """Puts the heads [batch, heads, time, size] side by side, [batch, time, width]."""
  by_time = tf.transpose(mixed, [0, 2, 1, 3])
  batch_size, time = tf.unstack(tf.shape(by_time)[:2])
  return tf.reshape(by_time, [batch_size, time, mixed.shape[1] * mixed.shape[3]])


def attend(
  queries: tf.Tensor,
  keys: tf.Tensor,
  values: tf.Tensor,
  mask: tf.Tensor,
  drop: Callable[[tf.Tensor], tf.Tensor] = tf.identity,
) -> tf.Tensor:
  """Mixes values by how well their keys fit the queries: [batch, heads, time, size].

  Args:
    queries: What is looked for.
    keys: What is compared with it.
    values: What is mixed.
    mask: What is added to the fit: 0, or `MASKED` where a value is not to be seen.
    drop: Drops some of the shares.
  """
  scores = tf.matmul(queries, keys, transpose_b=True)
  scores = scores / math.sqrt(queries.shape[-1]) + mask
  return tf.matmul(drop(tf.nn.softmax(scores)), values)


def heads_to_keras(
  kernel: np.ndarray, bias: np.ndarray, num_heads: int
) -> list[np.ndarray]:
  """Returns kernel [width, 3 * width] and bias as Keras has them: a pair for each use."""
  heads = (num_heads, len(kernel) // num_heads)
  kernels, biases = np.split(kernel, 3, axis=1), np.split(bias, 3)
  return [
    part
    for of_use in zip(kernels, biases, strict=True)
    for part in (of_use[0].reshape(-1, *heads), of_use[1].reshape(heads))
  ]


def heads_from_keras(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
  """Returns the kernel and the bias that `heads_to_keras` has taken apart."""
  kernels = [kernel.reshape(len(kernel), -1) for kernel in parts[::2]]
  biases = [bias.reshape(-1) for bias in parts[1::2]]
  return [np.concatenate(kernels, axis=1), np.concatenate(biases)]
