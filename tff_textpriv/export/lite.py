"""TensorFlow Lite: the model without strings, for devices, and how to feed it.

Shapes are fixed, one text at a time, so that all operations are TensorFlow Lite's own.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from tff_textpriv.export import runs
from tff_textpriv.models import usage as usage_lib
from tff_textpriv.text import tokenizers

# What is a bag of words is fed as a vector, for counting is no operation of Lite's.
_BAGS = ('hash', 'term_frequency')


# The model, the `tf.function` of it that is converted, and the guide to its inputs.
_Traced = tuple[tf.keras.Model, Any, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class LiteModel:
  """A converted model.

  Attributes:
    content: The file.
    guide: How to make its inputs of a text and to read its output, as JSON values.
  """

  content: bytes
  guide: dict[str, Any]


def convert(run: runs.FinishedRun, *, quantize: bool) -> LiteModel:
  """Converts the model of a run.

  Args:
    run: The run.
    quantize: Whether weights are kept as bytes (dynamic range quantization).
  """
  run.check_whole()
  if isinstance(run.usage, usage_lib.LanguageModelUsage):
    model, function, guide = _of_language_model(run)
  else:
    model, function, guide = _of_classifier(run)
  converter = tf.lite.TFLiteConverter.from_concrete_functions(
    [function.get_concrete_function()], model
  )
  if quantize:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
  return LiteModel(converter.convert(), guide)


def _of_language_model(
  run: runs.FinishedRun,
) -> _Traced:
  assert isinstance(run.usage, usage_lib.LanguageModelUsage)
  length = run.usage.max_length
  # Read here: in the graph that is traced below, Keras would make new weights.
  model = _without_memory(run.keras_model)
  function = tf.function(
    lambda tokens: model(tokens, training=False),
    input_signature=[tf.TensorSpec([1, length], tf.int32, name='tokens')],
    autograph=False,
  )
  return (
    model,
    function,
    {
      'inputs': {
        'tokens': f'int32 [1, {length}]: BOS, then the ids of the last words, then padding'
      },
      'output': f'logits, float32 [1, {length}, {run.tokenizer.size}]: of the token that '
      'follows each place; take those of the last token, not of the padding',
      'tokenizer': {
        'bpe': 'tokenizer.model, a SentencePiece model',
        'word': 'tokenizer.model: after the first line a word a line, with ids from '
        f'{tokenizers.NUM_CONTROL_IDS}',
      }[run.tokenizer.kind],
      'normalization': 'NFKC; control characters and white space become single spaces',
      'pad_id': tokenizers.PAD_ID,
      'unknown_id': tokenizers.UNKNOWN_ID,
      'bos_id': tokenizers.BOS_ID,
      'eos_id': tokenizers.EOS_ID,
    },
  )


def _of_classifier(
  run: runs.FinishedRun,
) -> _Traced:
  assert isinstance(run.usage, usage_lib.ClassifierUsage)
  encoding, width = run.usage.encoding, run.usage.dense_width
  model = _without_memory(run.keras_model)
  specs = []
  inputs: dict[str, str] = {}
  if encoding.kind in _BAGS:
    model, size = _without_counting(model)
    specs.append(tf.TensorSpec([1, size], tf.float32, name='counts'))
    inputs['counts'] = f'float32 [1, {size}]: how often each id occurs in the text' + (
      ', but 1 at most' if encoding.kind == 'hash' else ''
    )
  elif encoding.kind != 'vectors':
    pad_id = run.encoder().num_ids
    specs.append(tf.TensorSpec([1, encoding.max_tokens], tf.int32, name='ids'))
    inputs['ids'] = (
      f'int32 [1, {encoding.max_tokens}]: the ids of the text’s tokens, then padding, '
      f'which is {pad_id}'
    )
  else:
    width = model.input_shape['dense'][1]
  if width:
    specs.append(tf.TensorSpec([1, width], tf.float32, name='dense'))
    inputs['dense'] = f'float32 [1, {width}]: the side features of the text'
    if encoding.kind == 'vectors':
      inputs['dense'] = (
        f'float32 [1, {width}]: the mean of the words’ vectors{encoding.length_in_words}, '
        'then side features'
      )

  def classify(*values: tf.Tensor) -> tf.Tensor:
    named = dict(zip(inputs, values, strict=True))
    return model(named, training=False)

  function = tf.function(classify, input_signature=specs, autograph=False)
  return (
    model,
    function,
    {
      'inputs': inputs,
      'output': 'logits: one of each class'
      if len(run.usage.classes) > 2
      else 'a logit: its sigmoid is the probability of the second class',
      'classes': run.usage.classes,
      'encoding': dataclasses.asdict(encoding),
    },
  )


def _without_memory(model: tf.keras.Model) -> tf.keras.Model:
  """Replaces LSTM layers by loops over their cells.

  TensorFlow Lite would make them its own LSTM, which goes on from the text before.
  """

  def copy(layer: tf.keras.layers.Layer) -> tf.keras.layers.Layer:
    if not isinstance(layer, tf.keras.layers.LSTM):
      return type(layer).from_config(layer.get_config())
    return tf.keras.layers.RNN(
      tf.keras.layers.LSTMCell(layer.units), return_sequences=layer.return_sequences
    )

  if not any(isinstance(layer, tf.keras.layers.LSTM) for layer in model.layers):
    return model
  loop = tf.keras.models.clone_model(model, clone_function=copy)
  loop.set_weights(model.get_weights())
  return loop


def _without_counting(model: tf.keras.Model) -> tuple[tf.keras.Model, int]:
  """Returns a model that reads counts in the place of ids, and their number."""
  (counting,) = (
    layer
    for layer in model.layers
    if isinstance(layer, tf.keras.layers.CategoryEncoding)
  )
  rest = {name: tensor for name, tensor in model.input.items() if name != 'ids'}
  inner = tf.keras.Model({'counts': counting.output, **rest}, model.output)
  size = counting.num_tokens - 1
  counts = tf.keras.layers.Input([size], name='counts')
  # The last place is that of padding, which nothing reads.
  padded = tf.pad(counts, [[0, 0], [0, 1]])
  return tf.keras.Model(
    {'counts': counts, **rest}, inner({'counts': padded, **rest})
  ), size
