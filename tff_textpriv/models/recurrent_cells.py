"""One step of an LSTM and of a GRU, there and back, for the time loops of `recurrent`.

A time loop spends most of its time on starting small operations, so that what does
not depend on the step before is done for all steps at once.
"""

from collections.abc import Sequence

import tensorflow as tf

# The tensors, each [batch, units], that a cell hands from step to step, h first.
State = tuple[tf.Tensor, ...]


class LstmCell:
  """One step of an LSTM."""

  has_recurrent_bias = False
  # How many gradients [batch, units] a step of the way back keeps.
  num_gradients = 4

  def forward(
    self, projected: tf.Tensor, inner: tf.Tensor, state: State
  ) -> tuple[State, tf.Tensor]:
    """Returns the next state, and what to keep for the way back [batch, 4 * units].

    Args:
      projected: The step's input times the kernel, with the bias [batch, 4 * units].
      inner: The state h times the recurrent kernel [batch, 4 * units].
      state: The state (h, c).
    """
    i, f, g, o = tf.split(projected + inner, 4, axis=1)
    i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
    c = f * state[1] + i * g
    return (o * tf.tanh(c), c), tf.concat([i, f, g, o], axis=1)

  def factors(
    self,
    projected: tf.Tensor,
    kept: tf.Tensor,
    before: State,
    after: State,
    keep: tf.Tensor | None,
  ) -> tuple[tf.Tensor, ...]:
    """Returns what `backward` multiplies gradients with, for all steps at once.

    Args:
      projected: The inputs times the kernel [time, batch, 4 * units].
      kept: What `forward` kept, all steps [time, batch, 4 * units].
      before: The states before the steps, [time, batch, units] each.
      after: The states after them.
      keep: 1 where a step is read and 0 where it is not [time, batch, 1], or `None`.
    """
    del projected  # The gates have it.
    factors = self.factors_of_gates(
      tf.split(kept, 4, axis=-1), tf.tanh(after[1]), before[1]
    )
    if keep is None:
      return factors
    c_by_h, step_by_state, f = factors
    return c_by_h * keep, step_by_state * keep, f * keep + (1 - keep), 1 - keep

  def factors_of_gates(
    self, gates: Sequence[tf.Tensor], tanh_c: tf.Tensor, c_before: tf.Tensor
  ) -> tuple[tf.Tensor, ...]:
    """Returns the factors where every step is read; all are [time, batch, units].

    Args:
      gates: The gates i, f, g and o.
      tanh_c: The tanh of the states c after the steps.
      c_before: The states c before them.
    """
    i, f, g, o = gates
    step_by_state = tf.concat(
      [
        g * i * (1 - i),
        c_before * f * (1 - f),
        i * (1 - g**2),
        tanh_c * o * (1 - o),
      ],
      axis=-1,
    )
    return o * (1 - tanh_c**2), step_by_state, f

  def backward(
    self, factors: tuple[tf.Tensor, ...], d_after: State
  ) -> tuple[tf.Tensor, tf.Tensor, State]:
    """Returns gradients: to keep, of `inner`, of the state other than by `inner`.

    Args:
      factors: The step's.
      d_after: The gradient of the state after the step.
    """
    c_by_h, step_by_state, f, *skipped = factors
    d_h, d_c = d_after
    d_c = d_c + d_h * c_by_h
    d_gates = tf.concat([d_c, d_c, d_c, d_h], axis=1) * step_by_state
    d_h = skipped[0] * d_h if skipped else None
    return d_gates, d_gates, (d_h, d_c * f)

  def finish(
    self, d_kept: tf.Tensor, factors: tuple[tf.Tensor, ...]
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gradients of `projected` and of `inner`, for all steps at once."""
    del factors  # All is done.
    return d_kept, d_kept


class GruCell:
  """One step of a GRU; see `LstmCell`."""

  has_recurrent_bias = True
  num_gradients = 1

  def forward(
    self, projected: tf.Tensor, inner: tf.Tensor, state: State
  ) -> tuple[State, tf.Tensor]:
    """Returns the next state, and what to keep for the way back [batch, 3 * units]."""
    x_z, x_r, x_h = tf.split(projected, 3, axis=1)
    inner_z, inner_r, inner_h = tf.split(inner, 3, axis=1)
    z = tf.sigmoid(x_z + inner_z)
    candidate = tf.tanh(x_h + tf.sigmoid(x_r + inner_r) * inner_h)
    return (candidate + z * (state[0] - candidate),), inner

  def factors(
    self,
    projected: tf.Tensor,
    kept: tf.Tensor,
    before: State,
    after: State,
    keep: tf.Tensor | None,
  ) -> tuple[tf.Tensor, ...]:
    """Returns what `backward` multiplies gradients with, for all steps at once."""
    del after  # The gates say it all.
    x_z, x_r, x_h = tf.split(projected, 3, axis=-1)
    inner_z, inner_r, inner_h = tf.split(kept, 3, axis=-1)
    z, r = tf.sigmoid(x_z + inner_z), tf.sigmoid(x_r + inner_r)
    candidate = tf.tanh(x_h + r * inner_h)
    z_by_h = (before[0] - candidate) * z * (1 - z)
    candidate_by_h = (1 - z) * (1 - candidate**2)
    r_by_h = candidate_by_h * inner_h * r * (1 - r)
    projected_by_h = tf.concat([z_by_h, r_by_h, candidate_by_h], axis=-1)
    inner_by_h = tf.concat([z_by_h, r_by_h, candidate_by_h * r], axis=-1)
    if keep is None:
      return inner_by_h, z, projected_by_h
    return inner_by_h * keep, z * keep + (1 - keep), projected_by_h * keep

  def backward(
    self, factors: tuple[tf.Tensor, ...], d_after: State
  ) -> tuple[tf.Tensor, tf.Tensor, State]:
    """Returns gradients: to keep, of `inner`, of the state other than by `inner`."""
    inner_by_h, z, _ = factors
    (d_h,) = d_after
    return d_h, tf.tile(d_h, [1, 3]) * inner_by_h, (d_h * z,)

  def finish(
    self, d_kept: tf.Tensor, factors: tuple[tf.Tensor, ...]
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the gradients of `projected` and of `inner`, for all steps at once."""
    inner_by_h, _, projected_by_h = factors
    d_h = tf.tile(d_kept, [1, 1, 3])
    return d_h * projected_by_h, d_h * inner_by_h
