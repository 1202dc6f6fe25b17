"""Sub-word tokenizer: SentencePiece BPE with byte fallback, so no word is unknown."""

import functools
import hashlib
import io
import re
from collections.abc import Iterable, Sequence

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from tff_textpriv.text import tokenizers

# SentencePiece's mark for the white space before a word.
WORD_START = '\u2581'
NUM_BYTES = 256
_BYTE_PIECE = re.compile('<0x([0-9A-F]{2})>')


class SubwordTokenizer(tokenizers.Tokenizer):
  """A trained SentencePiece BPE model behind the package's tokenizer interface."""

  kind = 'bpe'

  def __init__(self, model: bytes):
    """Reads a serialized SentencePiece model made by `train`.

    Raises:
      TokenizerError: If these are not the bytes of such a model.
    """
    self._model = model
    self._processor = sentencepiece.SentencePieceProcessor()
    try:
      self._processor.LoadFromSerializedProto(model)
      control_ids = (
        self._processor.pad_id(),
        self._processor.unk_id(),
        self._processor.bos_id(),
        self._processor.eos_id(),
      )
    # The message may quote a damaged piece, and then is no UTF-8.
    except (RuntimeError, UnicodeDecodeError):
      raise tokenizers.TokenizerError(
        'not a SentencePiece model: it must be a file written by this package or '
        'by sentencepiece with the same control ids'
      ) from None
    expected = (
      tokenizers.PAD_ID,
      tokenizers.UNKNOWN_ID,
      tokenizers.BOS_ID,
      tokenizers.EOS_ID,
    )
    if control_ids != expected:
      raise tokenizers.TokenizerError(
        f'a SentencePiece model with ids (pad, unknown, bos, eos) = {control_ids}; '
        f'this package needs {expected}'
      )
    self.size = self._processor.GetPieceSize()
    try:
      self.pieces = [self._processor.IdToPiece(i) for i in range(self.size)]
    except UnicodeDecodeError:
      raise tokenizers.TokenizerError(
        'a SentencePiece model with a piece that is not UTF-8'
      ) from None
    self.starts_word = np.array([p.startswith(WORD_START) for p in self.pieces])
    self.fingerprint = hashlib.sha256(model).hexdigest()[:16]

  def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
    """Encodes normalised texts; each result is int32, BOS first and EOS last."""
    # The mark itself, typed by a user, would count as a word start.
    plain = [text.replace(WORD_START, ' ') for text in texts]
    return [tokenizers.surround(ids) for ids in self._processor.Encode(plain)]

  def decode(self, ids: Sequence[int]) -> str:
    """Turns ids back into text; control ids are dropped."""
    kept = [int(i) for i in ids if i >= tokenizers.NUM_CONTROL_IDS]
    return self._processor.Decode(kept)

  def encode_piece(self, piece: str) -> list[int]:
    """Encodes another vocabulary's piece as it stands inside running text.

    SentencePiece puts a word start before whatever it encodes; a piece has its own
    mark if it begins a word, and must not get one if it does not.
    """
    return self._verbatim_processor.Encode(piece)

  @functools.cached_property
  def _verbatim_processor(self) -> sentencepiece.SentencePieceProcessor:
    """The same model without treatment of white space."""
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    model.ParseFromString(self._model)
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.SerializeToString())
    return processor

  def to_bytes(self) -> bytes:
    """Returns the SentencePiece model."""
    return self._model


def piece_bytes(piece: str) -> bytes:
  """Returns the text that a piece stands for, without its mark of a word start.

  A byte piece such as `<0xE2>` stands for one byte, perhaps a part of a character.
  """
  if byte := _BYTE_PIECE.fullmatch(piece):
    return bytes([int(byte[1], 16)])
  return piece.replace(WORD_START, '').encode()


def train(texts: Iterable[str], vocab_size: int) -> SubwordTokenizer:
  """Trains a BPE tokenizer.

  Args:
    texts: Normalised texts.
    vocab_size: The number of ids: 4 control ids, 256 bytes, the rest pieces.

  Raises:
    TokenizerError: If there is no text, or too little for so many pieces.
  """
  smallest = tokenizers.NUM_CONTROL_IDS + NUM_BYTES + 1
  if vocab_size <= smallest:
    raise tokenizers.TokenizerError(
      f'--vocab_size={vocab_size}: a sub-word vocabulary needs more than {smallest} '
      'ids, since every byte has one'
    )
  written = io.BytesIO()
  source = _NonEmpty(texts)
  try:
    sentencepiece.SentencePieceTrainer.Train(
      sentence_iterator=iter(source),
      model_writer=written,
      model_type='bpe',
      vocab_size=vocab_size,
      byte_fallback=True,
      normalization_rule_name='identity',
      pad_id=tokenizers.PAD_ID,
      unk_id=tokenizers.UNKNOWN_ID,
      bos_id=tokenizers.BOS_ID,
      eos_id=tokenizers.EOS_ID,
      max_sentence_length=1 << 20,
      num_threads=1,
      minloglevel=2,
    )
  except RuntimeError as error:
    if source.count == 0:
      raise tokenizers.TokenizerError(
        'there is no text to train a tokenizer on'
      ) from error
    raise tokenizers.TokenizerError(
      f'--vocab_size={vocab_size}: {_limit(str(error), source.count)}'
    ) from error
  return SubwordTokenizer(written.getvalue())


def _limit(message: str, num_lines: int) -> str:
  """Says, from what SentencePiece said, which vocabulary sizes would do."""
  if most := re.search(r'value <= (\d+)', message):
    return f'the text ({num_lines:,} lines) supports at most {most[1]} ids'
  if least := re.search(r'required_chars. \d+ vs (\d+)', message):
    return f'the characters of the text ({num_lines:,} lines) alone need {least[1]} ids'
  return f'sentencepiece says {message}'


class _NonEmpty:
  """Iterates over the non-empty texts and counts them."""

  def __init__(self, texts: Iterable[str]):
    self._texts = texts
    self.count = 0

  def __iter__(self):
    for text in self._texts:
      if text:
        self.count += 1
        yield text
