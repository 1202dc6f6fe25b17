"""The aggregation that goes with a mechanism, found by the name that it gives.

The module that `Mechanism.aggregator` names, or what stands there in its place, has two
functions:

  mean(mechanism, *, by_examples)        the aggregation factory of clients' updates;
  seen(mechanism, update, seed, view)    what an observer reads of one client's update.

A mechanism that names no module, or one without what is asked for, is refused: nothing is
aggregated, and nothing is attacked, as if there were no mechanism.
"""

import importlib
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_textpriv.privacy import errors
from tff_textpriv.privacy.mechanism import Mechanism

# Whose eyes: the server's that collects messages, or those of everybody to whom the
# server hands the aggregate of one round.
VIEWS = ('server', 'released')


def mean(
  mechanism: Mechanism, *, by_examples: bool
) -> tff.aggregators.WeightedAggregationFactory:
  """Makes the factory of a mechanism's mean.

  Args:
    mechanism: Everything that decides the privacy figure.
    by_examples: Whether updates are weighted by the clients' numbers of examples, or all
      alike. Weights come with the updates in either case.

  Returns:
    The factory. Values are updates or, where clients draw random numbers, ordered
    dictionaries of an update named `delta` and a `seed`, int64 [2].

  Raises:
    PrivacyError: If the mechanism has no such mean.
  """
  return _function(mechanism, 'mean')(mechanism, by_examples=by_examples)


def seen(mechanism: Mechanism, update: Any, seed: tf.Tensor, view: str) -> Any:
  """Returns what an observer reads of one client's update.

  Args:
    mechanism: What stands between the client and the observer.
    update: A structure of float tensors.
    seed: Decides the random numbers, int64 [2].
    view: Who looks, one of `VIEWS`.

  Returns:
    A structure like the update: the update itself, or an estimate of it.

  Raises:
    PrivacyError: If the mechanism does not say.
  """
  return _function(mechanism, 'seen')(mechanism, update, seed, view)


def _function(mechanism: Mechanism, name: str) -> Any:
  kind = type(mechanism).__name__
  if not mechanism.aggregator:
    raise errors.PrivacyError(f'{kind} names no aggregator')
  module = mechanism.aggregator
  if isinstance(module, str):
    module = importlib.import_module(f'tff_textpriv.aggregators.{module}')
  if not hasattr(module, name):
    raise errors.PrivacyError(f'{kind} has no {name}: its aggregator does not')
  return getattr(module, name)
