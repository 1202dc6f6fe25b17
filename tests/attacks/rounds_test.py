"""What a client trains on: one batch, or a round as in training."""

import numpy as np

from tff_textpriv.attacks import rounds

_VOCABULARY = ('a', 'b', 'c', '[UNK]')
_TEXTS = [
  rounds.Sentence(('a', 'b'), 2),
  rounds.Sentence(('c', 'x', 'a'), 0),
  rounds.Sentence(('b',), 1),
]


def _deal(**kwargs):
  dealer = rounds.Dealer(_VOCABULARY, length=4)
  return dealer.round(_TEXTS, rng=np.random.default_rng(0), **kwargs)


def _texts(batches):
  return sorted(
    (tuple(row[row < 4]), label)
    for inputs, labels in batches
    for row, label in zip(inputs['ids'], labels[: inputs['num_examples']], strict=False)
  )


def test_one_step_is_one_batch_in_order_and_as_wide_as_the_longest_text():
  dealer = rounds.Dealer(_VOCABULARY, length=4)
  data = dealer.one_step(_TEXTS, np.random.default_rng(0))
  assert data.adaptation == data.batches
  ((inputs, labels),) = data.batches
  # An unknown word has the last row, and padding an id beyond it.
  np.testing.assert_array_equal(
    inputs['ids'], [[0, 1, 4, 4], [2, 3, 0, 4], [1, 4, 4, 4]]
  )
  np.testing.assert_array_equal(labels, [2, 0, 1])


def test_a_round_passes_over_all_texts_in_batches_and_adapts_once():
  data = _deal(batch_size=2, num_epochs=3)
  assert [len(data.adaptation), len(data.batches)] == [2, 6]
  every = [((0, 1), 2), ((1,), 1), ((2, 3, 0), 0)]
  assert _texts(data.adaptation) == every
  assert _texts(data.batches) == sorted(3 * every)
