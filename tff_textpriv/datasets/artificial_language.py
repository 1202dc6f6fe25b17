"""An artificial language: words of stems and endings, a grammar, topics.

The language has two dialects, public and private. They share the function
words, the endings, the grammar and part of the stems; the other stems belong to
one dialect alone. A word of the private dialect's jargon is therefore new to
whoever knows only the public one, but its ending is not.

Everything is drawn in NumPy from explicit generators, so that text is a pure
function of the seeds in every process.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from tff_textpriv.datasets import artificial_grammar as grammar

# Syllables begin, go on and (the last one of a stem) end with these. They are chosen
# so that few stems are English words, and no rude ones.
_ONSETS = (*'bdghklmnprstvwyz', 'br', 'dr', 'gr', 'kl', 'kr', 'pl', 'st', 'tr')
_VOWELS = (*'aeiou', 'ai', 'ea', 'ou')
_CODAS = (*'bdlnrvz', 'lk', 'lm', 'lv', 'nd', 'rk', 'rn', 'sk', 'zd')

NUM_TOPICS = 8
_NUM_SHARED_STEMS = 200
_NUM_OWN_STEMS = 200
_NUM_COLLOCATES = 4

# Probabilities that shape the text.
_ZIPF_OFFSET = 4.0  # of the Zipf-Mandelbrot law 1 / (rank + offset) of stems
_RANK_SHIFT = 0.4  # how far a shared stem's ranks in the dialects are apart
_OWN_RANGE = 1.0  # a dialect's own stems are in this upper share of the ranks
_TOPIC_BOOST = 12.0  # how much more often a topic uses its own stems
_CLASS_LEAK = 0.02  # how often a stem is used outside its own class
_COLLOCATION = 0.65  # that a content word is drawn given the one before
_USUAL_ENDING = 0.85  # that a stem takes its usual ending in a slot
_TWO_SYLLABLES = 0.3  # that a stem has two syllables
_PERSONAL = 0.05  # that a noun is one of the writer's personal words


@dataclasses.dataclass(frozen=True)
class Dialect:
  """How one side of the language uses the stems.

  Attributes:
    cumulative: [class, topic, stem], the cumulative distribution of stems.
    collocates: [class, topic, previous stem, choice], the stems that follow a
      stem in the same sentence; the first choice is the most frequent.
  """

  cumulative: np.ndarray
  collocates: np.ndarray


@dataclasses.dataclass(frozen=True)
class Language:
  """The language's words and grammar; a pure function of a seed.

  Attributes:
    words: [function words + stems * endings], every word there is: first the
      function words, then all endings of the first stem, and so on.
    templates: [template, 20], sentences as rows of slot numbers, filled up
      with END.
    usual_ending: [slot, stem], the ending that a stem usually takes in a slot.
    public: The public dialect.
    private: The private dialect.
  """

  words: np.ndarray
  templates: np.ndarray
  usual_ending: np.ndarray
  public: Dialect
  private: Dialect


def make_language(seed: int) -> Language:
  """Invents the language of a seed: stems, grammar templates and dialects."""
  rng = np.random.default_rng([seed, 0])
  # Who uses a stem: both dialects (0), the public one (1), the private one (2).
  owner = np.repeat([0, 1, 2], [_NUM_SHARED_STEMS, _NUM_OWN_STEMS, _NUM_OWN_STEMS])
  num_stems = len(owner)
  function_words = [
    word for row in grammar.FUNCTION_WORDS.values() for word in row.split()
  ]
  words = np.concatenate(
    [
      np.array(function_words, dtype=object),
      _inflections(make_stems(rng, num_stems)),
    ]
  )
  slots = np.arange(len(grammar.SLOTS))[:, np.newaxis]
  usual_ending = _draw(
    _ENDING_CUMULATIVE, slots, rng.random((len(grammar.SLOTS), num_stems))
  )
  # How important a stem is to speakers, 0 the most; evenly spread, so that every
  # seed's dialects differ alike. The private dialect's favourites among the shared
  # stems are less common in the public one.
  shared = rng.permutation(np.linspace(0, 1, _NUM_SHARED_STEMS, endpoint=False))
  own = np.linspace(0, _OWN_RANGE, _NUM_OWN_STEMS, endpoint=False)
  private_importance = np.concatenate([shared, own, own])
  public_importance = np.concatenate([(shared + _RANK_SHIFT) % 1, own, own])
  stem_class = rng.choice(3, num_stems, p=[0.5, 0.3, 0.2])
  stem_topic = rng.integers(NUM_TOPICS, size=num_stems)
  public = _make_dialect(rng, owner != 2, public_importance, stem_class, stem_topic)
  private = _make_dialect(rng, owner != 1, private_importance, stem_class, stem_topic)
  return Language(words, grammar.make_templates(rng), usual_ending, public, private)


def write_sentences(
  language: Language,
  dialect: Dialect,
  rng: np.random.Generator,
  topics: np.ndarray,
  personal_stems: Sequence[str] = (),
) -> list[str]:
  """Writes one sentence on each of the given topics.

  A sentence follows one of the templates. Its function words are independent;
  a content word is mostly one of the collocates, in this topic, of the content
  word before it.

  Args:
    language: The words and the grammar.
    dialect: Which of the language's two dialects to write in.
    rng: The source of randomness.
    topics: [sentence], the topic number of each sentence.
    personal_stems: The writer's own stems; some nouns are made of them.

  Returns:
    As many sentences as there are topics, of 4 to 20 words each.
  """
  num_sentences = len(topics)
  # Squaring makes the first templates the frequent ones.
  template = (rng.random(num_sentences) ** 2 * len(language.templates)).astype(int)
  slots = language.templates[template]
  stems = _draw_stems(dialect, rng, slots, topics)
  usual = rng.random(slots.shape) < _USUAL_ENDING
  endings = np.where(
    usual,
    language.usual_ending[slots, stems],
    _draw(_ENDING_CUMULATIVE, slots, rng.random(slots.shape)),
  )
  function_words = grammar.FIRST_FUNCTION_WORD[slots] + _draw(
    _FUNCTION_CUMULATIVE, slots, rng.random(slots.shape)
  )
  words = language.words
  if personal_stems:
    is_personal = (grammar.SLOT_CLASS[slots] == grammar.NOUN) & (
      rng.random(slots.shape) < _PERSONAL
    )
    num_stems = language.usual_ending.shape[1]
    own = num_stems + rng.integers(len(personal_stems), size=slots.shape)
    stems = np.where(is_personal, own, stems)
    words = np.concatenate([words, _inflections(personal_stems)])
  content_words = grammar.NUM_FUNCTION_WORDS + stems * len(grammar.ENDINGS) + endings
  numbers = np.where(grammar.SLOT_CLASS[slots] < 0, function_words, content_words)
  lengths = (slots != grammar.END).sum(axis=1)
  return [
    ' '.join(words[row[:length]].tolist())
    for row, length in zip(numbers, lengths.tolist(), strict=True)
  ]


def draw_topics(
  rng: np.random.Generator, num_sentences: int, concentration: float
) -> np.ndarray:
  """Draws the topics of sentences from a Dirichlet mixture drawn for them.

  Args:
    rng: The source of randomness.
    num_sentences: How many topics to draw.
    concentration: The Dirichlet parameter; the smaller, the fewer topics.

  Returns:
    [num_sentences], topic numbers.
  """
  mixture = rng.dirichlet(np.full(NUM_TOPICS, concentration))
  return rng.choice(NUM_TOPICS, num_sentences, p=mixture)


def make_stems(rng: np.random.Generator, count: int) -> list[str]:
  """Makes up pronounceable stems of one or two syllables, all different."""
  stems: dict[str, None] = {}
  while len(stems) < count:
    syllables = 1 + (rng.random() < _TWO_SYLLABLES)
    opening = [
      grammar.pick(rng, _ONSETS) + grammar.pick(rng, _VOWELS) for _ in range(syllables)
    ]
    stems[''.join(opening) + grammar.pick(rng, _CODAS)] = None
  return list(stems)


def _make_dialect(
  rng: np.random.Generator,
  is_member: np.ndarray,
  importance: np.ndarray,
  stem_class: np.ndarray,
  stem_topic: np.ndarray,
) -> Dialect:
  """Gives a dialect's stems their frequencies and their collocates.

  Args:
    rng: The source of randomness.
    is_member: [stem], whether the dialect has the stem.
    importance: [stem], in [0, 1); small numbers become frequent stems.
    stem_class: [stem], the class in which the stem is mostly used.
    stem_topic: [stem], the topic in which the stem is mostly used.
  """
  ranks = np.argsort(np.argsort(np.where(is_member, importance, np.inf)))
  weights = np.where(is_member, 1 / (ranks + _ZIPF_OFFSET), 0.0)
  by_class = np.where(stem_class == np.arange(3)[:, np.newaxis], 1.0, _CLASS_LEAK)
  topics = np.arange(NUM_TOPICS)[:, np.newaxis]
  by_topic = np.where(stem_topic == topics, _TOPIC_BOOST, 1.0)
  cumulative = _cumulative(weights * by_class[:, np.newaxis] * by_topic)
  num_rows, num_stems = 3 * NUM_TOPICS, len(weights)
  rows = np.arange(num_rows)[:, np.newaxis, np.newaxis]
  uniform = rng.random((num_rows, num_stems, _NUM_COLLOCATES))
  collocates = _draw(cumulative.reshape(num_rows, num_stems), rows, uniform)
  return Dialect(cumulative, collocates.reshape(3, NUM_TOPICS, num_stems, -1))


def _draw_stems(
  dialect: Dialect, rng: np.random.Generator, slots: np.ndarray, topics: np.ndarray
) -> np.ndarray:
  """Draws stems for sentences, word by word; [sentence, 20], where 0 is unused."""
  num_stems = dialect.cumulative.shape[-1]
  stem_class = grammar.SLOT_CLASS[slots]
  is_content = stem_class >= 0
  free = _draw(
    dialect.cumulative.reshape(-1, num_stems),
    stem_class * NUM_TOPICS + topics[:, np.newaxis],
    rng.random(slots.shape),
  )
  choice = _draw(_COLLOCATE_CUMULATIVE, np.zeros_like(slots), rng.random(slots.shape))
  has_previous = np.cumsum(is_content, axis=1) > 1
  follows = has_previous & (rng.random(slots.shape) < _COLLOCATION)
  stems = np.zeros_like(slots)
  previous = np.zeros_like(topics)
  for t in range(slots.shape[1]):
    collocate = dialect.collocates[stem_class[:, t], topics, previous, choice[:, t]]
    stems[:, t] = np.where(follows[:, t], collocate, free[:, t])
    previous = np.where(is_content[:, t], stems[:, t], previous)
  return stems


def _inflections(stems: Sequence[str]) -> np.ndarray:
  """All words that can be made of the stems, [stems * endings]."""
  words = [stem + ending for stem in stems for ending in grammar.ENDINGS]
  return np.array(words, dtype=object)


def _cumulative(weights: np.ndarray) -> np.ndarray:
  """Turns weights into cumulative distributions along the last axis."""
  sums = np.cumsum(weights, axis=-1)
  return sums / sums[..., -1:]


def _draw(cumulative: np.ndarray, rows: np.ndarray, uniform: np.ndarray) -> np.ndarray:
  """Draws from row `rows` of `cumulative` by inversion, many rows at once.

  Args:
    cumulative: [row, outcome], cumulative distributions.
    rows: Row numbers, of any shape; negative ones give a meaningless outcome.
    uniform: Numbers in [0, 1) of a shape to which `rows` can be broadcast.

  Returns:
    Outcome numbers, of the shape of `uniform`.
  """
  num_rows, num_outcomes = cumulative.shape
  rows = np.clip(rows, 0, None)
  # Row r is moved to the interval (r, r + 1], so that one search serves all.
  steps = (cumulative + np.arange(num_rows)[:, np.newaxis]).reshape(-1)
  found = np.searchsorted(steps, rows + uniform, side='right')
  # The sum may round up to the next row's interval.
  return np.minimum(found - rows * num_outcomes, num_outcomes - 1)


_ENDING_CUMULATIVE, _FUNCTION_CUMULATIVE = map(_cumulative, grammar.slot_weights())
_COLLOCATE_CUMULATIVE = _cumulative(0.5 ** np.arange(_NUM_COLLOCATES))[np.newaxis]
