"""A finished run as others can use it: its model, and what goes with it."""

import dataclasses
import functools
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from tff_textpriv import files, run_folder
from tff_textpriv.export import classifiers, encodings
from tff_textpriv.export import language_models as text_language_models
from tff_textpriv.models import interface, language_models, saved_models
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.text import (
  loading,
  representations,
  tokenizers,
  tokens,
  whitening,
)


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
    return saved_models.read(self.folder / run_folder.MODEL)

  @functools.cached_property
  def tokenizer(self) -> tokenizers.Tokenizer:
    """The tokenizer of a language model."""
    assert isinstance(self.usage, usage_lib.LanguageModelUsage)
    return loading.read(self.file(self.usage.tokenizer))

  @functools.cached_property
  def vocabulary(self) -> list[str]:
    """The vocabulary of a classifier that has one, by its ids."""
    assert isinstance(self.usage, usage_lib.ClassifierUsage)
    assert self.usage.encoding.vocabulary is not None
    file = self.file(self.usage.encoding.vocabulary)
    words = tokens.Vocabulary.from_bytes(files.read_text(file).encode()).tokens
    if len(set(words)) < len(words):
      raise ExportError(f'{file}: a word of the vocabulary is in it twice')
    return words

  def language_model(self) -> tuple[interface.LanguageModel, list[np.ndarray]]:
    """Returns a language model as a function of its weights, and these."""
    assert isinstance(self.usage, usage_lib.LanguageModelUsage)
    if self.usage.model not in language_models.PRESETS:
      raise ExportError(
        f'{self.folder / usage_lib.FILE}: there is no model {self.usage.model!r}'
      )
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
      if encoding.whitening is not None:
        how = whitening.read(self.file(encoding.whitening))
        made = whitening.WhitenedVectors(made, how)
      words = [word.decode() for word in made.vectors]
      return encodings.TextEncoder(
        encoding, words, np.array(list(made.vectors.values()))
      )
    vocabulary = self.vocabulary if encoding.vocabulary is not None else ()
    return encodings.TextEncoder(encoding, vocabulary)

  def file(self, name: str) -> pathlib.Path:
    """Returns the path of a file of the run, which must be in its folder.

    An export copies it: neither a name in a model.json nor a link, from somebody else,
    may choose any file of this machine.
    """
    path = self.folder / name
    try:
      is_inside = path.resolve().is_relative_to(self.folder.resolve())
      is_there = path.is_file()
    except (OSError, ValueError) as error:  # No file can have such a name.
      raise ExportError(f'{self.folder / usage_lib.FILE}: {error}') from error
    if not is_inside:
      raise ExportError(
        f'{self.folder / usage_lib.FILE}: {name!r} is not in the folder of the run, or '
        'a link to another place'
      )
    if not is_there:
      raise ExportError(
        f'{path}: is missing; the run wrote it, and its model is of no use without it'
      )
    return path

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
  if not run_folder.is_run(folder):
    raise ExportError(
      f'{folder}: there is no run here (no config.json); name the folder of a run, such '
      'as runs/stackoverflow_fed_avg'
    )
  config = run_folder.read_config(folder)
  if not run_folder.has_finished(folder):
    raise ExportError(
      f'{folder}: the run has not ended; repeat its command to finish it'
    )
  if not (folder / run_folder.MODEL).exists():
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
    usage = usage_lib.from_json(files.read_text(file))
  except usage_lib.ModelJsonError as error:
    raise ExportError(f'{file}: {error}') from error
  return FinishedRun(folder, config, usage)
