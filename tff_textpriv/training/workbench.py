"""The workbench: what one phase of a run makes of a task's data."""

import abc
import functools
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import algorithm
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.runtime import device_store
from tff_textpriv.training import experiment, selection, user_training

if TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

_MEMORY = pathlib.Path('/dev/shm')


class Workbench(abc.ABC):
  """The clients' data, the model and the evaluation of a phase.

  Attributes:
    model: The model, a pure function of its weights.
    functional: The model with its initial weights, as TFF reads it.
    num_parameters: The number of its parameters.
    devices: What devices keep, where the algorithm has them keep something.
  """

  model: Any
  functional: 'tff.learning.models.FunctionalModel'
  num_parameters: int
  devices: device_store.DeviceStore | None

  def __init__(self, chosen: experiment.Experiment):
    """Takes the experiment; what a derived class makes of its data comes after it."""
    self._chosen = chosen
    self._has_own = chosen.algorithm.keeps is algorithm.Keeps.MODEL_PART

  def _prepare_clients(self, functional: 'tff.learning.models.FunctionalModel') -> None:
    """Prepares clients that train a model."""
    self.functional = functional
    self.num_parameters = self.model.num_parameters
    self._client = self._chosen.algorithm.client(
      functional, self._chosen.algorithm_settings
    )

  def batches(self, user: str, round_number: int) -> list[Any]:
    """Makes the batches on which a user trains in a round."""
    epochs = self._chosen.algorithm_settings.local_epochs
    return self._epochs('batches', user, round_number, epochs)

  def adaptation(self, user: str, round_number: int) -> list[Any]:
    """Makes the batches on which a user adapts its own part first; perhaps none."""
    if not self._client.adapts:
      return []
    return self._epochs('adaptation', user, round_number, 1)

  @abc.abstractmethod
  def _epochs(
    self, purpose: str, user: str, round_number: int, number: int
  ) -> list[Any]:
    """Makes batches for so many passes over a user's data; random by their purpose."""

  @abc.abstractmethod
  def clients(self, group: str) -> Sequence[str]:
    """Returns the clients of the `train`, the `validation` or the `test` data."""

  @abc.abstractmethod
  def examples(self, group: str, client: str) -> tuple[Any, np.ndarray]:
    """Returns what the Keras model reads of a client, and targets: a row per example."""

  @abc.abstractmethod
  def evaluate(self, weights: Sequence[np.ndarray], group: str) -> dict[str, float]:
    """Evaluates the server's weights on the `validation` or the `test` data."""

  @abc.abstractmethod
  def test(self, weights: Sequence[np.ndarray], rounds_done: int) -> dict[str, float]:
    """Returns the figures of the test, of users' own models too where there are any."""

  @abc.abstractmethod
  def guesses(self) -> dict[str, float]:
    """Returns what guesses without a model reach on what the model is tested on.

    Names are those of `sanity`. Guesses know the training data exactly: no noise hides
    anybody from them, so that they are exact measurements, as those of the test are.
    """

  @abc.abstractmethod
  def to_keras(self, weights: Sequence[np.ndarray]) -> 'tf.keras.Model | None':
    """Makes the Keras model of the weights; `None` if the server has no model."""

  @abc.abstractmethod
  def usage(self, folder: pathlib.Path) -> usage_lib.Usage:
    """Describes what the model reads; keeps in a folder what it takes to read it."""

  @property
  def _first_local(self) -> Sequence[np.ndarray]:
    """The local weights of a device that has not trained yet."""
    return self.functional.initial_weights[0][: self._client.num_local]

  @functools.cached_property
  def _user_trainer(self) -> user_training.UserTrainer:
    """What assembles and trains users' models outside of a round."""
    devices = self.devices if self._has_own else None
    return user_training.UserTrainer(self._client, devices, self._first_local)

  def _set_up(self, user: str) -> dict[str, bytes]:
    """Makes what a device keeps from the start: by default the same for all users."""
    del user  # They start alike.
    return {device_store.STATE: self._client.first_state(self._first_local)}


def open_devices(
  chosen: experiment.Experiment, folder: pathlib.Path, set_up: device_store.SetUp
) -> device_store.DeviceStore | None:
  """Opens what devices keep, where the algorithm has them keep something.

  Args:
    chosen: The experiment.
    folder: The run's folder.
    set_up: Makes what a device keeps from the start.
  """
  if not chosen.algorithm.keeps_state:
    return None
  is_last = chosen.task_settings.model_selection == selection.LAST
  if chosen.algorithm.keeps is algorithm.Keeps.MODEL_PART and not is_last:
    raise settings_lib.IncompatibleSettingsError(
      f'--algo={chosen.algorithm.name} goes with --model_selection=last only: '
      'devices keep their parts as they are after the last round'
    )
  place = folder / 'devices'
  if chosen.algorithm_settings.device_store == 'disk':
    return device_store.DeviceStore(place, set_up)
  if not _MEMORY.is_dir():
    raise settings_lib.SettingsError(
      'device_store', 'memory', f'needs {_MEMORY}, which this machine does not have'
    )
  name = '_'.join(place.absolute().parts[1:])
  return device_store.MemoryDeviceStore(place, set_up, _MEMORY / f'tff_textpriv_{name}')
