"""The privacy card: what a run promises, in words and numbers, and what not."""

import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv import files
from tff_textpriv.privacy import ledger as ledger_lib
from tff_textpriv.privacy import local_card, local_gaussian_card
from tff_textpriv.privacy.central import CentralDpPlan
from tff_textpriv.privacy.ledger import Entry, Ledger
from tff_textpriv.privacy.local import LdpPlan
from tff_textpriv.privacy.local_gaussian import LocalGaussianPlan
from tff_textpriv.privacy.mechanism import ADD_OR_REMOVE_ONE

JSON_NAME = 'privacy_card.json'
MARKDOWN_NAME = 'privacy_card.md'
NO_GUARANTEE = 'no formal guarantee'

Plan = CentralDpPlan | LdpPlan | LocalGaussianPlan

_CENTRAL_THREAT_MODEL = (
  'Central differential privacy: a trusted aggregator sees the clipped updates, adds '
  'the noise and keeps only the noisy result. The guarantee is against everyone who '
  'sees what is released afterwards, every intermediate model included; it is not '
  'against the aggregator.'
)
_LOCAL_THREAT_MODEL = (
  'Local differential privacy: users randomize their reports themselves, so that the '
  'guarantee also holds against whoever collects them. It is about what a user '
  'reports; that there is a report is not hidden.'
)
_NO_THREAT_MODEL = 'None: no mechanism protects the users of this run.'
_RELATIONS = {
  'ADD_OR_REMOVE_ONE': 'adding or removing all the data of one user',
  'REPLACE_ONE': 'replacing all the data of one user by that of another',
}
_NOISE_SOURCES = {
  'seeded': (
    'Seeded: the noise follows from the seed of the run and can be reproduced. Whoever '
    'knows the seed can subtract it, so this is for experiments only.'
  ),
  'system': (
    'System: the generator is seeded by the operating system and cannot be reproduced. '
    'It draws floating-point numbers, whose rounding the guarantee does not cover.'
  ),
}
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


def render_markdown(card: Mapping[str, Any]) -> str:
  """Writes a card as a page of Markdown."""
  blocks = [
    f'# Privacy card: {card["algo"]} on {card["task"]}',
    f'**{card["headline"]}**',
  ]
  if card['reasons']:
    blocks.append(_bullets(card['reasons']))
  blocks += [f'> **Note.** {warning}' for warning in card['warnings']]
  blocks += ['## Who is protected, and from whom', card['threat_model']]
  plan = card['plan']
  if plan is not None:
    if 'truth_table' in plan:
      blocks += _local_blocks(plan, local_card.tables(plan, card['delta']))
    elif 'clip_norm' in plan:
      blocks += _local_blocks(plan, local_gaussian_card.tables(plan, card['delta']))
    else:
      blocks += _central_blocks(plan)
  blocks += [
    '## Accounting',
    _table(
      ('accountant', f'epsilon at delta {card["delta"]:g}', 'note'),
      [
        (name.upper(), _figure(row['epsilon']), row['note'])
        for name, row in card['accounting'].items()
      ],
    ),
  ]
  blocks += ['## Ledger', _ledger_table(card['ledger'])]
  blocks += ['## What the figure does not cover', _bullets(card['not_covered'])]
  if card['facts']:
    rows = [(name, str(value)) for name, value in card['facts'].items()]
    blocks += ['## About the run', _table(('fact', 'value'), rows)]
  return '\n\n'.join(blocks) + '\n'


def _central_blocks(plan: Mapping[str, Any]) -> list[str]:
  return [
    f'Unit of privacy: one **{plan["unit"]}**. Two data sets are neighbours if they '
    f'differ by {_RELATIONS[plan["neighbouring_relation"]]}.',
    '## Mechanism',
    plan['mechanism'],
    _table(('setting', 'value'), _plan_rows(plan)),
    plan['sampling_note'],
    plan['size_note'],
    f'Noise source. {plan["noise_source_note"]}',
  ]


def _local_blocks(plan: Mapping[str, Any], tables: Sequence[Any]) -> list[str]:
  blocks = [
    f'Unit of privacy: one **{plan["unit"]}**. Any data may stand in place of any other.',
    '## Mechanism',
    plan['mechanism'],
    plan['sampling_note'],
    f'Noise source. {plan["noise_source_note"]}',
  ]
  for title, header, rows in tables:
    cells = [[c if isinstance(c, str) else _figure(c) for c in row] for row in rows]
    blocks += [f'## {title}', _table(header, cells)]
  return blocks


def write(card: Mapping[str, Any], folder: str | pathlib.Path) -> None:
  """Writes `privacy_card.json` and `privacy_card.md`, each atomically."""
  text = json.dumps(card, indent=2, allow_nan=False) + '\n'
  files.write_atomically(pathlib.Path(folder, JSON_NAME), text)
  files.write_atomically(pathlib.Path(folder, MARKDOWN_NAME), render_markdown(card))


def _no_guarantee_reasons(ledger: Ledger, plan: Plan | None) -> list[str]:
  """Returns why nothing can be claimed; a run that charges nothing claims nothing."""
  reasons = list(ledger.no_guarantee_reasons)
  if not reasons and plan is not None and plan.no_guarantee_reason is not None:
    reasons.append(plan.no_guarantee_reason)
  private = (ledger_lib.CENTRAL, ledger_lib.LOCAL)
  if plan is None and all(entry.kind not in private for entry in ledger.entries):
    reasons.append('the algorithm has no privacy mechanism')
  return reasons


def _headline(epsilon: float, delta: float, plan: Plan | None) -> str:
  if epsilon == math.inf:
    return NO_GUARANTEE.capitalize()
  if isinstance(plan, LdpPlan):
    return local_card.headline(plan, _figure(epsilon))
  if isinstance(plan, LocalGaussianPlan):
    return local_gaussian_card.headline(plan, _figure(epsilon))
  whose = ' of the accounted deployment' if plan is not None and plan.is_scaled else ''
  return f'({_figure(epsilon)}, {delta:g})-differential privacy for every user{whose}'


def _figure(epsilon: float | None) -> str:
  """Writes an epsilon with three decimals, rounded up as a bound must be."""
  if epsilon is None:
    return '-'
  return f'{math.ceil(round(epsilon * 1000, 6)) / 1000:,.3f}'


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
    parts.append(_CENTRAL_THREAT_MODEL)
  if any(entry.kind == ledger_lib.LOCAL for entry in ledger.entries):
    parts.append(_LOCAL_THREAT_MODEL)
  return ' '.join(parts) or _NO_THREAT_MODEL


def _describe_plan(plan: Plan, ledger: Ledger) -> dict[str, Any]:
  """Returns the plan's numbers and the sentences that explain them."""
  if isinstance(plan, LdpPlan):
    return local_card.describe(plan, ledger)
  if isinstance(plan, LocalGaussianPlan):
    return local_gaussian_card.describe(plan, ledger)
  return {
    'unit': plan.unit,
    'neighbouring_relation': plan.neighbouring_relation.name,
    'mechanism': _mechanism_note(plan),
    'clip': plan.clip if math.isfinite(plan.clip) else 'inf',
    'noise_multiplier': plan.noise_multiplier,
    'update_noise_multiplier': plan.update_noise_multiplier,
    'count_noise_multiplier': plan.adaptive and plan.adaptive.count_noise_multiplier,
    'sampling': plan.sampling,
    'sampling_note': _sampling_note(plan),
    'accounted_population': plan.population,
    'accounted_cohort': plan.cohort,
    'simulated_population': plan.simulated_population,
    'simulated_cohort': plan.simulated_cohort,
    'noise_scale': plan.scale,
    'size_note': _size_note(plan),
    'rounds_done': sum(
      entry.count for entry in ledger.entries if entry.mechanism == plan.mechanism
    ),
    'rounds_planned': plan.rounds,
    'budget_epsilon': plan.budget_epsilon,
    'noise_source': plan.noise_source,
    'noise_source_note': _NOISE_SOURCES[plan.noise_source],
  }


def _mechanism_note(plan: CentralDpPlan) -> str:
  if not math.isfinite(plan.clip):
    return 'The sum of the updates of a cohort, neither clipped nor noised.'
  clip = f"Each user's update is clipped to an L2 norm of {plan.clip:g}"
  if plan.adaptive is not None:
    clip += (
      f' at first; the norm then follows the {plan.adaptive.quantile:g} quantile of '
      "the updates' norms by noisy counts, which take their share of the noise multiplier"
    )
  if plan.noise_multiplier == 0:
    return f'{clip}. No noise is added.'
  return (
    f'{clip}. Gaussian noise of standard deviation noise multiplier x clip is added to '
    'the sum over a cohort, and the sum is divided by the (expected) size of the '
    'cohort, a constant.'
  )


def _sampling_note(plan: CentralDpPlan) -> str:
  if plan.neighbouring_relation is ADD_OR_REMOVE_ONE:
    return (
      'Sampling. Poisson: each user joins a round independently, with probability '
      f'{plan.cohort / plan.population:.4g}. Accounted as the Poisson-sampled Gaussian '
      'mechanism.'
    )
  return (
    f'Sampling. Fixed size: exactly {plan.cohort:,} users join a round, drawn without '
    'replacement. Accounted as that, under replacement of one user. A replaced user '
    'moves the sum by up to twice the clip norm, so that the noise counts half.'
  )


def _size_note(plan: CentralDpPlan) -> str:
  if not plan.is_scaled:
    return 'Sizes. The accounted sizes are those of the run itself.'
  return (
    '**Sizes.** The figure is that of a deployment of the accounted size: '
    f'{plan.population:,} users, {plan.cohort:,} per round. The simulation had '
    f'{plan.simulated_population:,} users, {plan.simulated_cohort:,} per round, and '
    f'added noise scaled by {plan.scale:.4g} (simulated over accounted cohort) to show '
    'the utility of that deployment. The simulation does not itself carry the guarantee.'
  )


def _describe_entry(entry: Entry) -> dict[str, Any]:
  """Returns an entry and what it costs in words."""
  cost = {
    ledger_lib.CENTRAL: 'composed by the accountant',
    ledger_lib.LOCAL: _local_cost(entry),
    ledger_lib.POST_PROCESSING: '0 (post-processing)',
    ledger_lib.NO_GUARANTEE: NO_GUARANTEE,
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


def _plan_rows(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
  """Returns the rows of the table of a plan's numbers."""
  rows = [
    ('clip', f'{plan["clip"]}'),
    ('noise multiplier', f'{plan["noise_multiplier"]:.4g}'),
  ]
  if plan['count_noise_multiplier'] is not None:
    rows += [
      ('... of the update', f'{plan["update_noise_multiplier"]:.4g}'),
      ('... of the clipping counts', f'{plan["count_noise_multiplier"]:.4g}'),
    ]
  rows += [
    ('rounds done', f'{plan["rounds_done"]:,}'),
    ('rounds planned', f'{plan["rounds_planned"]:,}'),
    ('accounted users', f'{plan["accounted_population"]:,}'),
    ('accounted users per round', f'{plan["accounted_cohort"]:,}'),
    ('simulated users', f'{plan["simulated_population"]:,}'),
    ('simulated users per round', f'{plan["simulated_cohort"]:,}'),
  ]
  if plan['budget_epsilon'] is not None:
    rows.append(('budget: stop before epsilon exceeds', f'{plan["budget_epsilon"]:g}'))
  return rows


def _ledger_table(entries: Sequence[Mapping[str, Any]]) -> str:
  if not entries:
    return 'Nothing has been released yet.'
  columns = ('name', 'users', 'count', 'cost', 'description')
  return _table(
    ('entry', 'users', 'times', 'cost', 'what'),
    [tuple(str(entry[column]) for column in columns) for entry in entries],
  )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
  lines = [header, ['---'] * len(header), *rows]
  escaped = [[cell.replace('|', '\\|') for cell in line] for line in lines]
  return '\n'.join('| ' + ' | '.join(line) + ' |' for line in escaped)


def _bullets(sentences: Sequence[str]) -> str:
  return '\n'.join(f'- {sentence}' for sentence in sentences)
