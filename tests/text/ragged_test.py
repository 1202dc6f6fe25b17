"""Ragged ids: rows come back as they went in, and are padded where they end."""

import numpy as np
import pytest

from tff_textpriv.text import ragged

_ROWS = [[5, 1], [], [7, 8, 9], [2]]


@pytest.fixture
def ids():
  return ragged.RaggedIds.from_rows(_ROWS)


def test_rows_come_back(ids):
  assert ids.num_rows == 4
  assert [ids.row(i).tolist() for i in range(4)] == _ROWS
  assert ids.lengths.tolist() == [2, 0, 3, 1]


def test_a_matrix_is_as_large_as_its_rows_need(ids):
  assert ids.padded(np.array([3, 0]), -1).tolist() == [[2, -1], [5, 1]]
  assert ids.padded(np.array([1]), -1).shape == (1, 0)
  assert ids.padded(np.array([], np.int64), -1).shape == (0, 0)


def test_a_given_shape_cuts_long_rows_and_adds_empty_ones(ids):
  matrix = ids.padded(np.array([2, 2, 1]), 0, (4, 2))
  assert matrix.tolist() == [[7, 8], [7, 8], [0, 0], [0, 0]]
  assert matrix.dtype == np.int32


def test_there_may_be_no_rows_at_all():
  nothing = ragged.RaggedIds.from_rows([])
  assert nothing.num_rows == 0 and nothing.lengths.size == 0
