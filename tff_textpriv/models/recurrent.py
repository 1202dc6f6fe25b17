"""LSTM and GRU over time as pure functions with their own gradients.

Autodiff of a recurrence forms the weight gradient inside the time loop, one
small matrix product a step. Here the backward loop runs only the recurrence of
the gate gradients; the weight gradient is then one product over all steps, and
the input projection stands outside the loop altogether.

Weights are those of `tf.keras.layers.LSTM` and `GRU` (with `reset_after`), and so
are the results. A masked step keeps the state and repeats the output before it.
"""

import tensorflow as tf

# The tensors, each [batch, units], that a cell hands from step to step, h first.
_State = tuple[tf.Tensor, ...]


def lstm(
  inputs: tf.Tensor,
  kernel: tf.Tensor,
  recurrent_kernel: tf.Tensor,
  bias: tf.Tensor,
  state: tuple[tf.Tensor, tf.Tensor] | None = None,
  mask: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
  """Runs an LSTM layer.

  Args:
    inputs: Float tensor [batch, time, features].
    kernel: [features, 4 * units], gates in Keras's order (i, f, c, o).
    recurrent_kernel: [units, 4 * units].
    bias: [4 * units].
    state: The state (h, c), each [batch, units], to start from; zeros if `None`.
    mask: Boolean tensor [batch, time], false where there is nothing to read; all
      is read if `None`.

  Returns:
    Outputs [batch, time, units], and the state after the last step.
  """
  if state is None:
    state = (_zeros(inputs, recurrent_kernel),) * 2
  no_bias = tf.zeros_like(bias)
  outputs, (h, c) = _run(
    _LstmCell(), inputs, kernel, bias, recurrent_kernel, no_bias, state, mask
  )
  return outputs, (h, c)


def gru(
  inputs: tf.Tensor,
  kernel: tf.Tensor,
  recurrent_kernel: tf.Tensor,
  bias: tf.Tensor,
  state: tf.Tensor | None = None,
  mask: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Runs a GRU layer.

  Args:
    inputs: Float tensor [batch, time, features].
    kernel: [features, 3 * units], gates in Keras's order (z, r, h).
    recurrent_kernel: [units, 3 * units].
    bias: [2, 3 * units], that of the input and that of the recurrence.
    state: The state [batch, units] to start from; zeros if `None`.
    mask: Boolean tensor [batch, time], false where there is nothing to read; all
      is read if `None`.

  Returns:
    Outputs [batch, time, units], and the state after the last step.
  """
  if state is None:
    state = _zeros(inputs, recurrent_kernel)
  outputs, (h,) = _run(
    _GruCell(), inputs, kernel, bias[0], recurrent_kernel, bias[1], (state,), mask
  )
  return outputs, h


class _LstmCell:
  """One step of an LSTM, there and back.

  A time loop spends most of its time on starting small operations, so that what
  does not depend on the step before is done for all steps at once.
  """

  has_recurrent_bias = False
  # How many gradients [batch, units] a step of the way back keeps.
  num_gradients = 4

  def forward(
    self, projected: tf.Tensor, inner: tf.Tensor, state: _State
  ) -> tuple[_State, tf.Tensor]:
    """Returns the next state, and what to keep for the way back [batch, 4 * units].

    Args:
      projected: The step's input times the kernel [batch, 4 * units].
      inner: The state h times the recurrent kernel [batch, 4 * units].
      state: The state (h, c).
    """
    gates = projected + inner
    i, f, g, o = tf.split(gates, 4, axis=1)
    c = tf.sigmoid(f) * state[1] + tf.sigmoid(i) * tf.tanh(g)
    return (tf.sigmoid(o) * tf.tanh(c), c), gates

  def factors(
    self,
    projected: tf.Tensor,
    kept: tf.Tensor,
    before: _State,
    after: _State,
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
    i, f, g, o = tf.split(kept, 4, axis=-1)
    i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
    tanh_c = tf.tanh(after[1])
    c_by_h = o * (1 - tanh_c**2)
    step_by_state = tf.concat(
      [
        g * i * (1 - i),
        before[1] * f * (1 - f),
        i * (1 - g**2),
        tanh_c * o * (1 - o),
      ],
      axis=-1,
    )
    if keep is None:
      return c_by_h, step_by_state, f
    return c_by_h * keep, step_by_state * keep, f * keep + (1 - keep), 1 - keep

  def backward(
    self, factors: tuple[tf.Tensor, ...], d_after: _State
  ) -> tuple[tf.Tensor, tf.Tensor, _State]:
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


class _GruCell:
  """One step of a GRU, there and back; see `_LstmCell`."""

  has_recurrent_bias = True
  num_gradients = 1

  def forward(
    self, projected: tf.Tensor, inner: tf.Tensor, state: _State
  ) -> tuple[_State, tf.Tensor]:
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
    before: _State,
    after: _State,
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
    self, factors: tuple[tf.Tensor, ...], d_after: _State
  ) -> tuple[tf.Tensor, tf.Tensor, _State]:
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


def _run(
  cell: _LstmCell | _GruCell,
  inputs: tf.Tensor,
  kernel: tf.Tensor,
  bias: tf.Tensor,
  recurrent_kernel: tf.Tensor,
  recurrent_bias: tf.Tensor,
  state: _State,
  mask: tf.Tensor | None,
) -> tuple[tf.Tensor, _State]:
  """Projects the inputs of all steps in one product, then loops over time."""
  time_major = tf.transpose(inputs, [1, 0, 2])
  projected = tf.tensordot(time_major, kernel, 1) + bias
  # [time, batch, 1]; 1 where there is something to read.
  keep = None if mask is None else tf.cast(tf.transpose(mask), inputs.dtype)[..., None]

  @tf.custom_gradient
  def recurrence(projected, recurrent_kernel, recurrent_bias, *first):
    return _recurrence(cell, keep, projected, recurrent_kernel, recurrent_bias, first)

  outputs, *last = recurrence(projected, recurrent_kernel, recurrent_bias, *state)
  if keep is not None:
    # As Keras has it: before the first step that is read, the output is zero.
    outputs *= tf.cast(tf.cumsum(keep) > 0, outputs.dtype)
  return tf.transpose(outputs, [1, 0, 2]), tuple(last)


def _recurrence(cell, keep, projected, recurrent_kernel, recurrent_bias, first):
  """The time loop and its gradient; time-major, see `_run`."""
  num_steps = tf.shape(projected)[0]
  units, gates_width = recurrent_kernel.shape

  def array(width):
    shape = [first[0].shape[0], width]
    return tf.TensorArray(projected.dtype, num_steps, element_shape=shape)

  def forward_step(step, state, all_states, all_kept):
    inner = tf.matmul(state[0], recurrent_kernel)
    if cell.has_recurrent_bias:
      inner += recurrent_bias
    new, kept = cell.forward(projected[step], inner, state)
    if keep is not None:
      new = tuple(
        keep[step] * now + (1 - keep[step]) * before
        for now, before in zip(new, state, strict=True)
      )
    all_states = tuple(
      states.write(step, part) for states, part in zip(all_states, new, strict=True)
    )
    return step + 1, new, all_states, all_kept.write(step, kept)

  _, last, all_states, all_kept = tf.while_loop(
    lambda step, *_: step < num_steps,
    forward_step,
    (0, first, tuple(array(units) for _ in first), array(gates_width)),
  )
  all_kept = all_kept.stack()
  after = tuple(states.stack() for states in all_states)
  outputs = after[0]

  def gradient(d_outputs, *d_last):
    # A time loop of no steps at all has no state before a step to speak of.
    before = tuple(
      tf.concat([start[tf.newaxis], states[:-1]], axis=0)[:num_steps]
      for start, states in zip(first, after, strict=True)
    )
    factors = cell.factors(projected, all_kept, before, after, keep)
    # Products with a transposed matrix are slow where the other one has few rows.
    transposed_kernel = tf.transpose(recurrent_kernel)

    def backward_step(step, d_state, all_d_kept):
      d_after = (d_state[0] + d_outputs[step], *d_state[1:])
      d_kept, d_inner, (d_h, *d_others) = cell.backward(
        tuple(factor[step] for factor in factors), d_after
      )
      d_h_by_inner = tf.matmul(d_inner, transposed_kernel)
      d_h = d_h_by_inner if d_h is None else d_h + d_h_by_inner
      return step - 1, (d_h, *d_others), all_d_kept.write(step, d_kept)

    _, d_first, all_d_kept = tf.while_loop(
      lambda step, *_: step >= 0,
      backward_step,
      (num_steps - 1, tuple(d_last), array(cell.num_gradients * units)),
    )
    d_projected, d_inner = cell.finish(all_d_kept.stack(), factors)
    d_inner = tf.reshape(d_inner, [-1, gates_width])
    d_recurrent_kernel = tf.matmul(
      tf.reshape(before[0], [-1, units]), d_inner, transpose_a=True
    )
    d_recurrent_bias = tf.reduce_sum(d_inner, axis=0)
    return d_projected, d_recurrent_kernel, d_recurrent_bias, *d_first

  return (outputs, *last), gradient


def _zeros(inputs: tf.Tensor, recurrent_kernel: tf.Tensor) -> tf.Tensor:
  return tf.zeros([tf.shape(inputs)[0], recurrent_kernel.shape[0]], inputs.dtype)
