"""A task as an object: TFF's client data and a Keras model, for any TFF program."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tff_textpriv import flags
from tff_textpriv.iterative_processes.algorithm import LANGUAGE_MODEL
from tff_textpriv.tasks import base
from tff_textpriv.training import experiment

if TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

  from tff_textpriv.datasets import client_data
  from tff_textpriv.training import workbench

# What is asked of a run is the same with all algorithms that have the whole model; and
# no cohort is drawn, so that it does not matter whether there are enough users for one.
_ANY_RUN = {'algo': 'fed_avg', 'clients_per_round': 1}


class TaskObject:
  """A task with settings. Data are read, and TensorFlow imported, when asked for.

  Elements of a language-model task are pairs of tokens and next tokens, int32 [time],
  padded with 0. Those of a classification task are pairs of what the Keras model reads,
  a dictionary of `ids` int32 [length] and `dense` float32 [width] (or one of them), and
  the class, int32. Batches are made with `Dataset.batch`.

  Clients of `train` are those of a run. Clients of `validation` and `test` are users who
  do not train; of a classification task whose examples are not dealt to their users, one
  client, `validation` or `test`, has them all.

  Attributes:
    task: What the task is.
    given: The settings that are not defaults, by the names of flags.
  """

  def __init__(self, task: experiment.Task, given: Mapping[str, Any]):
    """Checks the settings.

    Raises:
      ValueError: What the command would refuse.
    """
    self.task = task
    self.given = dict(given)
    self._experiment = base.make_experiment(task, {**self.given, **_ANY_RUN})

  def __repr__(self) -> str:
    given = ''.join(f', {name}={value!r}' for name, value in self.given.items())
    return f'task({self.task.name!r}{given})'

  @property
  def train(self) -> 'client_data.EncodedClientData':
    """The clients that train."""
    return self._client_data('train')

  @property
  def validation(self) -> 'client_data.EncodedClientData':
    """The clients on whom choices are made."""
    return self._client_data('validation')

  @property
  def test(self) -> 'client_data.EncodedClientData':
    """The clients on whom the final result is measured."""
    return self._client_data('test')

  @functools.cached_property
  def input_spec(self) -> Any:
    """The specs of a batch, as `tff.learning.models.from_keras_model` wants them."""
    import tensorflow as tf

    return tf.nest.map_structure(
      lambda spec: tf.TensorSpec([None, *spec.shape], spec.dtype),
      self.train.element_type_structure,
    )

  def keras_model(self) -> 'tf.keras.Model':
    """Makes the task's model, with the weights that a run starts from."""
    model = self._bench.to_keras(self._bench.functional.initial_weights[0])
    assert model is not None  # Since the server has all of it.
    return model

  def functional_model(self) -> 'tff.learning.models.FunctionalModel':
    """Makes the same model for the builders of `tff_textpriv.algorithms`.

    It reads batches of the task's elements, and trains without dropout.
    """
    bench = self._bench
    from tff_textpriv.iterative_processes import classification_model, learning_model

    weights = bench.functional.initial_weights[0]
    if self._experiment.task.kind == LANGUAGE_MODEL:
      model = dataclasses.replace(bench.model, dropout=0.0)
      return learning_model.from_language_model(model, weights)
    return classification_model.for_elements(bench.model, weights)

  def loss(self) -> 'tf.keras.losses.Loss':
    """Makes the loss of the Keras model's outputs, which are logits."""
    from tff_textpriv.models import objectives

    return objectives.loss(self._num_outputs)

  def metrics(self) -> 'list[tf.keras.metrics.Metric]':
    """Makes metrics of the Keras model's outputs."""
    from tff_textpriv.models import objectives

    return objectives.metrics(self._num_outputs)

  @functools.cached_property
  def _bench(self) -> 'workbench.Workbench':
    flags.silence_tensorflow()
    from tff_textpriv.training import runner

    self._experiment.task.check(self._experiment.task_settings)
    return runner.open_bench(self._experiment)

  @functools.cached_property
  def _num_outputs(self) -> int | None:
    """The number of a classifier's logits; `None` for a language model."""
    if self._experiment.task.kind == LANGUAGE_MODEL:
      return None
    return self.keras_model().output_shape[-1]

  def _client_data(self, group: str) -> 'client_data.EncodedClientData':
    bench = self._bench
    from tff_textpriv.datasets import client_data

    return client_data.EncodedClientData(
      bench.clients(group), functools.partial(bench.examples, group)
    )


def open_task(name: str | experiment.Task, **given: Any) -> TaskObject:
  """Opens a task as an object.

  Args:
    name: The task's name, that of its module in `tff_textpriv.tasks`, or its `TASK`.
    **given: The task's flags, as Python values.

  Returns:
    The task, for TFF programs and for `tff_textpriv.run`.

  Raises:
    ValueError: What the command would refuse.
  """
  task = name if isinstance(name, experiment.Task) else base.find(name)
  return TaskObject(task, given)
