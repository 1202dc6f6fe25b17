"""The grammar of the artificial language: slots, their words, sentence templates.

A sentence is a row of slots. A slot takes one of a few function words, or a
stem with one of the slot's endings.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

_T = TypeVar('_T')

_MIN_WORDS, _MAX_WORDS = 4, 20
_NUM_TEMPLATES = 48

# Function words by grammatical class, the most frequent first.
FUNCTION_WORDS = {
  'DET_SG': 'the a this each that',
  'DET_PL': 'the these some many those',
  'PREP': 'of in to for with on from by at about',
  'CONJ': 'and but because when if or while',
  'AUX_SG': 'is was',
  'AUX_PL': 'are were',
  'MODAL': 'can will should may must',
  'PRON': 'i you we they',
}
# Content words by grammatical form: the stem's class and the possible endings.
NOUN, VERB, QUALITY = range(3)
CONTENT_WORDS = {
  'NOUN_SG': (NOUN, ('', 'er', 'ness')),
  'NOUN_PL': (NOUN, ('s', 'ers')),
  'VERB_S': (VERB, ('s',)),
  'VERB_BASE': (VERB, ('',)),
  'VERB_ED': (VERB, ('ed',)),
  'VERB_ING': (VERB, ('ing',)),
  'ADJ': (QUALITY, ('able', 'ful', 'ish')),
  'ADV': (QUALITY, ('ly',)),
}
END = 0  # the slot that fills up short sentences
SLOTS = ('END', *FUNCTION_WORDS, *CONTENT_WORDS)
ENDINGS = tuple(
  dict.fromkeys(ending for _, endings in CONTENT_WORDS.values() for ending in endings)
)


def make_templates(rng: np.random.Generator) -> np.ndarray:
  """Expands the grammar into different sentences of slots, [template, 20]."""
  templates: dict[tuple[str, ...], None] = {}
  while len(templates) < _NUM_TEMPLATES:
    sentence = _clause(rng)
    while rng.random() < 0.3:
      sentence += ['CONJ', *_clause(rng)]
    if _MIN_WORDS <= len(sentence) <= _MAX_WORDS:
      templates[tuple(sentence)] = None
  padded = np.full((_NUM_TEMPLATES, _MAX_WORDS), END)
  for row, template in zip(padded, templates, strict=True):
    row[: len(template)] = [SLOTS.index(slot) for slot in template]
  return padded


def _clause(rng: np.random.Generator) -> list[str]:
  """Expands the grammar's clause; the verb agrees with the subject."""
  if rng.random() < 0.25:
    verb = pick(rng, [['VERB_ED'], ['MODAL', 'VERB_BASE']])
    clause = ['PRON', *verb, *_noun_phrase(rng, pick(rng, ['SG', 'PL']))]
  else:
    number = pick(rng, ['SG', 'PL'])
    present = 'VERB_S' if number == 'SG' else 'VERB_BASE'
    verb = pick(rng, [[present], ['VERB_ED'], [f'AUX_{number}', 'VERB_ING']])
    clause = [*_noun_phrase(rng, number), *verb]
    clause += pick(rng, [['ADV'], _noun_phrase(rng, pick(rng, ['SG', 'PL']))])
  if rng.random() < 0.4:
    clause += ['PREP', *_noun_phrase(rng, pick(rng, ['SG', 'PL']))]
  return clause


def _noun_phrase(rng: np.random.Generator, number: str) -> list[str]:
  """Expands the grammar's noun phrase in the singular (SG) or plural (PL)."""
  adjective = ['ADJ'] if rng.random() < 0.35 else []
  return [f'DET_{number}', *adjective, f'NOUN_{number}']


def pick(rng: np.random.Generator, options: Sequence[_T]) -> _T:
  """Picks one of the options at random."""
  return options[rng.integers(len(options))]


def slot_weights() -> tuple[np.ndarray, np.ndarray]:
  """Weights [slot, ending] of endings and [slot, word] of function words.

  Slots for which they have no meaning give all weight to the first outcome.
  """
  endings = np.zeros((len(SLOTS), len(ENDINGS)))
  words = np.zeros((len(SLOTS), 10))
  endings[:, 0] = words[:, 0] = 1.0
  for number, slot in enumerate(SLOTS):
    if slot in CONTENT_WORDS:
      endings[number] = [ending in CONTENT_WORDS[slot][1] for ending in ENDINGS]
    if slot in FUNCTION_WORDS:
      count = len(FUNCTION_WORDS[slot].split())
      words[number, :count] = 1 / np.arange(1, count + 1)
  return endings, words


# [slot], the class of the slot's stems; -1 where there are none.
SLOT_CLASS = np.array([CONTENT_WORDS.get(slot, (-1, ()))[0] for slot in SLOTS])
# [slot], the number of the slot's first function word in `Language.words`.
_FUNCTION_COUNTS = [len(FUNCTION_WORDS.get(slot, '').split()) for slot in SLOTS]
FIRST_FUNCTION_WORD = np.cumsum([0, *_FUNCTION_COUNTS[:-1]])
NUM_FUNCTION_WORDS = sum(_FUNCTION_COUNTS)
