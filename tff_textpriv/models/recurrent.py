"""An LSTM over time as a pure function with its own gradient.

Autodiff of a recurrence forms the weight gradient inside the time loop, one
small matrix product a step. Here the backward loop runs only the recurrence of
the gate gradients; the weight gradient is then one product over all steps, and
the input projection stands outside the loop altogether.
"""

import tensorflow as tf


def lstm(
  inputs: tf.Tensor,
  kernel: tf.Tensor,
  recurrent_kernel: tf.Tensor,
  bias: tf.Tensor,
  state: tuple[tf.Tensor, tf.Tensor] | None = None,
) -> tuple[tf.Tensor, tuple[tf.Tensor, tf.Tensor]]:
  """Runs an LSTM layer with the weights of a `tf.keras.layers.LSTM`.

  Args:
    inputs: Float tensor [batch, time, features].
    kernel: [features, 4 * units], gates in Keras's order (i, f, c, o).
    recurrent_kernel: [units, 4 * units].
    bias: [4 * units].
    state: The state (h, c), each [batch, units], to start from; zeros if `None`.

  Returns:
    Outputs [batch, time, units], and the state after the last step.
  """
  units = recurrent_kernel.shape[0]
  if state is None:
    zeros = tf.zeros([tf.shape(inputs)[0], units], inputs.dtype)
    state = (zeros, zeros)
  time_major = tf.transpose(inputs, [1, 0, 2])
  # All steps' input projections in one product: [time, batch, 4 * units].
  projected = tf.tensordot(time_major, kernel, 1) + bias
  outputs, last_h, last_c = _recurrence(projected, recurrent_kernel, *state)
  return tf.transpose(outputs, [1, 0, 2]), (last_h, last_c)


@tf.custom_gradient
def _recurrence(projected, recurrent_kernel, first_h, first_c):
  """The LSTM's time loop; see `lstm` for shapes (time-major here)."""
  num_steps = tf.shape(projected)[0]
  units = recurrent_kernel.shape[0]
  dtype = projected.dtype

  def forward_step(step, h, c, gates_kept, cells_kept, outputs):
    gates = projected[step] + tf.matmul(h, recurrent_kernel)
    i, f, g, o = tf.split(gates, 4, axis=1)
    i, f, g, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(g), tf.sigmoid(o)
    c = f * c + i * g
    h = o * tf.tanh(c)
    gates_kept = gates_kept.write(step, tf.concat([i, f, g, o], axis=1))
    return step + 1, h, c, gates_kept, cells_kept.write(step, c), outputs.write(step, h)

  def array(width):
    return tf.TensorArray(dtype, num_steps, element_shape=[first_h.shape[0], width])

  _, last_h, last_c, gates_kept, cells_kept, outputs = tf.while_loop(
    lambda step, *_: step < num_steps,
    forward_step,
    (0, first_h, first_c, array(4 * units), array(units), array(units)),
  )
  gates_kept, cells_kept = gates_kept.stack(), cells_kept.stack()
  outputs = outputs.stack()

  def gradient(d_outputs, d_last_h, d_last_c):
    previous_h = tf.concat([first_h[tf.newaxis], outputs[:-1]], axis=0)
    previous_c = tf.concat([first_c[tf.newaxis], cells_kept[:-1]], axis=0)
    # A time loop of no steps at all has no previous state to speak of.
    previous_h, previous_c = previous_h[:num_steps], previous_c[:num_steps]

    def backward_step(step, d_h, d_c, d_gates):
      i, f, g, o = tf.split(gates_kept[step], 4, axis=1)
      tanh_c = tf.tanh(cells_kept[step])
      d_h = d_h + d_outputs[step]
      d_c = d_c + d_h * o * (1 - tanh_c**2)
      d_step = tf.concat(
        [
          d_c * g * i * (1 - i),
          d_c * previous_c[step] * f * (1 - f),
          d_c * i * (1 - g**2),
          d_h * tanh_c * o * (1 - o),
        ],
        axis=1,
      )
      d_h = tf.matmul(d_step, recurrent_kernel, transpose_b=True)
      return step - 1, d_h, d_c * f, d_gates.write(step, d_step)

    _, d_first_h, d_first_c, d_gates = tf.while_loop(
      lambda step, *_: step >= 0,
      backward_step,
      (num_steps - 1, d_last_h, d_last_c, array(4 * units)),
    )
    d_projected = d_gates.stack()
    d_recurrent_kernel = tf.matmul(
      tf.reshape(previous_h, [-1, units]),
      tf.reshape(d_projected, [-1, 4 * units]),
      transpose_a=True,
    )
    return d_projected, d_recurrent_kernel, d_first_h, d_first_c

  return (outputs, last_h, last_c), gradient
