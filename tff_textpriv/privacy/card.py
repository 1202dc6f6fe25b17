"""The privacy card: what a run promises, in words and numbers, and what not."""

import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv import files
from tff_textpriv.privacy import card_blocks, card_page, ledger_entries
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.privacy.ledger_entries import Entry
from tff_textpriv.privacy.mechanism import Mechanism

JSON_NAME = 'privacy_card.json'
MARKDOWN_NAME = 'privacy_card.md'
NO_GUARANTEE = 'no formal guarantee'
# Where the curve of epsilon over delta is drawn.
_DELTAS = tuple(10.0**-exponent for exponent in range(2, 13))

_LOCAL_THREAT_MODEL = (
  'Local differential privacy: users randomize their reports themselves, so that the '
  'guarantee also holds against whoever collects them. It is about what a user '
  'reports; that there is a report is not hidden.'
)
_CHOICE = (
  'Which round’s model is the result was chosen by exact figures on the {}: the model '
  'depends on them, and no noise covers that.'
)
_TRAINING_METRICS = (
  'Training metrics of each round (loss, accuracy, numbers of users, of examples and of '
  'clients that were left out) are exact and not private: look at them in an experiment, '
  'do not publish them about real users.'
)
_NOT_COVERED = (
  'Metrics on evaluation users are exact too. These users take no part in training.',
  'The names of classes, and which there are, are those of the data; they are a part of '
  'a classifier.',
  'Choosing hyper-parameters: every further run on the same users spends again, and '
  'its cost is in no ledger but its own.',
)


def privacy_card(
  ledger: Ledger,
  promised: Mechanism,
  *,
  task: str,
  algo: str,
  facts: Mapping[str, Any],
  user_note: str | None = None,
  sent: Sequence[tuple[str, int]] = (),
  chosen_on: str | None = None,
) -> dict[str, Any]:
  """Makes the card of a run, as a dictionary that JSON can hold.

  Args:
    ledger: What the run has spent.
    promised: Its mechanism.
    task: Name of the task.
    algo: Name of the algorithm.
    facts: What else the reader should know, such as the tokenizer's origin.
    user_note: Whom a figure is about, if its users are not people.
    sent: The names and bytes of everything that a client sends in a round.
    chosen_on: Whose figures decided which round's model is the result, if any's did.

  Returns:
    The card. Without a guarantee its `epsilon` is `None` and `reasons` say why.
  """
  reasons = list(ledger.no_guarantee_reasons)
  if not reasons and promised.no_guarantee_reason is not None:
    reasons.append(promised.no_guarantee_reason)
  epsilon = None if reasons else ledger.epsilon()
  # Under a local promise there are none.
  metrics = [] if promised.is_local_promise else [_TRAINING_METRICS]
  choice = [] if chosen_on is None else [_CHOICE.format(chosen_on)]
  notes = [] if user_note is None or reasons else [user_note]
  return {
    'task': task,
    'algo': algo,
    'headline': (
      NO_GUARANTEE.capitalize()
      if epsilon is None
      else promised.qualified(promised.headline(card_blocks.figure(epsilon)))
    ),
    'formal_guarantee': not reasons,
    # Whether the model itself carries the figure, and not a deployment or experiment.
    'of_this_model': not reasons
    and not promised.is_scaled
    and promised.noise_source == 'system',
    'reasons': reasons,
    'epsilon': epsilon,
    'delta': ledger.delta,
    'accountant': ledger.accountant,
    'accounting': {
      name: _accounting(ledger, name, bool(reasons)) for name in promised.accountants
    },
    'sources': [] if reasons else _sources(ledger),
    'curve': _curve(ledger, bool(reasons)),
    'promise': _promise(ledger, promised),
    'threat_model': _threat_model(ledger, promised),
    'plan': promised.describe(ledger),
    'blocks': promised.blocks(ledger),
    'warnings': [*promised.warnings, *notes],
    'ledger': [_describe_entry(entry) for entry in ledger.entries],
    'leaves_device': [
      {
        'name': name,
        'bytes': size,
        'covered': not reasons and name in promised.covered,
      }
      for name, size in sent
    ],
    'not_covered': [*metrics, *_NOT_COVERED, *promised.not_covered, *choice],
    'facts': dict(facts),
  }


def write(card: Mapping[str, Any], folder: str | pathlib.Path) -> None:
  """Writes `privacy_card.json` and `privacy_card.md`, each atomically."""
  text = json.dumps(card, indent=2, allow_nan=False) + '\n'
  files.write_atomically(pathlib.Path(folder, JSON_NAME), text)
  files.write_atomically(pathlib.Path(folder, MARKDOWN_NAME), card_page.render(card))


def _accounting(ledger: Ledger, accountant: str, unclaimed: bool) -> dict[str, Any]:
  """Returns the figure of one accountant, or why there is none."""
  if unclaimed:
    return {'epsilon': None, 'note': NO_GUARANTEE}
  if not ledger.supports(accountant):
    note = f'not available: {accountant.upper()} cannot account cohorts of a fixed size'
    return {'epsilon': None, 'note': note}
  note = 'headline' if accountant == ledger.accountant else 'for comparison'
  return {'epsilon': ledger.epsilon(accountant), 'note': note}


def _sources(ledger: Ledger) -> list[str]:
  """Returns who proved what the accounting rests on, each once."""
  sources = [entry.cost.source for entry in ledger.entries if entry.cost is not None]
  return list(dict.fromkeys(filter(None, sources)))


def _curve(ledger: Ledger, unclaimed: bool) -> list[dict[str, float]]:
  """Returns epsilon at other deltas, too: all these hold at once."""
  if unclaimed:
    return []
  points = [(delta, ledger.epsilon(delta=delta)) for delta in _DELTAS]
  return [
    {'delta': delta, 'epsilon': epsilon}
    for delta, epsilon in points
    if math.isfinite(epsilon)
  ]


def _promise(ledger: Ledger, promised: Mechanism) -> dict[str, str]:
  """Says what the figure is of, in few words and in sentences."""
  words, explanation = promised.promise
  if _has_other_reports(ledger):
    words += ', with local reports'
    explanation += (
      ' What users reported locally for the tokenizer has been added, although it is '
      'about other neighbours: data that stand in place of others, not users who are '
      'added or removed.'
    )
  return {'label': f'{words}, delta {ledger.delta:g}', 'explanation': explanation}


def _threat_model(ledger: Ledger, promised: Mechanism) -> str:
  """Says who is protected from whom, by the mechanism and by other reports of users."""
  other = [_LOCAL_THREAT_MODEL] if _has_other_reports(ledger) else []
  return ' '.join([promised.threat_model, *other])


def _has_other_reports(ledger: Ledger) -> bool:
  """Tells whether users have sent randomized reports beside those of the mechanism."""
  return any(
    entry.kind == ledger_entries.LOCAL and not entry.by_user for entry in ledger.entries
  )


def _describe_entry(entry: Entry) -> dict[str, Any]:
  """Returns an entry and what it costs in words."""
  if entry.cost is not None:
    cost = entry.cost.in_words(entry.count)
  elif entry.kind == ledger_entries.POST_PROCESSING:
    cost = '0 (post-processing)'
  else:
    cost = NO_GUARANTEE
  return {
    'kind': entry.kind,
    'name': entry.name,
    'count': entry.count,
    'cost': cost,
    'description': entry.description,
    'users': entry.group or 'all',
  }
