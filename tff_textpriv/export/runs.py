"""A finished run as others can use it: its model, and what goes with it."""

import dataclasses
import functools
import json
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from tff_textpriv.export import classifiers, encodings
from tff_textpriv.export import language_models as text_language_models
from tff_textpriv.models import interface, language_models, saved_models
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.text import loading, representations, tokenizers, tokens

MODEL_FILE = 'model.keras'


class ExportError(ValueError):
  """A run that cannot be used as asked; the message says why, and what can be done."""


@dataclasses.dataclass(frozen=True)
class FinishedRun:
  """The output folder of a run that has ended.

  Attributes:
    folder: The folder.
    config: Its settings, by flag.
    usage: What its model reads and answers.
  """

  folder: pathlib.Path
  config: dict[str, Any]
  usage: usage_lib.Usage

  @property
  def name(self) -> str:
    """What was trained, and how."""
    return f'{self.config["algo"]} on {self.config["task"]}'

  @functools.cached_property
  def keras_model(self) -> tf.keras.Model:
    """The trained model."""
    return saved_models.read(self.folder / MODEL_FILE)

  @functools.cached_property
  def tokenizer(self) -> tokenizers.Tokenizer:
    """The tokenizer of a language model."""
    assert isinstance(self.usage, usage_lib.LanguageModelUsage)
    return loading.read(self._bytes(self.usage.tokenizer))

  @functools.cached_property
  def vocabulary(self) -> list[str]:
    """The vocabulary of a classifier that has one, by its ids."""
    assert isinstance(self.usage, usage_lib.ClassifierUsage)
    assert self.usage.encoding.vocabulary is not None
    content = self._bytes(self.usage.encoding.vocabulary)
    return tokens.Vocabulary.from_bytes(content).tokens

  def language_model(self) -> tuple[interface.LanguageModel, list[np.ndarray]]:
    """Returns a language model as a function of its weights, and these."""
    assert isinstance(self.usage, usage_lib.LanguageModelUsage)
    model = language_models.build(
      self.usage.model, self.tokenizer.size, self.usage.tied
    )
    return model, model.from_keras(self.keras_model)

  def text_model(
    self, number: int
  ) -> text_language_models.TextLanguageModel | classifiers.TextClassifier:
    """Makes the model that reads raw text.

    Args:
      number: How many words a language model suggests.

    Raises:
      ExportError: If a part of it is not here.
    """
    if isinstance(self.usage, usage_lib.LanguageModelUsage):
      model, weights = self.language_model()
      return text_language_models.TextLanguageModel(
        model, weights, self.tokenizer, number
      )
    self.check_whole()
    return classifiers.TextClassifier(
      self.keras_model,
      self.encoder(),
      self.usage.classes,
      self.usage.dense_width,
    )

  def encoder(self) -> encodings.TextEncoder:
    """Makes what encodes a classifier's texts."""
    assert isinstance(self.usage, usage_lib.ClassifierUsage)
    encoding = self.usage.encoding
    if encoding.vectors is not None:
      made = representations.read_vectors(self.folder / encoding.vectors)
      words = [word.decode() for word in made.vectors]
      return encodings.TextEncoder(
        encoding, words, np.array(list(made.vectors.values()))
      )
    vocabulary = self.vocabulary if encoding.vocabulary is not None else ()
    return encodings.TextEncoder(encoding, vocabulary)

  def _bytes(self, name: str) -> bytes:
    """Reads a file of the folder."""
    try:
      return (self.folder / name).read_bytes()
    except OSError as error:
      raise ExportError(
        f'{self.folder / name}: cannot be read ({error.strerror}); the run wrote it, and '
        'its model is of no use without it'
      ) from error

  def check_whole(self) -> None:
    """Refuses a model the table of which is on users' devices."""
    if getattr(self.usage, 'stays_local', '') == 'table':
      raise ExportError(
        f'{self.folder}: with {self.config["algo"]}, vocabularies and embeddings stay '
        'on the users’ devices, and model.keras is only the part above them, from '
        'vectors to classes: no text can be read here. --format=keras exports that part'
      )


def read(path: str) -> FinishedRun:
  """Reads the folder of a finished run.

  Raises:
    ExportError: If there is no such run, or it has no model.
  """
  folder = pathlib.Path(path)
  config_file = folder / 'config.json'
  if not config_file.exists():
    raise ExportError(
      f'{folder}: there is no run here (no config.json); name the folder of a run, such '
      'as runs/stackoverflow_fed_avg'
    )
  config = json.loads(config_file.read_text())
  if not (folder / 'results.json').exists():
    raise ExportError(
      f'{folder}: the run has not ended; repeat its command to finish it'
    )
  if not (folder / MODEL_FILE).exists():
    raise ExportError(
      f'{folder}: there is no model here: with {config["algo"]} and these settings '
      'every user keeps its own'
    )
  file = folder / usage_lib.FILE
  if not file.exists():
    raise ExportError(
      f'{file}: is missing, as in runs of earlier versions; repeat the command of the '
      'run, which writes it and trains nothing again'
    )
  try:
    usage = usage_lib.from_json(file.read_text())
  except usage_lib.UsageError as error:
    raise ExportError(f'{file}: {error}') from error
  return FinishedRun(folder, config, usage)
