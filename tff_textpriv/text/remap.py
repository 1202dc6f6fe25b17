"""From one sub-word vocabulary to another: the matrix that carries a model over.

Each new token is written in the old tokenizer's pieces; its row holds the share of
each of them, so that a new embedding is the mean of the old pieces' embeddings.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse

from tff_textpriv.text import subword, tokenizers


def remap_matrix(
  new: subword.SubwordTokenizer, old: subword.SubwordTokenizer
) -> scipy.sparse.csr_matrix:
  """Computes how each new token is made of old ones (REMAP of Algorithm 1).

  A token that both vocabularies know, control and byte tokens among them, is
  mapped to itself. Any other is encoded by the old tokenizer: a piece with the
  word-start mark as the start of a word, one without as the inside of a word.

  Args:
    new: The tokenizer to go to.
    old: The tokenizer that the model was trained with.

  Returns:
    A sparse float32 matrix [new.size, old.size] whose rows sum to 1. A piece that
    occurs twice in a token counts twice.
  """
  old_ids = {piece: i for i, piece in enumerate(old.pieces)}
  rows, columns, shares = [], [], []
  for new_id, piece in enumerate(new.pieces):
    parts = [old_ids[piece]] if piece in old_ids else old.encode_piece(piece)
    rows += [new_id] * len(parts)
    columns += parts
    shares += [1 / len(parts)] * len(parts)
  # Repeated positions are summed: the `+=` that the rows' sum of 1 needs.
  return scipy.sparse.csr_matrix(
    (np.array(shares, np.float32), (rows, columns)), shape=(new.size, old.size)
  )


def remap_weights(
  weights: Sequence[np.ndarray],
  vocabulary_axes: dict[int, int],
  matrix: scipy.sparse.csr_matrix,
) -> list[np.ndarray]:
  """Carries a model's weights, or anything of their shapes, to a new vocabulary.

  Args:
    weights: Arrays in the model's order: weights, or an optimizer's moments.
    vocabulary_axes: Which arrays have one slice per token: index to axis.
    matrix: The matrix of `remap_matrix`.

  Returns:
    The arrays, those with a slice per token remapped, the others as they are.
  """
  remapped = []
  for index, weight in enumerate(weights):
    axis = vocabulary_axes.get(index)
    if axis is None:
      remapped.append(weight)
      continue
    by_token = np.moveaxis(np.asarray(weight), axis, 0)
    flat = matrix @ by_token.reshape(by_token.shape[0], -1)
    by_token = flat.reshape(matrix.shape[0], *by_token.shape[1:])
    remapped.append(np.ascontiguousarray(np.moveaxis(by_token, 0, axis)))
  return remapped


def new_pieces(
  new: subword.SubwordTokenizer, old: subword.SubwordTokenizer, most: int
) -> list[str]:
  """Returns the first pieces that only the new vocabulary has, most frequent first."""
  known = set(old.pieces)
  # Pieces stand in the order of their merges, so that frequent ones come first.
  added = [
    piece for piece in new.pieces[tokenizers.NUM_CONTROL_IDS :] if piece not in known
  ]
  return added[:most]
