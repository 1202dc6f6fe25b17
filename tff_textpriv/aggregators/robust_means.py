"""Averages that few faulty clients cannot carry away, found by their names."""

import functools
from collections.abc import Callable

import tensorflow_federated as tff

from tff_textpriv.aggregators import (
  geometric_median,
  single_updates,
  sound_updates,
)


def rule(
  name: str, *, norm_bound: float, faulty_share: float, median_iterations: int
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the factory of a robust average.

  Args:
    name: One of `robust_avg.RULES`.
    norm_bound: Of `norm_bound`: how long an update may be.
    faulty_share: Of rules that need single updates: how many clients may be faulty.
    median_iterations: Of `geometric_median`: passes over the clients after the first.
  """
  rules: dict[str, Callable[[], tff.aggregators.WeightedAggregationFactory]] = {
    'zeroing_and_clipping': lambda: tff.learning.robust_aggregator(weighted=True),
    'norm_bound': lambda: tff.aggregators.clipping_factory(
      norm_bound, sound_updates.named_mean()
    ),
    'geometric_median': lambda: geometric_median.GeometricMedianFactory(
      median_iterations
    ),
    'trimmed_mean': lambda: single_updates.SingleUpdatesFactory(
      functools.partial(single_updates.trimmed_mean, share=faulty_share)
    ),
    'krum': lambda: _krum(faulty_share, chooses_one=True),
    'multi_krum': lambda: _krum(faulty_share, chooses_one=False),
  }
  return rules[name]()


def _krum(share: float, *, chooses_one: bool) -> single_updates.SingleUpdatesFactory:
  return single_updates.SingleUpdatesFactory(
    functools.partial(single_updates.krum, share=share, chooses_one=chooses_one)
  )
