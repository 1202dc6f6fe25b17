"""What a language model is, for everything that trains, samples or remaps one.

A model is a pure function of its weights, which keeps TFF's client loop free of
variables and several times faster than a wrapped Keras model. The Keras twin is
what a run exports.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf

Weights = Sequence[np.ndarray | tf.Tensor]
# Nested tuples of tensors, each [batch, ...], so that rows can be picked from it.
State = Any


@dataclasses.dataclass(frozen=True)
class LanguageModel(abc.ABC):
  """A next-token model.

  The first weight is the input embedding [vocab, width] and the last the output
  bias [vocab]; untied, the one before it is the output kernel [width, vocab]. Tied,
  the output kernel is the transposed embedding.

  Attributes:
    vocab_size: The number of token ids.
    tied: Whether the embedding is the output layer too.
    dropout: The share of units that training drops.
    carries_state: Whether its state has one size however much was read, so that a text
      of any length can be read on from it.
  """

  carries_state: ClassVar[bool] = False

  vocab_size: int
  tied: bool = dataclasses.field(kw_only=True)
  dropout: float = dataclasses.field(default=0.0, kw_only=True)

  @property
  @abc.abstractmethod
  def weight_shapes(self) -> list[tuple[int, ...]]:
    """The shapes of the weights, in order."""

  @abc.abstractmethod
  def initial_weights(self, seed: int) -> list[np.ndarray]:
    """Draws initial weights; a function of the seed."""

  @abc.abstractmethod
  def initial_state(
    self, batch_size: int | tf.Tensor, max_length: int | tf.Tensor
  ) -> State:
    """Returns the state before the first token.

    Args:
      batch_size: Rows of the tokens to be read.
      max_length: The most tokens that will be read in all, for models whose
        state remembers each of them.

    Returns:
      Nested tuples of tensors, each with the batch as its first axis.
    """

  @abc.abstractmethod
  def step(
    self, weights: Weights, tokens: tf.Tensor, state: State
  ) -> tuple[tf.Tensor, State]:
    """Reads tokens on from a state.

    Args:
      weights: The weights, in order.
      tokens: Integer tensor [batch, time].
      state: The state after the tokens before these.

    Returns:
      Logits [batch, time, vocab] of each position's next token, and the state.
    """

  @abc.abstractmethod
  def hidden(
    self, weights: Weights, tokens: tf.Tensor, dropout_seed: tf.Tensor | None = None
  ) -> tf.Tensor:
    """Returns what the output layer reads [batch, time, width].

    A position depends on no later one, so padding at the end of a row is harmless.

    Args:
      weights: The weights, in order.
      tokens: Integer tensor [batch, time].
      dropout_seed: Decides which units are dropped, int32 [2]; none if `None`.
    """

  @abc.abstractmethod
  def to_keras(self, weights: Weights | None = None) -> tf.keras.Model:
    """Builds the Keras twin: token ids [batch, time] to logits.

    Args:
      weights: Weights to load; tied ones are written out as an output kernel.

    Returns:
      A model of standard Keras layers only, which loads without this package.
    """

  @abc.abstractmethod
  def from_keras(self, twin: tf.keras.Model) -> list[np.ndarray]:
    """Reads the weights of a Keras twin; the inverse of `to_keras`."""

  def logits(self, weights: Weights, tokens: tf.Tensor) -> tf.Tensor:
    """Returns the logits [batch, time, vocab] of each position's next token."""
    return self.score(weights, self.hidden(weights, tokens))

  def score(self, weights: Weights, hidden: tf.Tensor) -> tf.Tensor:
    """Turns what the output layer reads [batch, time, width] into logits."""
    kernel, bias = self.output_layer(weights)
    if self.tied:
      return tf.einsum('bte,ve->btv', hidden, kernel) + bias
    return tf.tensordot(hidden, kernel, 1) + bias

  def output_layer(self, weights: Weights) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the output layer's kernel, tied the embedding itself, and its bias."""
    return weights[0 if self.tied else -2], weights[-1]

  @property
  def num_parameters(self) -> int:
    """The number of trained numbers."""
    return sum(int(np.prod(shape)) for shape in self.weight_shapes)

  @property
  def vocabulary_axes(self) -> dict[int, int]:
    """Which weights have one slice per token: weight index to axis."""
    last = len(self.weight_shapes) - 1
    return {0: 0, last: 0} if self.tied else {0: 0, last - 1: 1, last: 0}

  def resized(self, vocab_size: int) -> Self:
    """Returns the same model for a vocabulary of another size."""
    return dataclasses.replace(self, vocab_size=vocab_size)


def generators(seed: int) -> tuple[np.random.Generator, np.random.Generator]:
  """Returns what draws the weights between, and what draws those with one slice per token.

  Apart, so that models of vocabularies of different sizes start with the same layers.
  """
  return np.random.default_rng(seed), np.random.default_rng([seed, 1])


def untie(model: LanguageModel, weights: Weights) -> list[np.ndarray]:
  """Returns the weights with the output kernel written out, as Keras wants them."""
  values = [np.asarray(weight) for weight in weights]
  if model.tied:
    values.insert(len(values) - 1, values[0].T)
  return values


def tie(model: LanguageModel, values: Sequence[np.ndarray]) -> list[np.ndarray]:
  """Returns weights without the output kernel that `untie` wrote out."""
  *others, kernel, bias = values
  return [*others, bias] if model.tied else [*others, kernel, bias]
