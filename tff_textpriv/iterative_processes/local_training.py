"""Training on one device, of a model with a part that stays and a part that is shared.

Pure functions of tensors: the client work of a round runs them in the worker, the
evaluation of users' own models beside it.
"""

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.aggregators import sound_updates

Tensors = tuple[tf.Tensor, ...]

_STEP_SIZE = tff.learning.optimizers.LEARNING_RATE_KEY


class Parts(NamedTuple):
  """A model on a device.

  Attributes:
    local: The weights that stay; the first ones of the model.
    shared: The weights that the server hands out.
    anchor: Where the local weights started; empty if nothing pulls them there.
  """

  local: Tensors
  shared: Tensors
  anchor: Tensors = ()


class Trained(NamedTuple):
  """What local training leaves.

  Attributes:
    parts: The model.
    optimizer: The state of the local part's optimizer.
    metrics: Sums that the model's metrics are made of.
    num_examples: The number of examples that both parts were trained on, float32 [].
  """

  parts: Parts
  optimizer: Any
  metrics: Any
  num_examples: tf.Tensor


class LocalTrainer:
  """Trains a model in two steps: first its local part may adapt to the shared one.

  Each part has an optimizer state of its own: the local part's is kept on the device,
  the shared part's begins anew in each round, as the weights it belongs to do.

  Attributes:
    batch_spec: What a batch is.
    local_specs: Types and shapes of the local weights; a table may have any length.
    shared_specs: Those of the shared weights.
    anchor_specs: Those of where the local weights started, if that is kept.
  """

  def __init__(
    self,
    model: tff.learning.models.FunctionalModel,
    optimizer: tff.learning.optimizers.Optimizer,
    num_local: int,
    *,
    trains_local: bool = True,
    local_step: float = 1.0,
    fresh_optimizer: bool = False,
    anchor_strength: float = 0.0,
    decays: bool = False,
  ):
    """Prepares training.

    Args:
      model: The whole model; its initial weights tell the number of weights and their
        shapes, of which the rows of the first, the embedding table, do not count.
      optimizer: Takes all steps.
      num_local: How many of the model's first weights stay on the device.
      trains_local: Whether the second step trains the local part too, or only the
        shared one.
      local_step: The step size of the local part, in units of the optimizer's.
      fresh_optimizer: Whether the local part's optimizer starts anew in each round, and
        once more after adaptation, instead of going on where it was.
      anchor_strength: How strongly each step pulls the local part to where it started:
        this times the step size is the share of the way back.
      decays: Whether the step size falls linearly to zero over the batches of a round, in
        either step.
    """
    self._model = model
    self._optimizer = optimizer
    self._trains_local = trains_local
    self._local_step = local_step
    self._fresh_optimizer = fresh_optimizer
    self._anchor_strength = anchor_strength
    self._decays = decays
    specs = [tf.TensorSpec(w.shape, tf.float32) for w in model.initial_weights[0]]
    if num_local:
      specs[0] = tf.TensorSpec([None, *specs[0].shape[1:]], tf.float32)
    self.batch_spec = model.input_spec
    self.local_specs = tuple(specs[:num_local])
    self.anchor_specs = self.local_specs if anchor_strength else ()
    self.shared_specs = tuple(specs[num_local:])

  def initial_optimizer(self, weights: Sequence[Any]) -> Any:
    """Returns the optimizer's first state for some weights."""
    specs = tuple(tf.TensorSpec(weight.shape, tf.float32) for weight in weights)
    state = self._optimizer.initialize(specs)
    return tf.nest.map_structure(tf.convert_to_tensor, state)

  @property
  def optimizer_specs(self) -> Any:
    """The local part's optimizer state as tensor specs, for tables of any length."""
    # Two lengths tell which axes are rows of the table.
    few, more = (
      self.initial_optimizer([_zeros(spec, rows) for spec in self.local_specs])
      for rows in (1, 2)
    )

    def spec(a, b):
      shape = [m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)]
      return tf.TensorSpec(shape, a.dtype)

    return tf.nest.map_structure(spec, few, more)

  def train(
    self,
    parts: Parts,
    optimizer: Any,
    adaptation: tf.data.Dataset,
    batches: tf.data.Dataset,
    scale: tf.Tensor | float = 1.0,
    correction: Tensors | None = None,
  ) -> Trained:
    """Trains for a round.

    Args:
      parts: The assembled model.
      optimizer: The state of the local part's optimizer.
      adaptation: Batches on which the local part alone is trained first, with the
        shared part frozen; may be none.
      batches: Batches on which both are trained.
      scale: What the step size is multiplied by, for a schedule.
      correction: What is added to the gradients of the shared part, if anything.

    Returns:
      The trained model. If a weight, or a number of the optimizer's state, is no finite
      number any more, or a weight has moved too far to be true, everything is as it was,
      and the metrics and the number of examples are zero.
    """
    local, shared, anchor = parts
    first = self._with_step_size(optimizer, self._local_step * scale)
    local, state = self._adapt(local, first, shared, anchor, adaptation, scale)
    local, shared, state, metrics, num_examples = self._train(
      local,
      shared,
      anchor,
      first if self._fresh_optimizer else state,
      batches,
      scale,
      correction,
    )
    moved = tf.nest.map_structure(tf.subtract, (local, shared), parts[:2])
    numbers = [leaf for leaf in tf.nest.flatten(state) if leaf.dtype.is_floating]
    is_sound = sound_updates.are_sound(tf.nest.flatten(moved)) & tf.reduce_all(
      tf.stack([tf.reduce_all(tf.math.is_finite(leaf)) for leaf in numbers])
    )

    trained = Trained(
      Parts(local, shared, anchor),
      # The step size of this round is not the next one's.
      optimizer if self._fresh_optimizer else self._with_step_size(state, 1.0),
      metrics,
      num_examples,
    )
    nothing = Trained(
      parts,
      optimizer,
      tf.nest.map_structure(tf.zeros_like, metrics),
      tf.zeros_like(num_examples),
    )
    # One or the other: a choice number by number would cost another look at all.
    return tf.cond(is_sound, lambda: trained, lambda: nothing)

  def _adapt(self, local, state, shared, anchor, batches, scale):
    """Trains the local part alone."""
    if self.local_specs:
      done, number = tf.zeros([]), self._number(batches)
      for batch in iter(batches):
        state = self._decayed(state, self._local_step * scale, done / number)
        gradients, _ = self._gradients(batch, local, after=shared)
        state, local = self._step(state, local, gradients, anchor)
        done += 1.0
    return local, state

  def _train(self, local, shared, anchor, state, batches, scale, correction):
    """Trains the shared part, and the local part if that is trained along."""
    metrics = self._model.initialize_metrics_state()
    num_examples = tf.zeros([])
    shared_state = self._with_step_size(self.initial_optimizer(shared), scale)
    num_local = len(local) if self._trains_local else 0
    done, number = tf.zeros([]), self._number(batches)
    for batch in iter(batches):
      if num_local:
        gradients, output = self._gradients(batch, (*local, *shared))
        state = self._decayed(state, self._local_step * scale, done / number)
        state, local = self._step(state, local, gradients[:num_local], anchor)
      else:
        gradients, output = self._gradients(batch, shared, before=local)
      if self.shared_specs:
        of_shared = gradients[num_local:]
        if correction is not None:
          of_shared = tf.nest.map_structure(tf.add, of_shared, correction)
        shared_state = self._decayed(shared_state, scale, done / number)
        shared_state, shared = self._optimizer.next(shared_state, shared, of_shared)
      metrics = self._model.update_metrics_state(
        metrics, labels=batch[1], batch_output=output
      )
      num_examples += tf.cast(output.num_examples, tf.float32)
      done += 1.0
    return local, shared, state, metrics, num_examples

  @tf.autograph.experimental.do_not_convert
  def _number(self, batches):
    """Returns the number of batches, if the step size falls with them."""
    if not self._decays:
      return 1.0
    if isinstance(batches, tf.data.Dataset):
      return batches.reduce(0.0, lambda number, _: number + 1.0)
    return float(len(batches))

  @tf.autograph.experimental.do_not_convert
  def _decayed(self, state, scale, done):
    """Returns an optimizer's state with what is left of the step size."""
    return self._with_step_size(state, scale * (1.0 - done)) if self._decays else state

  @tf.autograph.experimental.do_not_convert
  def _step(self, state, local, gradients, anchor):
    """Takes a step of the local part, and one back to where it started, if asked for."""
    state, local = self._optimizer.next(state, local, gradients)
    if anchor:
      share = self._anchor_strength * self._optimizer.get_hparams(state)[_STEP_SIZE]
      local = tf.nest.map_structure(
        lambda weight, start: weight - share * (weight - start), local, anchor
      )
    return state, local

  # Converting it would take longer than tracing it; there is no loop in it.
  @tf.autograph.experimental.do_not_convert
  def _gradients(self, batch, weights, before=(), after=()):
    """Returns the gradients by some weights, and the batch's output."""
    inputs, labels = batch
    with tf.GradientTape() as tape:
      tape.watch(weights)
      predictions = self._model.predict_on_batch(
        ((*before, *weights, *after), ()), inputs, training=True
      )
      loss = self._model.loss(predictions, labels)
    output = tff.learning.models.BatchOutput(
      loss=loss, predictions=predictions, num_examples=num_rows(predictions)
    )
    return tape.gradient(loss, weights), output

  def _with_step_size(self, state, scale):
    """Returns an optimizer's state with a multiple of the step size that was set."""
    hparams = self._optimizer.get_hparams(self._optimizer.initialize(()))
    step_size = tf.convert_to_tensor(scale * hparams[_STEP_SIZE])
    return self._optimizer.set_hparams(
      state, collections.OrderedDict([(_STEP_SIZE, step_size)])
    )


def num_rows(predictions: Any) -> tf.Tensor:
  """Returns the number of examples of which a model has predicted something.

  What it predicts may be several tensors, of which the first has the examples as rows.
  """
  return tf.shape(tf.nest.flatten(predictions)[0])[0]


def _zeros(spec: tf.TensorSpec, rows: int) -> tf.Tensor:
  return tf.zeros([rows if length is None else length for length in spec.shape])
