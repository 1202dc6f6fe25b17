"""What one tokenizer makes of the data: encoded text, a model, an evaluator."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tff_textpriv import randomness
from tff_textpriv.datasets import batching, clients, encoded
from tff_textpriv.models import language_models
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.text import tokenizers
from tff_textpriv.training import evaluation, experiment, settings


class Workbench:
  """The text, the model and the evaluation of a run under one tokenizer.

  Attributes:
    tokenizer: The tokenizer.
    model: The language model for its vocabulary.
  """

  def __init__(
    self,
    chosen: experiment.Experiment,
    data: clients.FederatedText,
    tokenizer: tokenizers.Tokenizer,
  ):
    """Prepares everything; no text is read yet.

    Args:
      chosen: The experiment.
      data: Its data.
      tokenizer: What encodes the text.
    """
    task: settings.LanguageModelSettings = chosen.task_settings
    cache_dir = pathlib.Path(task.data_dir)
    self.tokenizer = tokenizer
    self.model = language_models.build(
      task.model, tokenizer.size, task.tied_embeddings, task.dropout
    )
    self._chosen = chosen
    self._train = encoded.EncodedClients(
      data.train,
      tokenizer,
      max_tokens_per_user=task.max_tokens_per_user,
      cache_dir=cache_dir,
    )
    # Not cut off by tokens: all tokenizers must be compared on the same text.
    self._held_out = {
      group: encoded.EncodedClients(texts, tokenizer, cache_dir=cache_dir)
      for group, texts in (('validation', data.validation), ('test', data.test))
    }
    self._evaluator = evaluation.LanguageModelEvaluator(
      self.model, tokenizer, task.max_sentence_length
    )

  def client_batches(
    self, client_ids: Sequence[str], round_number: int
  ) -> list[list[Any]]:
    """Makes the batches of a round's clients."""
    return [self._batches(client_id, round_number) for client_id in client_ids]

  def evaluate(self, weights: Sequence[np.ndarray], group: str) -> dict[str, float]:
    """Evaluates weights on the `validation` or the `test` users."""
    users = self._held_out[group]
    most = self._chosen.task_settings.max_eval_users
    ids = users.client_ids
    if len(ids) > most:
      rng = randomness.generator(self._chosen.run.seed, 'evaluation', group)
      ids = [ids[i] for i in sorted(rng.choice(len(ids), most, replace=False))]
    return self._evaluator.evaluate(weights, users, ids)

  def usage(self, tokenizer_file: str) -> usage_lib.LanguageModelUsage:
    """Describes what the model reads, given where its tokenizer is kept."""
    task: settings.LanguageModelSettings = self._chosen.task_settings
    return usage_lib.LanguageModelUsage(
      task.model, task.tied_embeddings, tokenizer_file, task.max_sentence_length
    )

  def _batches(self, client_id: str, round_number: int) -> list[Any]:
    """Makes a client's batches, with seeds in them if the model has dropout."""
    algorithm = self._chosen.algorithm_settings
    rng = randomness.generator(
      self._chosen.run.seed, 'batches', round_number, client_id
    )
    batches = batching.training_batches(
      self._train.posts(client_id),
      batch_size=algorithm.client_batch_size,
      num_epochs=getattr(algorithm, 'client_epochs_per_round', 1),
      max_length=self._chosen.task_settings.max_sentence_length,
      rng=rng,
    )
    if self.model.dropout == 0:
      return batches
    return batching.with_dropout_seeds(batches, rng)
