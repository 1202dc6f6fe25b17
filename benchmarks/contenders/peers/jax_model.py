"""The workload's model in JAX: a step of SGD that is as fast on CPUs as we could make it.

What made it faster, each timed against the version without it: the input's product for
all time steps at once; a gradient of the LSTM of its own, with one product for the
recurrent weights; one softmax for loss and gradient, whose target is subtracted by a
comparison instead of a scatter; an embedding of which only the rows that were read
change. What did not help: unrolling the time loop, transposing the recurrent kernel
beforehand, taking the factors of the way back out of its loop, `vmap` over clients.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks import workloads

Weights = list[jax.Array]


def sgd_step(
  weights: Weights, ids: jax.Array, positions: jax.Array, targets: jax.Array
) -> Weights:
  """Moves weights against the gradient of a batch's mean loss.

  Args:
    weights: The workload's, in its order.
    ids: What is read, int32 [time, rows].
    positions: Where there is something to predict, as indices of the flat `ids`, int32
      [predictions]; any index where the target is padding.
    targets: What is to be predicted there, int32 [predictions].

  Returns:
    The weights after the step.
  """
  embedding, *others = weights
  row_gradients, gradients = jax.grad(_loss, argnums=(0, 1))(
    embedding[ids], others, positions, targets
  )
  rate = workloads.CLIENT_LEARNING_RATE
  return [
    embedding.at[ids].add(-rate * row_gradients),
    *(w - rate * g for w, g in zip(others, gradients, strict=True)),
  ]


def loss(
  weights: Weights, ids: jax.Array, positions: jax.Array, targets: jax.Array
) -> jax.Array:
  """Mean negative log-likelihood of a batch's targets; see `sgd_step`."""
  return _loss(weights[0][ids], weights[1:], positions, targets)


def _loss(
  inputs: jax.Array, others: Weights, positions: jax.Array, targets: jax.Array
) -> jax.Array:
  """The loss by the embedded inputs, float [time, rows, width]."""
  kernel, recurrent, bias, projection, projection_bias, output, output_bias = others
  hidden = _lstm(inputs @ kernel + bias, recurrent)
  read = hidden.reshape(-1, hidden.shape[-1])[positions]
  logits = (read @ projection + projection_bias) @ output + output_bias
  return _cross_entropy(logits, targets)


class _Steps(NamedTuple):
  """What the LSTM's way back needs of all steps, float [time, rows, units] each."""

  h: jax.Array
  c: jax.Array
  tanh_c: jax.Array
  i: jax.Array
  f: jax.Array
  g: jax.Array
  o: jax.Array


@jax.custom_vjp
def _lstm(projected: jax.Array, recurrent: jax.Array) -> jax.Array:
  """Runs an LSTM from projected inputs [time, rows, 4 * units] to outputs."""
  return _lstm_forward(projected, recurrent)[0]


def _lstm_forward(
  projected: jax.Array, recurrent: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, _Steps]]:
  def step(state, inputs):
    h, c = state
    i, f, g, o = jnp.split(inputs + h @ recurrent, 4, axis=-1)
    i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
    c = f * c + i * g
    tanh_c = jnp.tanh(c)
    h = o * tanh_c
    return (h, c), _Steps(h, c, tanh_c, i, f, g, o)

  zeros = jnp.zeros((projected.shape[1], recurrent.shape[0]))
  _, steps = lax.scan(step, (zeros, zeros), projected)
  return steps.h, (recurrent, steps)


def _lstm_backward(
  kept: tuple[jax.Array, _Steps], gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
  recurrent, steps = kept
  zeros = jnp.zeros_like(steps.h[:1])
  h_before = jnp.concatenate([zeros, steps.h[:-1]])
  c_before = jnp.concatenate([zeros, steps.c[:-1]])

  def step(state, inputs):
    dh_after, dc_after = state
    (_, _, tanh_c, i, f, g, o), c, dh = inputs
    dh += dh_after
    dc = dc_after + dh * o * (1 - tanh_c * tanh_c)
    gates = [
      dc * g * i * (1 - i),
      dc * c * f * (1 - f),
      dc * i * (1 - g * g),
      dh * tanh_c * o * (1 - o),
    ]
    gates = jnp.concatenate(gates, axis=-1)
    return (gates @ recurrent.T, dc * f), gates

  _, gates = lax.scan(
    step, (zeros[0], zeros[0]), (steps, c_before, gradient), reverse=True
  )
  units = recurrent.shape[0]
  return gates, h_before.reshape(-1, units).T @ gates.reshape(-1, 4 * units)


_lstm.defvjp(_lstm_forward, _lstm_backward)


@jax.custom_vjp
def _cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
  """Mean negative log-likelihood of the targets that are not padding."""
  return _cross_entropy_forward(logits, targets)[0]


def _cross_entropy_forward(
  logits: jax.Array, targets: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
  largest = logits.max(axis=-1, keepdims=True)
  exponentials = jnp.exp(logits - largest)
  total = exponentials.sum(axis=-1, keepdims=True)
  mask = (targets != workloads.PAD_ID)[:, None]
  shares = mask / jnp.maximum(mask.sum(), 1)
  likelihood = jnp.take_along_axis(logits, targets[:, None], axis=-1)
  value = ((jnp.log(total) + largest - likelihood) * shares).sum()
  return value, (exponentials, total, targets, shares)


def _cross_entropy_backward(
  kept: tuple[jax.Array, ...], gradient: jax.Array
) -> tuple[jax.Array, None]:
  exponentials, total, targets, shares = kept
  shares = shares * gradient
  is_target = targets[:, None] == jnp.arange(exponentials.shape[-1])
  return exponentials * (shares / total) - jnp.where(is_target, shares, 0), None


_cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)
