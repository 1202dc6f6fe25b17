"""LSTM and GRU over time as pure functions with their own gradients.

Autodiff of a recurrence forms the weight gradient inside the time loop, one
small matrix product a step. Here the backward loop runs only the recurrence of
the gate gradients; the weight gradient is then one product over all steps, and
the input projection stands outside the loop altogether.

An LSTM that reads every step goes forward in one operation of TensorFlow's, which has
no small ones to start; the way back of that operation takes three times as long as ours.

All is time-major, since a step is then one block of memory. Weights are those of
`tf.keras.layers.LSTM` and `GRU` (with `reset_after`), and so are the results. A masked
step keeps the state and repeats the output before it.
"""

import tensorflow as tf

from tff_textpriv.models import recurrent_cells

_Cell = recurrent_cells.LstmCell | recurrent_cells.GruCell
_State = recurrent_cells.State


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
    inputs: Float tensor [time, batch, features].
    kernel: [features, 4 * units], gates in Keras's order (i, f, c, o).
    recurrent_kernel: [units, 4 * units].
    bias: [4 * units].
    state: The state (h, c), each [batch, units], to start from; zeros if `None`.
    mask: Boolean tensor [time, batch], false where there is nothing to read; all
      is read if `None`. Without one, the gradient has no gradient of its own.

  Returns:
    Outputs [time, batch, units], and the state after the last step.
  """
  if state is None:
    state = (_zeros(inputs, recurrent_kernel),) * 2
  if mask is None and inputs.dtype == tf.float32:
    outputs, h, c = _fused_lstm(inputs, kernel, recurrent_kernel, bias, *state)
    return outputs, (h, c)
  no_bias = tf.zeros_like(bias)
  outputs, (h, c) = _run(
    recurrent_cells.LstmCell(),
    inputs,
    kernel,
    bias,
    recurrent_kernel,
    no_bias,
    state,
    mask,
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
    inputs: Float tensor [time, batch, features].
    kernel: [features, 3 * units], gates in Keras's order (z, r, h).
    recurrent_kernel: [units, 3 * units].
    bias: [2, 3 * units], that of the input and that of the recurrence.
    state: The state [batch, units] to start from; zeros if `None`.
    mask: Boolean tensor [time, batch], false where there is nothing to read; all
      is read if `None`.

  Returns:
    Outputs [time, batch, units], and the state after the last step.
  """
  if state is None:
    state = _zeros(inputs, recurrent_kernel)
  outputs, (h,) = _run(
    recurrent_cells.GruCell(),
    inputs,
    kernel,
    bias[0],
    recurrent_kernel,
    bias[1],
    (state,),
    mask,
  )
  return outputs, h


@tf.custom_gradient
def _fused_lstm(inputs, kernel, recurrent_kernel, bias, first_h, first_c):
  """An LSTM that reads every step; returns outputs, h and c after the last one."""
  no_peephole = tf.zeros(recurrent_kernel.shape[:1])
  i, all_c, f, o, g, tanh_c, all_h = tf.raw_ops.BlockLSTMV2(
    seq_len_max=tf.shape(inputs, tf.int64)[0],
    x=inputs,
    cs_prev=first_c,
    h_prev=first_h,
    w=tf.concat([kernel, recurrent_kernel], axis=0),
    wci=no_peephole,
    wcf=no_peephole,
    wco=no_peephole,
    b=bias,
    cell_clip=0.0,
  )
  h_and_before = tf.concat([first_h[tf.newaxis], all_h], axis=0)
  c_and_before = tf.concat([first_c[tf.newaxis], all_c], axis=0)

  def gradient(d_outputs, d_last_h, d_last_c):
    # TensorFlow would take gradients of gradients through two of the seven only.
    gates = [_without_gradient(gate) for gate in (i, f, g, o)]
    cell = recurrent_cells.LstmCell()
    factors = cell.factors_of_gates(gates, _without_gradient(tanh_c), c_and_before[:-1])
    d_gates, (d_h, d_c) = _loop_back(
      cell, factors, d_outputs, (d_last_h, d_last_c), recurrent_kernel
    )
    flat = tf.reshape(d_gates, [-1, kernel.shape[1]])
    d_inputs = tf.matmul(flat, kernel, transpose_b=True)
    return (
      tf.reshape(d_inputs, tf.shape(inputs)),
      _over_all_steps(inputs, flat),
      _over_all_steps(h_and_before[:-1], flat),
      tf.reduce_sum(flat, axis=0),
      d_h,
      d_c,
    )

  return (all_h, h_and_before[-1], c_and_before[-1]), gradient


def _without_gradient(tensor: tf.Tensor) -> tf.Tensor:
  """Returns the tensor itself, whose gradient is an error."""
  return tf.raw_ops.PreventGradient(
    input=tensor, message='The gradient of an LSTM without a mask has no gradient.'
  )


def _run(
  cell: _Cell,
  inputs: tf.Tensor,
  kernel: tf.Tensor,
  bias: tf.Tensor,
  recurrent_kernel: tf.Tensor,
  recurrent_bias: tf.Tensor,
  state: _State,
  mask: tf.Tensor | None,
) -> tuple[tf.Tensor, _State]:
  """Projects the inputs of all steps in one product, then loops over time."""
  projected = tf.tensordot(inputs, kernel, 1) + bias
  # [time, batch, 1]; 1 where there is something to read.
  keep = None if mask is None else tf.cast(mask, inputs.dtype)[..., tf.newaxis]

  @tf.custom_gradient
  def recurrence(projected, recurrent_kernel, recurrent_bias, *first):
    return _recurrence(cell, keep, projected, recurrent_kernel, recurrent_bias, first)

  outputs, *last = recurrence(projected, recurrent_kernel, recurrent_bias, *state)
  if keep is not None:
    # As Keras has it: before the first step that is read, the output is zero.
    outputs *= tf.cast(tf.cumsum(keep) > 0, outputs.dtype)
  return outputs, tuple(last)


def _recurrence(cell, keep, projected, recurrent_kernel, recurrent_bias, first):
  """The time loop and its gradient."""
  num_steps = tf.shape(projected)[0]
  units, gates_width = recurrent_kernel.shape

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
    (
      0,
      first,
      tuple(_array(first[0], num_steps, units) for _ in first),
      _array(first[0], num_steps, gates_width),
    ),
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
    d_kept, d_first = _loop_back(cell, factors, d_outputs, d_last, recurrent_kernel)
    d_projected, d_inner = cell.finish(d_kept, factors)
    d_inner = tf.reshape(d_inner, [-1, gates_width])
    d_recurrent_kernel = _over_all_steps(before[0], d_inner)
    d_recurrent_bias = tf.reduce_sum(d_inner, axis=0)
    return d_projected, d_recurrent_kernel, d_recurrent_bias, *d_first

  return (outputs, *last), gradient


def _loop_back(
  cell: _Cell,
  factors: tuple[tf.Tensor, ...],
  d_outputs: tf.Tensor,
  d_last: _State,
  recurrent_kernel: tf.Tensor,
) -> tuple[tf.Tensor, _State]:
  """Goes back through time.

  Args:
    cell: What a step is.
    factors: Its factors, all steps.
    d_outputs: The gradient of the outputs [time, batch, units].
    d_last: The gradient of the state after the last step.
    recurrent_kernel: [units, gates * units].

  Returns:
    What the cell keeps of all steps, and the gradient of the state before the first.
  """
  num_steps = tf.shape(d_outputs)[0]
  width = cell.num_gradients * recurrent_kernel.shape[0]
  # Products with a transposed matrix are slow where the other one has few rows.
  transposed_kernel = tf.transpose(recurrent_kernel)

  def step_back(step, d_state, all_d_kept):
    d_after = (d_state[0] + d_outputs[step], *d_state[1:])
    d_kept, d_inner, (d_h, *d_others) = cell.backward(
      tuple(factor[step] for factor in factors), d_after
    )
    d_h_by_inner = tf.matmul(d_inner, transposed_kernel)
    d_h = d_h_by_inner if d_h is None else d_h + d_h_by_inner
    return step - 1, (d_h, *d_others), all_d_kept.write(step, d_kept)

  _, d_first, all_d_kept = tf.while_loop(
    lambda step, *_: step >= 0,
    step_back,
    (num_steps - 1, tuple(d_last), _array(d_last[0], num_steps, width)),
  )
  return all_d_kept.stack(), d_first


def _over_all_steps(values: tf.Tensor, d_products: tf.Tensor) -> tf.Tensor:
  """Returns the gradient of a kernel that multiplied values [time, batch, width].

  Args:
    values: What was multiplied.
    d_products: The gradient of the products [time * batch, gates * units].
  """
  return tf.matmul(
    tf.reshape(values, [-1, values.shape[-1]]), d_products, transpose_a=True
  )


def _array(like: tf.Tensor, num_steps: tf.Tensor, width: int) -> tf.TensorArray:
  """Returns room for [time, batch, width] with the batch of `like` [batch, ...]."""
  shape = [like.shape[0], width]
  return tf.TensorArray(like.dtype, num_steps, element_shape=shape)


def _zeros(inputs: tf.Tensor, recurrent_kernel: tf.Tensor) -> tf.Tensor:
  return tf.zeros([tf.shape(inputs)[1], recurrent_kernel.shape[0]], inputs.dtype)
