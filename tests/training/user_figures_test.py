"""Figures by user: tokens per word, and pieces that one user alone has written."""

import math

import numpy as np
import pytest

from tff_textpriv.datasets import clients
from tff_textpriv.training import user_figures


def _users(**texts):
  return clients.InMemoryClientText(texts)


def test_median_and_percentile_are_taken_over_users_and_not_over_words():
  class _Tokenizer:
    """One token a letter, of which the first begins a word."""

    starts_word = np.array([False] * 4 + [True, False])

    def encode(self, texts):
      return [
        np.array(
          [2, *(i for word in text.split() for i in [4] + [5] * (len(word) - 1)), 3]
        )
        for text in texts
      ]

  # One, two, ..., ten letters a word; the last user has written most.
  texts = {f'user {n}': ['a' * n] * (1 if n < 10 else 500) for n in range(1, 11)}
  texts['nothing'] = []
  found = user_figures.tokens_per_word(_Tokenizer(), _users(**texts), list(texts))
  assert found.median == 5.5
  assert found.p90 == pytest.approx(9.1)
  nobody = user_figures.tokens_per_word(_Tokenizer(), _users(a=[]), ['a'])
  assert math.isnan(nobody.median) and math.isnan(nobody.p90)


def test_pieces_of_one_user_are_counted_and_not_named():
  texts = _users(
    ann=['zebras graze', 'zebras'], bob=['grazing here'], cy=['here here unzebra']
  )
  pieces = [
    '▁zebra',  # Begins a word of Ann's only.
    'zebra',  # Stands inside of a word of Cy's only; Ann's words begin with it.
    '▁graz',  # Ann and Bob.
    'razin',  # Bob.
    '▁here',  # Bob and Cy.
    '▁aardvark',  # Nobody.
    'her', '▁he', '<0x41>', '▁1234', '▁',  # Too short, or no letters.
  ]  # fmt: skip
  found = user_figures.owners(pieces, texts, ['ann', 'bob', 'cy'])
  assert found == user_figures.Owners(6, 1, 3, 3)
  # Those who did not train the model do not count.
  found = user_figures.owners(pieces, texts, ['ann', 'bob'])
  assert found == user_figures.Owners(6, 2, 3, 2)
  assert user_figures.owners([], texts, ['ann']) == user_figures.Owners(0, 0, 0, 1)
