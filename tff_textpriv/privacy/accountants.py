"""Accountants: the epsilon of an event, and of many rounds.

Two are offered. RDP (Renyi differential privacy) is quick and accounts both kinds of
sampling; PLD (privacy loss distributions) is tighter and takes about a second, and
cannot account cohorts of a fixed size. Both give upper bounds of the same true epsilon.
"""

import functools
import math

import dp_accounting
import numpy as np
from dp_accounting import pld, rdp

from tff_textpriv.privacy.costs import GaussianCost
from tff_textpriv.privacy.errors import PrivacyError

ACCOUNTANTS = ('rdp', 'pld')

# Rounding can leave a Renyi divergence of almost 0 slightly negative. Raising it
# to this floor is on the safe side, and below the precision of every figure.
_RDP_FLOOR = 1e-12
# PLD rounds privacy losses to a grid, on the safe side. This one costs 0.01 % of
# epsilon or so. It widens with large epsilons, which would need gigabytes.
_PLD_INTERVAL = 3e-4
_PLD_RELATIVE_INTERVAL = 3e-5
_ACCOUNTANT_CLASSES = {'rdp': rdp.RdpAccountant, 'pld': pld.PLDAccountant}


def supports(
  event: dp_accounting.DpEvent,
  relation: dp_accounting.NeighboringRelation,
  accountant: str,
) -> bool:
  """Tells whether `accountant` ('rdp' or 'pld') can account `event`."""
  return _ACCOUNTANT_CLASSES[accountant](neighboring_relation=relation).supports(event)


def epsilon(
  event: dp_accounting.DpEvent,
  delta: float,
  relation: dp_accounting.NeighboringRelation,
  accountant: str,
) -> float:
  """Returns the epsilon of `event` at `delta`; infinite if it is not private.

  Args:
    event: What happened. Hashable: composed events hold tuples.
    delta: The delta of the guarantee.
    relation: The neighbouring relation.
    accountant: 'rdp' or 'pld'.

  Returns:
    An upper bound of epsilon.

  Raises:
    PrivacyError: The accountant cannot account the event.
  """
  if not supports(event, relation, accountant):
    raise PrivacyError(
      f'the {accountant} accountant cannot account {event} under {relation.name}'
    )
  by_rdp = _rdp_epsilon(event, delta, relation)
  if accountant == 'rdp' or not math.isfinite(by_rdp):
    return by_rdp
  interval = max(_PLD_INTERVAL, _PLD_RELATIVE_INTERVAL * by_rdp)
  return _pld_epsilon(event, delta, relation, interval)


def epsilon_of_rounds(
  mechanism: GaussianCost, rounds: int, delta: float, accountant: str
) -> float:
  """Returns the epsilon of `rounds` rounds of `mechanism` at `delta`."""
  left = delta - rounds * mechanism.own_delta
  if left <= 0:
    return math.inf
  composed = epsilon(mechanism.composed(rounds), left, mechanism.relation, accountant)
  return composed + rounds * mechanism.own_epsilon


def _rdp_epsilon(
  event: dp_accounting.DpEvent,
  delta: float,
  relation: dp_accounting.NeighboringRelation,
) -> float:
  """Returns the epsilon of `event` by RDP; quick for ever more of the same."""
  orders = rdp.RdpAccountant().orders
  return float(
    rdp.compute_epsilon(orders, _renyi_divergences(event, relation), delta)[0]
  )


def _renyi_divergences(
  event: dp_accounting.DpEvent, relation: dp_accounting.NeighboringRelation
) -> np.ndarray:
  """Returns the Renyi divergences of `event`, [orders]: sums over its parts."""
  match event:
    case dp_accounting.SelfComposedDpEvent():
      if event.count == 0:
        return np.zeros_like(rdp.RdpAccountant().orders)
      return event.count * _renyi_divergences(event.event, relation)
    case dp_accounting.ComposedDpEvent():
      return sum(
        (_renyi_divergences(part, relation) for part in event.events),
        np.zeros_like(rdp.RdpAccountant().orders),
      )
  return _leaf_renyi_divergences(event, relation)


@functools.lru_cache(maxsize=1024)
def _leaf_renyi_divergences(
  event: dp_accounting.DpEvent, relation: dp_accounting.NeighboringRelation
) -> np.ndarray:
  """Returns the Renyi divergences of an event that is not a composition."""
  if isinstance(event, dp_accounting.NoOpDpEvent):
    return np.zeros_like(rdp.RdpAccountant().orders)
  accountant = rdp.RdpAccountant(neighboring_relation=relation).compose(event)
  return np.maximum(accountant.rdp, _RDP_FLOOR)


@functools.lru_cache(maxsize=1024)
def _pld_epsilon(
  event: dp_accounting.DpEvent,
  delta: float,
  relation: dp_accounting.NeighboringRelation,
  interval: float,
) -> float:
  """Returns the epsilon of `event` by PLD, with losses rounded to `interval`."""
  return float(_pld_accountant(event, relation, interval).get_epsilon(delta))


@functools.lru_cache(maxsize=16)
def _pld_accountant(
  event: dp_accounting.DpEvent,
  relation: dp_accounting.NeighboringRelation,
  interval: float,
) -> pld.PLDAccountant:
  """Returns the accountant of `event`, which takes a while and then any delta."""
  return pld.PLDAccountant(relation, interval).compose(event)
