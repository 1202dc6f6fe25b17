"""A classifier that reads raw text: the module that a saved model is made of."""

from collections.abc import Sequence

import tensorflow as tf

from tff_textpriv.export import encodings


class TextClassifier(tf.Module):
  """Names the classes of texts; reads raw strings, and side features if there are some.

  Nothing that it keeps is Python once it is saved.

  Attributes:
    classify: The function, of strings [batch] and, if the model has side features,
      float32 [batch, width]. It returns the most likely `label` [batch], the
      `probabilities` [batch, classes] and the names of the `classes`.
  """

  def __init__(
    self,
    model: tf.keras.Model,
    encoder: encodings.TextEncoder,
    classes: Sequence[str],
    dense_width: int,
  ):
    """Takes over a trained model.

    Args:
      model: The Keras model, from `ids`, `dense` or both to logits.
      encoder: What makes the former of texts.
      classes: The names of the classes.
      dense_width: The width of the side features.
    """
    super().__init__()
    # The variables alone are kept: Keras's layers would bring much that is not needed.
    self._variables = list(model.variables)
    self._encoder = encoder

    def classify(
      texts: tf.Tensor, dense: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
      inputs = encoder(texts)
      if dense is not None:
        parts = [inputs['dense'], dense] if 'dense' in inputs else [dense]
        inputs['dense'] = tf.concat(parts, axis=1)
      return _answer(model(inputs, training=False), classes)

    signature = [tf.TensorSpec([None], tf.string, name='texts')]
    if dense_width:
      signature.append(tf.TensorSpec([None, dense_width], tf.float32, name='dense'))
    self.classify = tf.function(classify, input_signature=signature, autograph=False)


def _answer(logits: tf.Tensor, classes: Sequence[str]) -> dict[str, tf.Tensor]:
  """Turns logits into names and probabilities; of two classes there is one logit."""
  if len(classes) == 2:
    logits = tf.concat([tf.zeros_like(logits), logits], axis=1)
  names = tf.constant(list(classes))
  return {
    'label': tf.gather(names, tf.argmax(logits, axis=1)),
    'probabilities': tf.nn.softmax(logits),
    'classes': names,
  }
