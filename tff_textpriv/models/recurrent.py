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
  """One step of an LSTM, there and back."""

  has_recurrent_bias = False

  def forward(
    self, projected: tf.Tensor, inner: tf.Tensor, state: _State
  ) -> tuple[_State, tf.Tensor]:
    """Returns the next state, and the gates for the way back [batch, 4 * units].

    Args:
      projected: The step's input times the kernel [batch, 4 * units].
      inner: The state h times the recurrent kernel [batch, 4 * units].
      state: The state (h, c).
    """
    i, f, g, o = tf.split(projected + inner, 4, axis=1)
    i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
    c = f * state[1] + i * g
    return (o * tf.tanh(c), c), tf.concat([i, f, g, o], axis=1)

  def backward(
    self, kept: tf.Tensor, before: _State, after: _State, d_after: _State
  ) -> tuple[tf.Tensor, tf.Tensor, _State]:
    """Returns gradients: of the step, of `inner`, of `before` other than by `inner`.

    Args:
      kept: What `forward` kept.
      before: The state before the step.
      after: The state after it.
      d_after: The gradient of that state.
    """
    i, f, g, o = tf.split(kept, 4, axis=1)
    d_h, d_c = d_after
    tanh_c = tf.tanh(after[1])
    d_c = d_c + d_h * o * (1 - tanh_c**2)
    d_step = tf.concat(
      [
        d_c * g * i * (1 - i),
        d_c * before[1] * f * (1 - f),
        d_c * i * (1 - g**2),
        d_h * tanh_c * o * (1 - o),
      ],
      axis=1,
    )
    return d_step, d_step, (tf.zeros_like(d_h), d_c * f)

  def split(self, d_steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits the gradients of all steps into those of `projected` and `inner`."""
    return d_steps, d_steps


class _GruCell:
  """One step of a GRU, there and back; see `_LstmCell`."""

  has_recurrent_bias = True

  def forward(
    self, projected: tf.Tensor, inner: tf.Tensor, state: _State
  ) -> tuple[_State, tf.Tensor]:
    """Returns the next state, and what the way back needs [batch, 4 * units]."""
    x_z, x_r, x_h = tf.split(projected, 3, axis=1)
    inner_z, inner_r, inner_h = tf.split(inner, 3, axis=1)
    z, r = tf.sigmoid(x_z + inner_z), tf.sigmoid(x_r + inner_r)
    candidate = tf.tanh(x_h + r * inner_h)
    h = z * state[0] + (1 - z) * candidate
    return (h,), tf.concat([z, r, candidate, inner_h], axis=1)

  def backward(
    self, kept: tf.Tensor, before: _State, after: _State, d_after: _State
  ) -> tuple[tf.Tensor, tf.Tensor, _State]:
    """Returns gradients: of the step, of `inner`, of `before` other than by `inner`."""
    del after  # The gates say it all.
    z, r, candidate, inner_h = tf.split(kept, 4, axis=1)
    (d_h,) = d_after
    d_z = d_h * (before[0] - candidate) * z * (1 - z)
    d_candidate = d_h * (1 - z) * (1 - candidate**2)
    d_r = d_candidate * inner_h * r * (1 - r)
    d_step = tf.concat([d_z, d_r, d_candidate, d_candidate * r], axis=1)
    return d_step, self.split(d_step)[1], (d_h * z,)

  def split(self, d_steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits the gradients of all steps into those of `projected` and `inner`."""
    d_z, d_r, d_candidate, d_inner_h = tf.split(d_steps, 4, axis=-1)
    return (
      tf.concat([d_z, d_r, d_candidate], axis=-1),
      tf.concat([d_z, d_r, d_inner_h], axis=-1),
    )


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
  units = recurrent_kernel.shape[0]

  def array(width):
    shape = [first[0].shape[0], width]
    return tf.TensorArray(projected.dtype, num_steps, element_shape=shape)

  def forward_step(step, state, states_kept, gates_kept):
    inner = tf.matmul(state[0], recurrent_kernel)
    if cell.has_recurrent_bias:
      inner += recurrent_bias
    new, gates = cell.forward(projected[step], inner, state)
    if keep is not None:
      new = tuple(
        keep[step] * now + (1 - keep[step]) * before
        for now, before in zip(new, state, strict=True)
      )
    states_kept = tuple(
      kept.write(step, part) for kept, part in zip(states_kept, new, strict=True)
    )
    return step + 1, new, states_kept, gates_kept.write(step, gates)

  _, last, states_kept, gates_kept = tf.while_loop(
    lambda step, *_: step < num_steps,
    forward_step,
    (0, first, tuple(array(units) for _ in first), array(4 * units)),
  )
  gates_kept = gates_kept.stack()
  after = tuple(kept.stack() for kept in states_kept)
  outputs = after[0]

  def gradient(d_outputs, *d_last):
    # A time loop of no steps at all has no state before a step to speak of.
    before = tuple(
      tf.concat([start[tf.newaxis], states[:-1]], axis=0)[:num_steps]
      for start, states in zip(first, after, strict=True)
    )

    def backward_step(step, d_state, d_steps):
      d_state = (d_state[0] + d_outputs[step], *d_state[1:])
      d_new, d_skipped = d_state, None
      if keep is not None:
        d_new = tuple(keep[step] * part for part in d_state)
        d_skipped = tuple((1 - keep[step]) * part for part in d_state)
      d_step, d_inner, d_before = cell.backward(
        gates_kept[step],
        tuple(states[step] for states in before),
        tuple(states[step] for states in after),
        d_new,
      )
      d_h = d_before[0] + tf.matmul(d_inner, recurrent_kernel, transpose_b=True)
      d_state = (d_h, *d_before[1:])
      if d_skipped is not None:
        d_state = tuple(a + b for a, b in zip(d_state, d_skipped, strict=True))
      return step - 1, d_state, d_steps.write(step, d_step)

    _, d_first, d_steps = tf.while_loop(
      lambda step, *_: step >= 0,
      backward_step,
      (num_steps - 1, tuple(d_last), array(4 * units)),
    )
    d_projected, d_inner = cell.split(d_steps.stack())
    d_inner = tf.reshape(d_inner, [-1, recurrent_kernel.shape[1]])
    d_recurrent_kernel = tf.matmul(
      tf.reshape(before[0], [-1, units]), d_inner, transpose_a=True
    )
    return d_projected, d_recurrent_kernel, tf.reduce_sum(d_inner, 0), *d_first

  return (outputs, *last), gradient


def _zeros(inputs: tf.Tensor, recurrent_kernel: tf.Tensor) -> tf.Tensor:
  return tf.zeros([tf.shape(inputs)[0], recurrent_kernel.shape[0]], inputs.dtype)
