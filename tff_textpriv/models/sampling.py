"""Drawing texts from a language model, token by token, many at a time."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
import tqdm

from tff_textpriv.models import interface
from tff_textpriv.text import tokenizers

# See `Sampler` for why.
NEVER_SAMPLED = (tokenizers.PAD_ID, tokenizers.UNKNOWN_ID, tokenizers.BOS_ID)


class SamplingError(ValueError):
  """A model cannot be sampled as asked, or gives no text."""


@dataclasses.dataclass(frozen=True)
class SampledText:
  """Texts drawn from a model.

  Attributes:
    texts: The texts, without those that are empty.
    num_tokens: Tokens drawn, ends of texts and empty texts included.
    num_empty: Empty texts, which were left out.
    num_cut: Texts that were cut off at the greatest length.
    seconds: How long it took, tracing and decoding included.
  """

  texts: list[str]
  num_tokens: int
  num_empty: int
  num_cut: int
  seconds: float

  @property
  def tokens_per_second(self) -> float:
    """The speed of sampling."""
    return self.num_tokens / self.seconds


class Sampler:
  """Draws batches of texts from a model's own distribution (ancestral sampling).

  A text starts with BOS and ends with EOS or at the greatest length. Each
  token is drawn from the model's distribution, given all tokens before it, without
  padding, BOS and the unknown token: the first two are never a target of training,
  so their probability means nothing, and the third stands for no text.

  One graph does it all, with the model's state carried from token to token. Once half
  of the rows have ended, the graph goes on with the other half only.
  """

  def __init__(
    self,
    model: interface.LanguageModel,
    *,
    max_length: int,
    temperature: float = 1.0,
    batch_size: int = 256,
  ):
    """Traces nothing yet; the first batch does.

    Args:
      model: The model.
      max_length: The most tokens of a text, EOS included, BOS not.
      temperature: What the logits are divided by; 1 is the model's own distribution.
      batch_size: Texts drawn at the same time.

    Raises:
      SamplingError: If one of the numbers is not positive.
    """
    for name, value in (
      ('max_length', max_length),
      ('temperature', temperature),
      ('batch_size', batch_size),
    ):
      if not value > 0:
        raise SamplingError(f'{name} must be greater than 0, not {value}')
    self._model = model
    self._max_length = max_length
    self._temperature = temperature
    self._batch_size = batch_size
    self._sample = tf.function(self._sample_in_graph)

  def batches(self, weights: interface.Weights, seed: int) -> Iterator[np.ndarray]:
    """Draws batch after batch, for ever.

    Args:
      weights: The model's weights.
      seed: Decides every draw, together with the number of the batch.

    Yields:
      Token ids, int32 [batch, max_length], without BOS; after EOS padding.
    """
    weights = [tf.constant(weight) for weight in weights]
    batch = 0
    while True:
      yield self._sample(weights, tf.constant([seed, batch])).numpy()
      batch += 1

  def _sample_in_graph(self, weights, seed):
    """Draws one batch; `seed` is int32 [2]."""
    model, most = self._model, self._max_length
    never = np.zeros(model.vocab_size, np.float32)
    never[list(NEVER_SAMPLED)] = -np.inf

    def some_go_on(step, rows, *_):
      return tf.logical_and(step < most, tf.size(rows) > 0)

    def draw(step, rows, last, state, drawn):
      logits, state = model.step(weights, last[:, tf.newaxis], state)
      tokens = tf.random.stateless_categorical(
        logits[:, 0] / self._temperature + never,
        num_samples=1,
        seed=tf.random.experimental.stateless_fold_in(seed, step),
        dtype=tf.int32,
      )[:, 0]
      # A row that has ended stays for a while; what it draws is padding.
      tokens = tf.where(_has_ended(last), tokenizers.PAD_ID, tokens)
      places = tf.stack([rows, tf.fill(tf.shape(rows), step)], axis=1)
      drawn = tf.tensor_scatter_nd_update(drawn, places, tokens)
      going_on = tf.where(tf.logical_not(_has_ended(tokens)))[:, 0]

      def pick_those_that_go_on():
        return tf.nest.map_structure(
          lambda part: tf.gather(part, going_on), (rows, tokens, state)
        )

      rows, tokens, state = tf.cond(
        2 * tf.size(going_on) <= tf.size(rows),
        pick_those_that_go_on,
        lambda: (rows, tokens, state),
      )
      return step + 1, rows, tokens, state, drawn

    first = (
      0,
      tf.range(self._batch_size),
      tf.fill([self._batch_size], tokenizers.BOS_ID),
      model.initial_state(self._batch_size, most),
      tf.fill([self._batch_size, most], tokenizers.PAD_ID),
    )
    step, *by_row, drawn = first
    any_rows = tf.nest.map_structure(
      lambda part: tf.TensorShape([None, *part.shape[1:]]), by_row
    )
    return tf.while_loop(
      some_go_on,
      draw,
      first,
      shape_invariants=(tf.TensorShape([]), *any_rows, drawn.shape),
    )[-1]


def sample_texts(
  model: interface.LanguageModel,
  weights: interface.Weights,
  decode: Callable[[Sequence[int]], str],
  *,
  num_tokens: int | None = None,
  num_texts: int | None = None,
  max_length: int,
  seed: int,
  temperature: float = 1.0,
  batch_size: int = 256,
  progress: bool = True,
) -> SampledText:
  """Draws so many tokens or texts from a model and decodes them.

  Args:
    model: The model.
    weights: Its weights.
    decode: Turns token ids into text, e.g. `Tokenizer.decode`.
    num_tokens: The number of tokens after which no further text is begun, or
    num_texts: the number of texts, empty ones included; one of the two.
    max_length: The most tokens of a text, EOS included.
    seed: Decides every draw.
    temperature: What the logits are divided by.
    batch_size: Texts drawn at the same time; does not matter for their distribution.
    progress: Whether to show a bar, where there is a terminal.

  Returns:
    The texts that are not empty, and what they cost.

  Raises:
    SamplingError: If all texts are empty, or a number makes no sense.
  """
  goal = num_texts if num_tokens is None else num_tokens
  if goal is None or (num_tokens is not None and num_texts is not None):
    raise SamplingError('give either num_tokens or num_texts')
  if goal < 1:
    raise SamplingError(f'the number of tokens or texts must be positive, not {goal}')
  sampler = Sampler(
    model, max_length=max_length, temperature=temperature, batch_size=batch_size
  )
  started = time.monotonic()
  texts: list[str] = []
  tokens_drawn = num_empty = num_cut = 0
  unit = 'text' if num_tokens is None else 'token'
  # `disable=None` is tqdm's way to show no bar where there is no terminal.
  with tqdm.tqdm(
    desc='sampling', total=goal, unit=unit, disable=None if progress else True
  ) as bar:
    for ids in _rows(sampler.batches(weights, seed)):
      text = decode(ids.tolist())
      if text.strip():
        texts.append(text)
      else:
        num_empty += 1
      tokens_drawn += len(ids)
      num_cut += ids[-1] != tokenizers.EOS_ID
      bar.update(1 if num_tokens is None else len(ids))
      done = tokens_drawn if num_texts is None else len(texts) + num_empty
      if done >= goal:
        break
  if not texts:
    raise SamplingError(
      f'the model gave {num_empty:,} texts, all of them empty: it ends every text at '
      'once, so there is nothing to learn a tokenizer from; train it for longer first'
    )
  return SampledText(
    texts=texts,
    num_tokens=tokens_drawn,
    num_empty=num_empty,
    num_cut=int(num_cut),
    seconds=time.monotonic() - started,
  )


def _rows(batches: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
  """Yields the token ids of each text, without padding."""
  for batch in batches:
    lengths = np.count_nonzero(batch != tokenizers.PAD_ID, axis=1)
    for row, length in zip(batch, lengths, strict=True):
      yield row[:length]


def _has_ended(last_tokens: tf.Tensor) -> tf.Tensor:
  """Whether nothing follows these tokens."""
  return tf.logical_or(
    tf.equal(last_tokens, tokenizers.EOS_ID), tf.equal(last_tokens, tokenizers.PAD_ID)
  )
