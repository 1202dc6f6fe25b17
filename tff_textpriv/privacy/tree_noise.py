"""Tree aggregation: noise on the nodes of a binary tree over rounds.

A node stands for a block of 2^h rounds, and its noisy sum is known when the last of them is
over. The sum over the first t rounds is that of the few nodes that they consist of. A node
is known twice, by its own noise and by its children's, and both are used (Honaker,
Efficient Use of Differentially Private Binary Trees, 2015). After some rounds a new tree is
begun, so that a user is in each tree once (Kairouz et al., Practical and Private (Deep)
Learning without Sampling or Shuffling, 2021).
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from tff_textpriv.privacy import correlated_noise
from tff_textpriv.privacy.errors import PrivacyError

# What the weight of a node beside its children is divided by.
MERGE_DENOMINATOR = 2**8


@dataclasses.dataclass(frozen=True)
class TreeNoise(correlated_noise.NearbyStrategy):
  """C has a row for each node of each tree, with ones for its rounds.

  Attributes:
    rounds: The number of rounds that are planned.
    restart: After how many rounds a new tree begins.
  """

  denominator = 1
  draws_per_round = 2

  rounds: int
  restart: int

  def __post_init__(self) -> None:
    if not 1 <= self.restart <= self.rounds:
      raise PrivacyError(
        f'a tree of {self.restart} rounds is none of a run of {self.rounds} rounds'
      )

  @property
  def levels(self) -> int:
    """The number of levels of a tree, leaves included."""
    return self.restart.bit_length()

  @property
  def num_vectors(self) -> int:
    """See the base class: of each level at most one node waits for its sibling."""
    return self.levels

  @property
  def summary(self) -> str:
    """See the base class."""
    return f'tree aggregation, a new tree every so many rounds: {self.restart}'

  @property
  def reference(self) -> str:
    """See the base class."""
    return (
      'Kairouz et al., Practical and Private (Deep) Learning without Sampling or '
      'Shuffling (2021), with the estimates of Honaker (2015)'
    )

  def merge_weight(self, level: int) -> int:
    """Returns the weight of a node's own noise, over `MERGE_DENOMINATOR`.

    With v_h the variance of what is known of a node of level h, v_0 = 1, the best weight
    is 2 v_{h-1} / (1 + 2 v_{h-1}) = v_h = 2^h / (2^(h+1) - 1).
    """
    return round(MERGE_DENOMINATOR * 2**level / (2 ** (level + 1) - 1))

  @property
  def reach(self) -> int:
    """See the base class."""
    return self.restart

  def _nodes(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields, by level, the node of each round and whether it is ever complete.

    Nodes that are not are never drawn.
    """
    tree, place = np.divmod(np.arange(self.rounds), self.restart)
    lengths = np.minimum(self.restart, self.rounds - tree * self.restart)
    for level in range(self.levels):
      node = place >> level
      yield tree * self.restart + node, (node + 1) << level <= lengths

  def squared_norms(self) -> np.ndarray:
    """See the base class: in how many nodes each round is."""
    return np.sum([complete for _, complete in self._nodes()], axis=0, dtype=float)

  def gram(self) -> np.ndarray:
    """See the base class: in how many nodes each two rounds are together."""
    gram = np.zeros([self.rounds, self.rounds])
    for node, complete in self._nodes():
      gram += (node[:, None] == node) & complete
    return gram

  def noising(self) -> np.ndarray:
    """See the base class, but for the rounding of estimates to whole numbers."""
    draws = iter(np.eye(2 * self.rounds))
    waiting: dict[int, np.ndarray] = {}
    total = np.zeros(2 * self.rounds)
    rows = []
    for number in range(self.rounds):
      if number % self.restart == 0:
        waiting, total = {}, np.zeros_like(total)
      node, level = next(draws), 0
      while level in waiting:
        children = waiting.pop(level) + node
        level += 1
        own = self.merge_weight(level) / MERGE_DENOMINATOR
        node = own * next(draws) + (1 - own) * children
      waiting[level] = node
      before, total = total, np.sum(list(waiting.values()), axis=0)
      rows.append(total - before)
    return np.array(rows)
