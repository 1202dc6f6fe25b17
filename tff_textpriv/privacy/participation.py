"""How much one user can move a matrix mechanism who comes back only after a while.

A matrix mechanism releases C x + z, where x has one row per round: the sum of what the
users of that round send. A user who takes part in the rounds P moves C x by the sum of
the columns C_j u_j with j in P and |u_j| <= 1. Where all products of columns are >= 0 it
is longest if all u_j are the same, and then

  |C u|^2 = sum_{i, j in P} G_ij,    G = C^T C.

(k, b)-participation lets P be any k rounds or fewer of which each two are at least b
rounds apart (Choquette-Choo et al., Multi-Epoch Matrix Factorization Mechanisms, 2023).
"""

import numpy as np

from tff_textpriv.privacy.errors import PrivacyError

# Rows of G that are looked at together, so that large ones fit into memory.
_ROWS = 256


def most_participations(rounds: int, separation: int) -> int:
  """Returns in how many of so many rounds a user can take part."""
  return -(-rounds // separation)


def heaviest(weights: np.ndarray, separation: int, most: int) -> np.ndarray:
  """Returns the largest sums of weights of rounds that are far enough apart.

  Args:
    weights: Of each round, >= 0, float [rounds, ...]; further axes are other problems.
    separation: Each two rounds are at least so far apart.
    most: The largest number of rounds to take.

  Returns:
    Float [most, ...]: the largest sum of one round, of up to two, and so on.
  """
  # before[j] is the best choice of one round fewer among the first j.
  before = np.zeros((len(weights) + 1, *weights.shape[1:]))
  first_free = np.maximum(0, np.arange(len(weights)) + 1 - separation)
  sums = []
  for _ in range(most):
    best = np.maximum.accumulate(weights + before[first_free], axis=0)
    before = np.concatenate([np.zeros_like(best[:1]), best])
    sums.append(best[-1])
  return np.array(sums)


def squared_sensitivities(gram: np.ndarray, separation: int) -> np.ndarray:
  """Bounds the square of what a user can move, in clip norms.

  The sum over i in P of what row i of G has in P is largest for each i by itself. Where
  no two columns that one user can have overlap, this is no bound but the value.

  Args:
    gram: G, float [rounds, rounds], all >= 0.
    separation: The least number b of rounds from one participation to the next.

  Returns:
    Float [k]: of a user with one participation, with two, and so on, up to as many as
    the rounds have room for.

  Raises:
    PrivacyError: Some product of columns is negative.
  """
  if gram.min() < 0:
    raise PrivacyError('columns with a negative product need another bound')
  rounds = len(gram)
  most = most_participations(rounds, separation)
  rows = gram.diagonal().copy()
  places = np.arange(rounds)
  for start in range(0, rounds, _ROWS):
    own = places[start : start + _ROWS]
    others = np.where(abs(places[:, None] - own) < separation, 0.0, gram[:, own])
    if most > 1 and others.any():
      rows[own] += heaviest(others, separation, most - 1)[-1]
  return heaviest(rows, separation, most)
