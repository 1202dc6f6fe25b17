"""Word vectors that are weighed, centred and whitened by public knowledge."""

import numpy as np
import pytest

from tff_textpriv.text import representations, whitening
from tff_textpriv.text.word_vectors import VectorsError


def test_weighed_vectors_tell_texts_apart_by_their_rarer_words(tmp_path):
  rng = np.random.default_rng(0)
  # What all words have in common is far larger than what tells them apart.
  words = {
    f'w{chr(97 + i // 26)}{chr(97 + i % 26)}': rng.normal(size=5) for i in range(600)
  }
  vectors = {word.encode(): np.float32(9 + own) for word, own in words.items()}
  plain = representations.MeanVectors(vectors, 5)
  weighed = whitening.WhitenedVectors(plain, whitening.by_frequency(plain))
  assert list(weighed.vectors) == list(plain.vectors)
  # A text by Zipf's law has nothing in particular, and coordinates as large as planned.
  shares = 1 / np.arange(1, 601)
  shares /= shares.sum()
  ours = np.array(list(weighed.vectors.values()), np.float64)
  np.testing.assert_allclose(shares @ ours, 0, atol=1e-4)
  covariance = (shares * ours.T) @ ours
  np.testing.assert_allclose(covariance, np.eye(5), atol=5e-4)
  # By hand, but for one linear map: a / (a + p) of each, less the mean of all.
  factors = 1e-2 / (1e-2 + shares)
  table = np.array(list(vectors.values()), np.float64)
  expected = factors[:, np.newaxis] * table - (shares * factors) @ table
  axes, *_ = np.linalg.lstsq(expected, ours, rcond=None)
  np.testing.assert_allclose(expected @ axes, ours, atol=1e-3)
  # It stretches and does not turn.
  np.testing.assert_allclose(axes, axes.T, atol=1e-3 * abs(axes).max())
  assert factors[0] < 0.07 < 0.97 < factors[599]
  # What is kept of them is read again as it was.
  file = tmp_path / 'whitening.json'
  file.write_bytes(weighed.whitening.to_bytes())
  again = whitening.WhitenedVectors(plain, whitening.read(file))
  for word, vector in weighed.vectors.items():
    np.testing.assert_array_equal(again.vectors[word], vector)
  # Texts are of one length, that of a vector of five standardized numbers; an empty one
  # has none.
  texts = [' '.join(list(words)[:7]), 'wab', '']
  lengths = np.linalg.norm(weighed.encode(texts).dense, axis=1)
  np.testing.assert_allclose(lengths, [5**0.5, 5**0.5, 0], rtol=1e-6)


def test_vectors_are_whitened_by_public_documents(tmp_path):
  rng = np.random.default_rng(0)
  words = [f'w{chr(97 + i // 26)}{chr(97 + i % 26)}' for i in range(200)]
  plain = representations.MeanVectors(
    {word.encode(): np.float32(3 + rng.normal(size=4)) for word in words}, 4
  )
  # Words of a document come from one of two halves: a topic, which Zipf's law has not.
  documents = [
    ' '.join(rng.choice(words[100 * (number % 2) :][:100], size=50))
    for number in range(40)
  ]
  weighed = whitening.WhitenedVectors(
    plain, whitening.by_documents(plain, [*documents, 'too short to tell'])
  )
  table = np.array([weighed.vectors[word.encode()] for word in words], np.float64)
  number = {word: row for row, word in enumerate(words)}
  means = np.array(
    [table[[number[word] for word in text.split()]].mean(0) for text in documents]
  )
  np.testing.assert_allclose(means.mean(0), 0, atol=1e-5)
  np.testing.assert_allclose(means.T @ means / len(means), np.eye(4), atol=1e-4)
  by_law = whitening.WhitenedVectors(plain, whitening.by_frequency(plain))
  assert not np.allclose(
    by_law.encode(documents).dense, weighed.encode(documents).dense
  )
  with pytest.raises(
    representations.VectorsError, match='7 documents .* twice as many'
  ):
    whitening.by_documents(plain, documents[:7])


def test_directions_in_which_words_do_not_differ_stay_nothing():
  vectors = {
    word: np.float32([number, -number, 3.0])
    for number, word in enumerate([b'one', b'two', b'three', b'four'])
  }
  plain = representations.MeanVectors(vectors, 3)
  made = whitening.WhitenedVectors(plain, whitening.by_frequency(plain))
  weighed = np.array(list(made.vectors.values()))
  assert np.isfinite(weighed).all()
  # All that differs is one number, and half of its length is in each of two coordinates.
  np.testing.assert_allclose(weighed[:, 0], -weighed[:, 1], atol=1e-3)


@pytest.mark.parametrize(
  'content', ['', '{}', '{"centre": [1, 2], "axes": [[1]]}', '[1]', '{"centre": 0}']
)
def test_a_file_that_is_something_else_is_refused_by_name(tmp_path, content):
  file = tmp_path / 'whitening.json'
  file.write_text(content)
  with pytest.raises(VectorsError, match='whitening.json: is not how'):
    whitening.read(file)
