"""A language model that reads raw text: the module that a saved model is made of."""

import tensorflow as tf
import tensorflow_text as tf_text

from tff_textpriv.export import next_words, text_ops
from tff_textpriv.models import interface
from tff_textpriv.text import subword, tokenizers, words

_TEXTS = tf.TensorSpec([None], tf.string, name='texts')


class TextTokenizer(tf.Module):
  """A tokenizer of either kind, as TensorFlow operations.

  Attributes:
    pieces: The text of each id, without marks of word starts.
  """

  def __init__(self, tokenizer: tokenizers.Tokenizer):
    """Takes over a tokenizer."""
    super().__init__()
    assert isinstance(tokenizer, subword.SubwordTokenizer | words.WordTokenizer)
    self._is_subword = isinstance(tokenizer, subword.SubwordTokenizer)
    if self._is_subword:
      self._sentencepiece = tf_text.SentencepieceTokenizer(tokenizer.to_bytes())
      self.pieces = [subword.piece_bytes(piece) for piece in tokenizer.pieces]
    else:
      first = tokenizers.NUM_CONTROL_IDS
      self._table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
          tf.constant(tokenizer.pieces[first:]), tf.range(first, tokenizer.size)
        ),
        default_value=tokenizers.UNKNOWN_ID,
      )
      self.pieces = [piece.encode() for piece in tokenizer.pieces]

  def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
    """Encodes normalised strings [batch]: BOS and ids, int32 [batch, (time)]."""
    if self._is_subword:
      ids = self._sentencepiece.tokenize(texts)
    else:
      ids = self._table[tf.strings.split(texts)]
    bos = tf.fill([tf.shape(texts)[0], 1], tokenizers.BOS_ID)
    return tf.concat([bos, ids], axis=1)


class TextLanguageModel(tf.Module):
  """Suggests next words, completes words and scores texts; reads raw strings.

  Nothing that it keeps is Python once it is saved.
  """

  def __init__(
    self,
    model: interface.LanguageModel,
    weights: interface.Weights,
    tokenizer: tokenizers.Tokenizer,
    number: int,
  ):
    """Takes over a trained model.

    Args:
      model: The model.
      weights: Its weights.
      tokenizer: Its tokenizer.
      number: How many words to suggest.
    """
    super().__init__()
    self._model = model
    self._weights = [tf.Variable(weight, trainable=False) for weight in weights]
    self._tokenizer = TextTokenizer(tokenizer)
    self._starts_word = tokenizer.starts_word
    self._next_words = next_words.NextWords(
      model, self._tokenizer.pieces, tokenizer.starts_word, number
    )

  @tf.function(input_signature=[_TEXTS], autograph=False)
  def suggest(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Suggests words that follow texts.

    Args:
      texts: Raw text, strings [batch]; its last word counts as complete.

    Returns:
      `words` [batch, number], the most likely first, and their `probabilities`.
    """
    cleaned = tf.strings.strip(_clean(texts))
    return self._find(cleaned, tf.zeros_like(texts))

  @tf.function(input_signature=[_TEXTS], autograph=False)
  def complete(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Completes the last words of texts, which may be begun.

    Args:
      texts: Raw text, strings [batch]; after white space a new word begins.

    Returns:
      As `suggest`. All words begin with what the text ends with, and probabilities are
      those of the words given only the words before.
    """
    cleaned = _clean(texts)
    begun = tf.strings.regex_replace(cleaned, '^.* ', '')
    before = tf.strings.regex_replace(cleaned, '[^ ]*$', '')
    return self._find(tf.strings.strip(before), begun)

  @tf.function(input_signature=[_TEXTS], autograph=False)
  def score(self, texts: tf.Tensor) -> dict[str, tf.Tensor]:
    """Scores whole texts.

    Args:
      texts: Raw text, strings [batch].

    Returns:
      `log_probability` of each text, its end included, `num_words`, and `perplexity`:
      exp of the negative log-probability, per word. All [batch].
    """
    ids = self._tokenizer.encode(tf.strings.strip(_clean(texts)))
    eos = tf.fill([tf.shape(texts)[0], 1], tokenizers.EOS_ID)
    inputs = ids.to_tensor(tokenizers.PAD_ID)
    targets = tf.concat([ids[:, 1:], eos], axis=1).to_tensor(tokenizers.PAD_ID)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
      targets, self._model.logits(self._weights, inputs)
    )
    is_token = tf.not_equal(targets, tokenizers.PAD_ID)
    log_probability = -tf.reduce_sum(tf.where(is_token, losses, 0.0), axis=1)
    starts = tf.gather(tf.constant(self._starts_word), targets)
    num_words = tf.reduce_sum(tf.cast(starts & is_token, tf.int32), axis=1)
    return {
      'log_probability': log_probability,
      'num_words': num_words,
      'perplexity': tf.exp(-log_probability / tf.cast(num_words, tf.float32)),
    }

  def _find(self, before: tf.Tensor, begun: tf.Tensor) -> dict[str, tf.Tensor]:
    context = self._tokenizer.encode(before)
    return self._next_words.find(self._weights, context, begun)._asdict()


def _clean(texts: tf.Tensor) -> tf.Tensor:
  return text_ops.without_word_starts(text_ops.collapse(texts))
