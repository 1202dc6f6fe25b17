"""How BPE makes pieces of text: the merges behind a SentencePiece model.

SentencePiece keeps no merges. It starts with the characters and joins the two neighbours
whose joined text is the piece with the highest score, the leftmost such pair first, until
no two neighbours are a piece. All of it follows from the pieces' scores.
"""

from collections.abc import Mapping
from typing import Any

from sentencepiece import sentencepiece_model_pb2

from tff_textpriv.text import subword, tokenizers

_NORMAL = 1
# Pieces that text never becomes by merging: control and unknown ids, and bytes.
_NEVER_MERGED = (2, 3, 6)


def scores(tokenizer: subword.SubwordTokenizer) -> dict[str, float]:
  """Returns the score of every piece that text can become, in the order of ids.

  Raises:
    TokenizerError: If the model is not plain BPE, or has pieces of a kind that `train`
      does not make.
  """
  model = read(tokenizer)
  if model.trainer_spec.model_type != model.trainer_spec.BPE:
    raise tokenizers.TokenizerError('a SentencePiece model that is not BPE')
  result = {}
  for piece in model.pieces:
    if piece.type == _NORMAL:
      result[piece.piece] = piece.score
    elif piece.type not in _NEVER_MERGED:
      raise tokenizers.TokenizerError(
        'a SentencePiece model with user-defined or unused pieces'
      )
  return result


def read(tokenizer: subword.SubwordTokenizer) -> Any:
  """Returns a tokenizer's model as SentencePiece writes it, a `ModelProto`."""
  model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
  model.ParseFromString(tokenizer.to_bytes())
  return model


def merges(piece_scores: Mapping[str, float]) -> list[tuple[str, str]]:
  """Returns the pairs of pieces that are joined, the first ones first.

  Several pairs may make one piece. They stand together, in the order of their ids: a
  list of pairs cannot say that the leftmost one in a text comes first.

  Args:
    piece_scores: Those of `scores`.
  """
  ids = {piece: number for number, piece in enumerate(piece_scores)}
  found = []
  for piece, score in piece_scores.items():
    for end in range(1, len(piece)):
      pair = piece[:end], piece[end:]
      if pair[0] in ids and pair[1] in ids:
        found.append((-score, ids[piece], ids[pair[0]], ids[pair[1]], pair))
  return [pair for *_, pair in sorted(found)]


def segment(text: str, piece_scores: Mapping[str, float]) -> list[str]:
  """Splits text as SentencePiece does; characters that are no pieces stay as they are.

  For short texts, such as the pieces of another tokenizer.

  Args:
    text: Text with marks of word starts in the place of spaces.
    piece_scores: Those of `scores`.
  """
  parts = list(text)
  while True:
    pairs = [
      (piece_scores[joined], -place)
      for place in range(len(parts) - 1)
      if (joined := parts[place] + parts[place + 1]) in piece_scores
    ]
    if not pairs:
      return parts
    place = -max(pairs)[1]
    parts[place : place + 2] = [parts[place] + parts[place + 1]]
