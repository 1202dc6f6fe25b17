"""The privacy card: what a run promises, in words and numbers, and what not."""

import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

from tff_textpriv import files
from tff_textpriv.privacy import (
  card_page,
  central_card,
  ledger_entries,
  local_card,
  local_gaussian_card,
)
from tff_textpriv.privacy.central import CentralDpPlan
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.ledger_entries import Entry
from tff_textpriv.privacy.local import LdpPlan
from tff_textpriv.privacy.local_gaussian import LocalGaussianPlan

JSON_NAME = 'privacy_card.json'
MARKDOWN_NAME = 'privacy_card.md'
NO_GUARANTEE = 'no formal guarantee'

Plan = CentralDpPlan | LdpPlan | LocalGaussianPlan

_LOCAL_THREAT_MODEL = (
  'Local differential privacy: users randomize their reports themselves, so that the '
  'guarantee also holds against whoever collects them. It is about what a user '
  'reports; that there is a report is not hidden.'
)
_NO_THREAT_MODEL = 'None: no mechanism protects the users of this run.'
_NOT_COVERED = (
  'Training metrics of each round (loss, accuracy, numbers of users, of examples and of '
  'clients that were left out) are exact and not private: look at them in an experiment, '
  'do not publish them about real users.',
  'Metrics on evaluation users are exact too. These users take no part in training.',
  'The names of classes, and which there are, are those of the data; they are a part of '
  'a classifier.',
  'Choosing hyper-parameters: every further run on the same users spends again, and '
  'its cost is in no ledger but its own.',
)


def privacy_card(
  ledger: Ledger,
  plan: Plan | None,
  *,
  task: str,
  algo: str,
  facts: Mapping[str, Any],
  user_note: str | None = None,
) -> dict[str, Any]:
  """Makes the card of a run, as a dictionary that JSON can hold.

  Args:
    ledger: What the run has spent.
    plan: Its central or local plan; `None` for an algorithm without one.
    task: Name of the task.
    algo: Name of the algorithm.
    facts: What else the reader should know, such as the tokenizer's origin.
    user_note: Whom a figure is about, if its users are not people.

  Returns:
    The card. Without a guarantee its `epsilon` is `None` and `reasons` say why.
  """
  reasons = _no_guarantee_reasons(ledger, plan)
  epsilon = math.inf if reasons else ledger.epsilon()
  return {
    'task': task,
    'algo': algo,
    'headline': _headline(epsilon, ledger.delta, plan),
    'formal_guarantee': not reasons,
    'reasons': reasons,
    'epsilon': None if reasons else epsilon,
    'delta': ledger.delta,
    'accountant': ledger.accountant,
    'accounting': {
      name: _accounting(ledger, name, bool(reasons))
      for name in (('pld',) if isinstance(plan, LdpPlan) else ('rdp', 'pld'))
    },
    'threat_model': _threat_model(ledger, plan),
    'plan': None if plan is None else _describe_plan(plan, ledger),
    'warnings': [] if plan is None else [*plan.warnings, *filter(None, [user_note])],
    'ledger': [_describe_entry(entry) for entry in ledger.entries],
    'not_covered': [
      *_NOT_COVERED,
      *(local_card.NOT_COVERED if isinstance(plan, LdpPlan) else ()),
    ],
    'facts': dict(facts),
  }


def write(card: Mapping[str, Any], folder: str | pathlib.Path) -> None:
  """Writes `privacy_card.json` and `privacy_card.md`, each atomically."""
  text = json.dumps(card, indent=2, allow_nan=False) + '\n'
  files.write_atomically(pathlib.Path(folder, JSON_NAME), text)
  files.write_atomically(pathlib.Path(folder, MARKDOWN_NAME), card_page.render(card))


def _no_guarantee_reasons(ledger: Ledger, plan: Plan | None) -> list[str]:
  """Returns why nothing can be claimed; a run that charges nothing claims nothing."""
  reasons = list(ledger.no_guarantee_reasons)
  if not reasons and plan is not None and plan.no_guarantee_reason is not None:
    reasons.append(plan.no_guarantee_reason)
  private = (ledger_entries.CENTRAL, ledger_entries.LOCAL)
  if plan is None and all(entry.kind not in private for entry in ledger.entries):
    reasons.append('the algorithm has no privacy mechanism')
  return reasons


def _headline(epsilon: float, delta: float, plan: Plan | None) -> str:
  if epsilon == math.inf:
    return NO_GUARANTEE.capitalize()
  figure = card_page.figure(epsilon)
  if isinstance(plan, LdpPlan):
    return local_card.headline(plan, figure)
  if isinstance(plan, LocalGaussianPlan):
    return local_gaussian_card.headline(plan, figure)
  whose = ' of the accounted deployment' if plan is not None and plan.is_scaled else ''
  return f'({figure}, {delta:g})-differential privacy for every user{whose}'


def _accounting(ledger: Ledger, accountant: str, unclaimed: bool) -> dict[str, Any]:
  """Returns the figure of one accountant, or why there is none."""
  if unclaimed:
    return {'epsilon': None, 'note': NO_GUARANTEE}
  if not ledger.supports(accountant):
    note = f'not available: {accountant.upper()} cannot account cohorts of a fixed size'
    return {'epsilon': None, 'note': note}
  note = 'headline' if accountant == ledger.accountant else 'for comparison'
  return {'epsilon': ledger.epsilon(accountant), 'note': note}


def _threat_model(ledger: Ledger, plan: Plan | None) -> str:
  if isinstance(plan, LdpPlan):
    return local_card.THREAT_MODEL
  if isinstance(plan, LocalGaussianPlan):
    return local_gaussian_card.threat_model(plan)
  parts = []
  if plan is not None:
    parts.append(central_card.THREAT_MODEL)
  if any(entry.kind == ledger_entries.LOCAL for entry in ledger.entries):
    parts.append(_LOCAL_THREAT_MODEL)
  return ' '.join(parts) or _NO_THREAT_MODEL


def _describe_plan(plan: Plan, ledger: Ledger) -> dict[str, Any]:
  """Returns the plan's numbers and the sentences that explain them."""
  if isinstance(plan, LdpPlan):
    return local_card.describe(plan, ledger)
  if isinstance(plan, LocalGaussianPlan):
    return local_gaussian_card.describe(plan, ledger)
  return central_card.describe(plan, ledger)


def _describe_entry(entry: Entry) -> dict[str, Any]:
  """Returns an entry and what it costs in words."""
  cost = {
    ledger_entries.CENTRAL: 'composed by the accountant',
    ledger_entries.LOCAL: _local_cost(entry),
    ledger_entries.POST_PROCESSING: '0 (post-processing)',
    ledger_entries.NO_GUARANTEE: NO_GUARANTEE,
  }[entry.kind]
  return {
    'kind': entry.kind,
    'name': entry.name,
    'count': entry.count,
    'cost': cost,
    'description': entry.description,
    'users': entry.group or 'all',
  }


def _local_cost(entry: Entry) -> str:
  if entry.reports is not None:
    return 'composed exactly, bit by bit'
  if entry.mechanism is not None:
    return 'composed by the accountant'
  return f'epsilon {entry.count * entry.epsilon:g}, added'
