"""The mean of an aggregator of the caller's own.

What an observer reads of an update is not known, so that there is no `seen`: such a run
cannot be attacked as if it had no aggregator.
"""

import tensorflow_federated as tff

from tff_textpriv.privacy.own_mechanism import OwnMechanism


def mean(
  mechanism: OwnMechanism, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Returns the caller's factory; see `of_mechanism`. TFF refuses what is none."""
  del by_examples  # Weights come with updates; an unweighted factory passes them over.
  factory = mechanism.factory
  if isinstance(factory, tff.aggregators.WeightedAggregationFactory):
    return factory
  return tff.aggregators.as_weighted_aggregator(factory)
