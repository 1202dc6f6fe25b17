"""Training on text that the server may read: public text, and samples of the model.

No user takes part, and no user's text is read: it costs nothing. The warm start trains
the first model on public text (`warm_start`), the distillation a model under a new
tokenizer on what the private model has written.
"""

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tqdm

from tff_textpriv import files, randomness
from tff_textpriv.datasets import clients
from tff_textpriv.iterative_processes import central_training
from tff_textpriv.training import experiment, language_workbench

WARM_START = 'warm start'
DISTILLATION = 'distillation'

_BATCH_SIZE = 32
# Batches between two movements of the progress bar.
_BATCHES_AT_ONCE = 50
_FIGURES = ('perplexity_before', 'perplexity_after')
_ORIGINS = {
  WARM_START: 'public text',
  DISTILLATION: 'text that the private model wrote',
}


@dataclasses.dataclass(frozen=True)
class Trained:
  """What training on the server has made.

  Attributes:
    weights: The model's weights after it.
    facts: How it was made and what it did, as JSON values.
  """

  weights: list[np.ndarray]
  facts: dict[str, Any]


def train(
  bench: language_workbench.LanguageWorkbench,
  weights: Sequence[np.ndarray],
  texts: Sequence[str],
  *,
  num_epochs: int,
  learning_rate: float,
  rng: np.random.Generator,
  name: str,
) -> list[np.ndarray]:
  """Trains a model by Adam, one batch of sentences after the other.

  Args:
    bench: The model and its tokenizer.
    weights: Where to start.
    texts: Normalised texts.
    num_epochs: Passes over them, each in an order of its own.
    learning_rate: Adam's step size.
    rng: Decides the orders, and which units are dropped.
    name: What to call it at the progress bar.

  Returns:
    The weights after the last batch; a function of the arguments.
  """
  process = central_training.CentralProcess(
    bench.functional, tff.learning.optimizers.build_adam(learning_rate)
  )
  state = process.initialize()._replace(weights=tuple(map(tf.constant, weights)))
  posts = bench.tokenizer.encode(texts)
  # `disable=None` is tqdm's way to show no bar where there is no terminal.
  with tqdm.tqdm(desc=name, unit='batch', disable=None) as bar:
    for _ in range(num_epochs):
      batches = bench.cut(posts, _BATCH_SIZE, 1, rng)
      bar.total = num_epochs * len(batches)
      for start in range(0, len(batches), _BATCHES_AT_ONCE):
        some = batches[start : start + _BATCHES_AT_ONCE]
        state = process.next(state, [some]).state
        bar.update(len(some))
  return [np.asarray(weight) for weight in state.weights]


def distill(
  chosen: experiment.Experiment,
  bench: language_workbench.LanguageWorkbench,
  weights: Sequence[np.ndarray],
  samples: pathlib.Path,
  index: int,
) -> Trained:
  """Trains the model under a new tokenizer on what the private model has written.

  Args:
    chosen: The experiment.
    bench: The model under the new tokenizer.
    weights: Where it starts: remapped, or fresh.
    samples: The file of samples. A resumed run reads them from there, and so does one
      that was not disturbed.
    index: The phase that is about to begin.
  """
  return trained(
    chosen,
    bench,
    weights,
    clients.normalized_texts(files.read_text(samples).split('\n')),
    num_epochs=chosen.algorithm_settings.distillation_epochs,
    learning_rate=chosen.algorithm_settings.distillation_learning_rate,
    name=DISTILLATION,
    index=index,
  )


def with_weights(state: Any, weights: Sequence[np.ndarray]) -> Any:
  """Returns a server state with other weights in it; all else stays."""
  return state._replace(
    global_model_weights=state.global_model_weights._replace(trainable=tuple(weights))
  )


def write_facts(
  facts: Mapping[str, Any], index: int, name: str, folder: pathlib.Path
) -> None:
  """Keeps, for the lineage, what training on the server did before a phase."""
  files.write_atomically(
    facts_file(folder, index, name), json.dumps(facts, indent=2) + '\n'
  )


def section(last_index: int, folder: pathlib.Path) -> list[str]:
  """Writes the lineage's lines on training on the server; none where there was none."""
  rows = []
  for index in range(last_index + 1):
    for name in (WARM_START, DISTILLATION):
      if not (file := facts_file(folder, index, name)).exists():
        continue
      facts = read_facts(file)
      before, after = (
        f'{facts[figure]:.2f}' if figure in facts else '' for figure in _FIGURES
      )
      rows.append(
        f'| {index} | {name} | {_ORIGINS[name]} | {facts["num_texts"]:,} '
        f'| {facts["num_epochs"]} | {before} | {after} |'
      )
  if not rows:
    return []
  return [
    '',
    '## Training on the server',
    '',
    'Before a phase’s first round, on text that the server may read, at no cost in',
    'privacy. Perplexity is that per word of validation users.',
    '',
    '| phase | | on | texts | epochs | before | after |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    *rows,
  ]


def say(name: str, facts: Mapping[str, Any]) -> str:
  """Says what training on the server did, in a line."""
  words = f'{name}: {facts["num_epochs"]} epochs on {facts["num_texts"]:,} texts'
  if 'perplexity_before' not in facts:
    return words
  return (
    f'{words}, perplexity per word {facts["perplexity_before"]:.2f} before, '
    f'{facts["perplexity_after"]:.2f} after'
  )


def trained(
  chosen: experiment.Experiment,
  bench: language_workbench.LanguageWorkbench,
  weights: Sequence[np.ndarray],
  texts: Sequence[str],
  *,
  num_epochs: int,
  learning_rate: float,
  name: str,
  index: int,
) -> Trained:
  """Trains, and measures what it did on validation users.

  Args:
    chosen: The experiment.
    bench: The model and its tokenizer.
    weights: Where to start.
    texts: Normalised texts.
    num_epochs: Passes over them.
    learning_rate: Adam's step size.
    name: `WARM_START` or `DISTILLATION`.
    index: The phase that is about to begin.
  """
  after = train(
    bench,
    weights,
    texts,
    num_epochs=num_epochs,
    learning_rate=learning_rate,
    rng=randomness.generator(chosen.run.seed, name, index),
    name=name,
  )
  facts: dict[str, Any] = {'num_epochs': num_epochs, 'num_texts': len(texts)}
  if (
    chosen.algorithm.has_whole_model
  ):  # Otherwise there is nothing that could be asked.
    for when, which in (('before', weights), ('after', after)):
      measured = bench.evaluate(which, 'validation')
      facts[f'perplexity_{when}'] = measured['word_perplexity']
  return Trained(after, facts)


def read_facts(file: pathlib.Path) -> dict[str, Any]:
  """Reads what `write_facts` has written."""
  facts = files.read_json(file)
  numbers = (facts.get('num_epochs'), facts.get('num_texts'))
  figures = [facts[name] for name in _FIGURES if name in facts]
  if (
    not all(type(number) is int for number in numbers)
    or not all(type(figure) in (int, float) for figure in figures)
    or len(figures) not in (0, len(_FIGURES))
  ):
    raise files.FileError(f'{file}: not the facts that a run writes')
  return facts


def facts_file(folder: pathlib.Path, index: int, name: str) -> pathlib.Path:
  """Returns where the facts of a phase's training on the server are kept."""
  return folder / 'tokenizers' / f'{index}_{name.replace(" ", "_")}.json'
