"""The warm start: a first model that was trained on public text.

It is a function of the task's settings, the seed and the tokenizer, whatever trains after
it: the runs of a study, which one process makes, share the starts that they have in common.
"""

import collections
import pathlib
from collections.abc import Sequence

import numpy as np
import safetensors
import safetensors.numpy

from tff_textpriv import files
from tff_textpriv.datasets import clients
from tff_textpriv.training import experiment, language_workbench, server_training

# The starts that this process has made last, by all that decides them.
_MADE: collections.OrderedDict[str, server_training.Trained] = collections.OrderedDict()
_MOST_KEPT = 8


def make(
  chosen: experiment.Experiment,
  data: clients.FederatedText,
  bench: language_workbench.LanguageWorkbench,
  index: int,
  folder: pathlib.Path,
) -> server_training.Trained:
  """Trains a phase's first model on public text, unless that was done before, here or by another run.

  Args:
    chosen: The experiment.
    data: Its data.
    bench: The model, untrained, and its tokenizer.
    index: The phase.
    folder: The run's folder, for what `write` has left there.

  Raises:
    DataError: If there is no public text.
    FileError: If what was left cannot be read.
  """
  if _start_file(folder, index).exists():
    return read(index, folder, bench.model.weight_shapes)
  if data.public_text is None:
    raise clients.DataError(
      f'--data={chosen.task_settings.data} brings no public text for '
      '--warm_start_epochs: name a text file with --public_data=FILE'
    )
  key = _key(chosen, data, bench, index)
  if key not in _MADE:
    _MADE[key] = server_training.trained(
      chosen,
      bench,
      bench.model.initial_weights(chosen.run.seed),
      data.public_text,
      num_epochs=chosen.task_settings.warm_start_epochs,
      learning_rate=chosen.task_settings.warm_start_learning_rate,
      name=server_training.WARM_START,
      index=index,
    )
  _MADE.move_to_end(key)
  while len(_MADE) > _MOST_KEPT:
    _MADE.popitem(last=False)
  return _MADE[key]


def write(made: server_training.Trained, index: int, folder: pathlib.Path) -> None:
  """Keeps a phase's first model: devices that come late begin with it, too."""
  server_training.write_facts(made.facts, index, server_training.WARM_START, folder)
  named = {f'{i:03}': weight for i, weight in enumerate(made.weights)}
  files.write_atomically(_start_file(folder, index), safetensors.numpy.save(named))


def read(
  index: int, folder: pathlib.Path, shapes: Sequence[tuple[int, ...]]
) -> server_training.Trained:
  """Reads what `write` has kept of a model with weights of these shapes.

  Raises:
    FileError: If it is damaged, or that of another model.
  """
  file = _start_file(folder, index)
  try:
    named = safetensors.numpy.load(file.read_bytes())
  # What is in the header may be of no type that NumPy knows.
  except (OSError, safetensors.SafetensorError, KeyError, ValueError) as error:
    raise files.unreadable(file, error) from error
  weights = [named[name] for name in sorted(named)]
  found = [(weight.shape, weight.dtype) for weight in weights]
  if found != [(tuple(shape), np.float32) for shape in shapes]:
    raise files.FileError(f'{file}: not the weights of this run’s model')
  facts_file = server_training.facts_file(folder, index, server_training.WARM_START)
  return server_training.Trained(weights, server_training.read_facts(facts_file))


def _key(
  chosen: experiment.Experiment,
  data: clients.FederatedText,
  bench: language_workbench.LanguageWorkbench,
  index: int,
) -> str:
  """Returns a hash of all that decides a start and what is measured of it."""
  assert data.public_text is not None
  return clients.short_hash(
    [
      chosen.task_settings,
      chosen.model_name,
      sorted(chosen.own.fingerprints.items()),
      chosen.algorithm.has_whole_model,
      chosen.run.seed,
      index,
      bench.tokenizer.fingerprint,
      data.validation.fingerprint,
      clients.short_hash(data.public_text),
    ]
  )


def _start_file(folder: pathlib.Path, index: int) -> pathlib.Path:
  return folder / 'tokenizers' / f'{index}_warm_start.safetensors'
