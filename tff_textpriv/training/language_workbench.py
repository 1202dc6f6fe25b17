"""What one tokenizer makes of the data: encoded text, a model, an evaluator."""

import math
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.datasets import batching, clients, encoded
from tff_textpriv.iterative_processes import learning_model, own_models
from tff_textpriv.models import language_models
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.text import tokenizers
from tff_textpriv.training import (
  evaluation,
  experiment,
  language_settings,
  workbench,
)

# What is held out of users' posts, if nothing is said, where they have own models.
_OWN_TEST_SHARE = 0.2
# Training users whose words are counted: enough to know how frequent tokens are.
_COUNTED_USERS = 1_000
# Users on whom a run is watched while it trains, where each has a model of its own.
_VALIDATION_USERS = 10


class LanguageWorkbench(workbench.Workbench):
  """The text, the model and the evaluation of a run under one tokenizer.

  Attributes:
    tokenizer: The tokenizer.
    windows: How posts are cut into training examples.
  """

  def __init__(
    self,
    chosen: experiment.Experiment,
    data: clients.FederatedText,
    tokenizer: tokenizers.Tokenizer,
    tokenizer_file: str,
    users: Sequence[str],
    folder: pathlib.Path,
  ):
    """Prepares everything; no text is read yet.

    Args:
      chosen: The experiment.
      data: Its data.
      tokenizer: What encodes the text.
      tokenizer_file: Where it is kept in the run's folder.
      users: Who trains.
      folder: The run's folder.
    """
    super().__init__(chosen)
    task: language_settings.LanguageModelSettings = chosen.task_settings
    cache_dir = pathlib.Path(task.data_dir)
    self.tokenizer = tokenizer
    if chosen.own.model is None:
      self.model = language_models.build(
        task.model, tokenizer.size, task.tied_embeddings, task.dropout
      )
    else:
      self.model = own_models.language_model(chosen.own.model, tokenizer.size)
    self._users = users
    self._tokenizer_file = tokenizer_file
    # Only training text is cut off: all tokenizers must be compared on the same text.
    self._encoded = {
      group: encoded.EncodedClients(
        texts, tokenizer, max_words_per_user=most, cache_dir=cache_dir
      )
      for group, texts, most in (
        ('train', data.train, task.max_words_per_user),
        ('validation', data.validation, None),
        ('test', data.test, None),
      )
    }
    self.windows = batching.WindowRule(task.max_sentence_words, tokenizer.starts_word)
    self._evaluator = evaluation.LanguageModelEvaluator(
      self.model, tokenizer, self.windows
    )
    share = task.own_test_share
    self._own_test_share = _OWN_TEST_SHARE * self._has_own if share is None else share
    initial_weights = self.model.initial_weights(chosen.run.seed)
    self._prepare_clients(
      learning_model.from_language_model(self.model, initial_weights)
    )
    _check_parts(self._client.num_local, self.model)
    self.devices = workbench.open_devices(chosen, folder, self._set_up)

  def start_from(self, weights: Sequence[np.ndarray]) -> None:
    """Lets training start from other weights than those that are drawn."""
    self._prepare_clients(learning_model.from_language_model(self.model, weights))

  def clients(self, group: str) -> Sequence[str]:
    """Returns the users of a group."""
    return self._users if group == 'train' else self._encoded[group].client_ids

  def examples(self, group: str, client: str) -> batching.Batch:
    """Returns a user's windows, padded to the longest possible: tokens, next tokens."""
    of_training = group == 'train'
    posts = (
      self._posts(client)[0] if of_training else self._encoded[group].posts(client)
    )
    return batching.pad(self.windows.cut(posts), length=self.windows.longest)

  def evaluate(self, weights: Sequence[np.ndarray], group: str) -> dict[str, float]:
    """Evaluates weights on the `validation` or the `test` users.

    Where users have models of their own, those of a few training users are evaluated as
    they are received, each on what is held out of the user's posts.
    """
    if self._has_own:
      return self._of_own_models(weights, _VALIDATION_USERS, None)
    return self._evaluator.evaluate(weights, self._texts(group))

  def _texts(self, group: str) -> list[np.ndarray]:
    """Returns the encoded texts on which the `validation` or the `test` is made."""
    users = self._encoded[group]
    ids = self._some(users.client_ids, 'evaluation', group)
    if self._chosen.task_settings.reads_streams:
      return [evaluation.stream(users.posts(user)) for user in ids]
    return [post for user in ids for post in users.posts(user)]

  def test(self, weights: Sequence[np.ndarray], rounds_done: int) -> dict[str, float]:
    """Returns the figures of the test.

    Args:
      weights: The weights that the server has.
      rounds_done: The number of rounds behind them, for the step size of users.

    Returns:
      The server's model on test users, where it has one; and, where something is held
      out of training users' posts, that of users' own models on it: `local_...` after one
      more round's training of each, `received_local_...` without.
    """
    figures = {} if self._has_own else self.evaluate(weights, 'test')
    if not self._own_test_share:
      return figures
    most = self._chosen.task_settings.max_eval_users
    received = self._of_own_models(weights, most, None)
    figures |= {f'received_local_{name}': value for name, value in received.items()}
    if self._client.trains:
      scale = self._chosen.algorithm_settings.step_scale(rounds_done - 1)
      trained = self._of_own_models(weights, most, scale)
      figures |= {f'local_{name}': value for name, value in trained.items()}
    return figures

  def guesses(self) -> dict[str, float]:
    """Returns the perplexities per word of tokens' frequencies in training users' posts."""
    users = self._some(self._users, 'counted users', number=_COUNTED_USERS)
    unigram = evaluation.Unigram(
      self.tokenizer, (post for user in users for post in self._posts(user)[0])
    )
    figures = {}
    if not self._has_own:
      perplexity = unigram.word_perplexity(self._texts('test'))
      figures['unigram_word_perplexity'] = perplexity
    if self._own_test_share:
      tested = self._tested_users(self._chosen.task_settings.max_eval_users)
      own = [post for user in tested for post in self._posts(user)[1]]
      figures['local_unigram_word_perplexity'] = unigram.word_perplexity(own)
    return figures

  def to_keras(self, weights: Sequence[np.ndarray]) -> tf.keras.Model | None:
    """Makes the Keras model; there is none where users keep a part of it."""
    return None if self._has_own else self.model.to_keras(weights)

  def usage(self, folder: pathlib.Path) -> usage_lib.LanguageModelUsage:
    """Describes what the model reads."""
    del folder  # The tokenizer is there already.
    return usage_lib.LanguageModelUsage(
      self._chosen.model_name,
      self.model.tied,
      self._tokenizer_file,
      self.windows.longest,
    )

  def _of_own_models(
    self, weights: Sequence[np.ndarray], number: int, scale: float | None
  ) -> dict[str, float]:
    """Evaluates some users' own models on their own posts.

    Args:
      weights: The weights that the server has.
      number: How many users, at most.
      scale: What the step size of a round's training before is multiplied by; `None` for
        models as they are received.
    """
    scores = []
    for user in self._tested_users(number):
      posts = self._posts(user)[1]
      parts, optimizer = self._user_trainer.assemble(user, weights)
      batches = [] if scale is None else self.batches(user, 0)
      if scale is not None and batches:
        adaptation = self.adaptation(user, 0)
        parts = self._user_trainer.train(parts, optimizer, adaptation, batches, scale)
      scores.append(self._evaluator.score([*parts.local, *parts.shared], posts))
    return self._evaluator.of_users(scores)

  def _tested_users(self, number: int) -> Sequence[str]:
    """Returns the users, so many at most, whose own models are tested."""
    return self._some(self._users, 'evaluated users', number=number)

  def _epochs(
    self, purpose: str, user: str, round_number: int, number: int
  ) -> list[Any]:
    """Makes batches of a training user's posts; see the base class."""
    rng = randomness.generator(self._chosen.run.seed, purpose, round_number, user)
    batch_size = self._chosen.algorithm_settings.client_batch_size
    return self.cut(self._posts(user)[0], batch_size, number, rng)

  def cut(
    self,
    posts: Sequence[np.ndarray],
    batch_size: int,
    num_epochs: int,
    rng: np.random.Generator,
  ) -> list[Any]:
    """Cuts encoded posts into batches, with seeds in them if the model has dropout."""
    batches = batching.training_batches(
      self.windows.cut(posts),
      batch_size=batch_size,
      num_epochs=num_epochs,
      rng=rng,
    )
    if self.model.dropout == 0:
      return batches
    return batching.with_dropout_seeds(batches, rng)

  def _posts(self, user: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns a training user's posts: those to train on, and those held out."""
    posts = self._encoded['train'].posts(user)
    # Who has written one post trains on it.
    held_out = min(math.ceil(self._own_test_share * len(posts)), len(posts) - 1)
    split = len(posts) - max(0, held_out)
    return posts[:split], posts[split:]

  def _some(
    self, ids: Sequence[str], *purpose: str, number: int | None = None
  ) -> Sequence[str]:
    """Returns so many users at most, drawn once, by the seed."""
    most = number or self._chosen.task_settings.max_eval_users
    if len(ids) <= most:
      return ids
    rng = randomness.generator(self._chosen.run.seed, *purpose)
    return [ids[i] for i in sorted(rng.choice(len(ids), most, replace=False))]


def _check_parts(num_local: int, model: language_models.LanguageModel) -> None:
  """Refuses to share an output layer that is a part of the local embedding."""
  if model.tied and 1 < num_local < len(model.weight_shapes):
    raise settings_lib.SettingsError(
      'tied_embeddings',
      True,
      'the embedding stays on the device and is the output layer, too, so that there '
      'is no layer above the others to share; use --tied_embeddings=false',
    )
