"""Discrete moves on a reconstructed text, judged by gradients and by language.

A fit of dummy embeddings gets tokens right and puts them in the wrong places, or a near
neighbour in the place of a token (Balunovic et al., 2022). Tokens are exchanged and
replaced, and runs of them moved. A move stays if it makes smaller what gradients do not
fit, less a multiple of the text's logarithm of probability after public text.
"""

from collections.abc import Callable, Sequence

import numpy as np

from tff_textpriv.attacks import public_text

# The tokens of a batch's texts, each an integer array.
Texts = list[np.ndarray]


def improve(
  texts: Sequence[np.ndarray],
  misfit: Callable[[Texts], float],
  language: public_text.PublicText,
  candidates: Callable[[int, int], np.ndarray],
  *,
  weight: float,
  moves: int,
  rng: np.random.Generator,
) -> Texts:
  """Tries moves, and keeps those that help.

  Args:
    texts: Where to begin: rows of a vocabulary.
    misfit: How different gradients are from those that were seen.
    language: How probable a text is.
    candidates: Returns the rows that may stand at a place, given text and place.
    weight: What a natural logarithm of probability per token counts.
    moves: How many moves to try.
    rng: Draws them.

  Returns:
    The texts after the last move.
  """

  def cost(tried: Texts) -> float:
    return misfit(tried) - weight * _log_probability(tried, language)

  best = [text.copy() for text in texts]
  lowest = cost(best)
  for _ in range(moves):
    tried = _move(best, candidates, rng)
    if all(map(np.array_equal, tried, best)):
      continue
    found = cost(tried)
    if found < lowest:
      best, lowest = tried, found
  return best


def _log_probability(texts: Texts, language: public_text.PublicText) -> float:
  """Returns the mean natural logarithm of a token's probability."""
  total = sum(
    np.log(language.frequencies[text[:1]]).sum()
    + language.log_following(text[:-1], text[1:]).sum()
    for text in texts
  )
  return float(total) / max(1, sum(map(len, texts)))


def _move(
  texts: Texts, candidates: Callable[[int, int], np.ndarray], rng: np.random.Generator
) -> Texts:
  """Makes one move at random."""
  moved = [text.copy() for text in texts]
  lengths = np.array([len(text) for text in texts])
  # A text is picked as often as it has tokens.
  one, other = rng.choice(len(texts), 2, p=lengths / lengths.sum())
  place, to = int(rng.integers(lengths[one])), int(rng.integers(lengths[other]))
  kind = rng.choice(['exchange', 'shift', 'replace'])
  if kind == 'exchange':
    moved[one][place], moved[other][to] = texts[other][to], texts[one][place]
  elif kind == 'shift':  # A run of tokens goes elsewhere.
    start, end = sorted(rng.integers(lengths[one] + 1, size=2))
    rest = np.delete(texts[one], slice(start, end))
    moved[one] = np.insert(rest, rng.integers(len(rest) + 1), texts[one][start:end])
  else:
    moved[one][place] = rng.choice(candidates(int(one), place))
  return moved
