"""A tokenizer that grows: new pieces behind the old ones, whose ids stay.

Clients that have the old tokenizer need the new pieces only, and a model that was trained
with it grows by their rows. Appended pieces have lower scores than all others, so that
BPE joins what it always has joined, and then goes on: texts become the old tokens, or
fewer and longer ones.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tff_textpriv.text import merges, remap, subword


class Appended(NamedTuple):
  """A tokenizer with appended pieces.

  Attributes:
    tokenizer: The tokenizer.
    num_wanted: Appended pieces that the other tokenizer has.
    num_between: Appended pieces that are only there so that BPE reaches those.
    num_unreachable: Pieces of the other tokenizer that were left out, since BPE would
      never join their text, whatever stands between.
    num_reached: Appended pieces whose own text is encoded as the piece.
  """

  tokenizer: subword.SubwordTokenizer
  num_wanted: int
  num_between: int
  num_unreachable: int
  num_reached: int

  @property
  def facts(self) -> dict[str, int]:
    """The numbers, as JSON values."""
    return {
      'wanted': self.num_wanted,
      'between': self.num_between,
      'unreachable': self.num_unreachable,
      'reached': self.num_reached,
    }


def append(
  old: subword.SubwordTokenizer, other: subword.SubwordTokenizer, most: int
) -> Appended:
  """Appends the pieces that another tokenizer has and the old one has not.

  BPE reaches a piece by joining two at a time. Where the old pieces that the text of a
  new one is made of are more than two, the pieces between are appended too, and characters
  that the old tokenizer does not know.

  Args:
    old: The tokenizer whose ids stay.
    other: Where the pieces come from; its first ones count most.
    most: How many pieces to append, at most, those between included.

  Raises:
    TokenizerError: If one of the tokenizers is not plain BPE.
  """
  known = merges.scores(old)
  least = min(known.values())
  added: list[str] = []
  num_wanted = num_unreachable = 0
  for piece in remap.new_pieces(other, old, other.size):
    if piece in known:  # It is between two others.
      num_wanted += 1
      continue
    steps = _steps(piece, known)
    if len(added) + len(steps) > most:
      continue  # A later one may need fewer.
    trial = {step: least - len(added) - i for i, step in enumerate(steps, 1)}
    if merges.segment(piece, known | trial) != [piece]:
      num_unreachable += 1
      continue
    known |= trial
    added += steps
    num_wanted += 1
  model = merges.read(old)
  for piece in added:
    model.pieces.add(piece=piece, score=known[piece])
  model.trainer_spec.vocab_size = len(model.pieces)
  tokenizer = subword.SubwordTokenizer(model.SerializeToString())
  num_reached = sum(
    tokenizer.encode_piece(piece) == [number]
    for number, piece in enumerate(added, old.size)
  )
  return Appended(
    tokenizer, num_wanted, len(added) - num_wanted, num_unreachable, num_reached
  )


def _steps(piece: str, known: Mapping[str, float]) -> list[str]:
  """Returns what must be appended, in this order, for BPE to reach a piece."""
  steps = [letter for letter in dict.fromkeys(piece) if letter not in known]
  parts = merges.segment(piece, known)
  joined = parts[0]
  for part in parts[1:]:
    joined += part
    if joined not in known:
      steps.append(joined)
  return steps
