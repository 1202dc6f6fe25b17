"""The best of several runs as one release with one promise.

The number of runs is drawn at random, and each run takes one of the configurations at
random. What is released is the run with the best validation figure, and nothing else:
neither the other runs nor how many there were. Then the choice costs little more than
one run (Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential Privacy",
2022, theorem 2; `RepeatAndSelectDpEvent` of dp_accounting).
"""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting import dp_event

from tff_textpriv import files, metrics, run_folder
from tff_textpriv.experiments import sweep_grid, sweep_table
from tff_textpriv.models import usage
from tff_textpriv.privacy import accountants, card, card_blocks, ledger_entries
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.ledger import Ledger
from tff_textpriv.randomness import Stream
from tff_textpriv.training import journal, secret

SELECTED = 'selected'
# What of the chosen run is copied: the model and what it needs to be used.
_RELEASED = (run_folder.CONFIG, run_folder.MODEL, usage.FILE)
_WORDS = ('tokenizers', 'vocabulary.txt', 'vectors.txt')
# The share of delta for more runs than are counted as imprecisely drawn.
_TAIL = 1e-3
_MOST_RUNS = 1_000_000
_DECIDING = [*metrics.UTILITIES, metrics.METRICS['token_perplexity']]
_NOT_COVERED = (
  'Only the chosen model is covered. The other runs, their figures and models, and how '
  'many runs there were, are not: whoever publishes one of them has no guarantee.',
  'The validation figures that decided are exact. They are of users who train in none '
  'of the runs; the choice depends on these users, and no noise covers that.',
)


class SelectionError(ValueError):
  """These runs cannot be chosen from under one promise."""


@dataclasses.dataclass(frozen=True)
class Repetitions:
  """The number of runs: a negative binomial distribution without 0.

  Attributes:
    mean: The mean number of runs, more than 1.
    shape: Above 0; 1 is the geometric distribution. Less has a longer tail and costs less.
  """

  mean: float
  shape: float = 1.0

  def log_probabilities(self, most: int) -> np.ndarray:
    """Returns the logarithms of the probabilities of 1 to `most` runs.

    P(k) is in proportion to (1 - gamma)^k prod_{l < k} (l + shape) / (l + 1).
    """
    gamma = self._gamma()
    numbers = np.arange(most)
    steps = np.log1p(-gamma) + np.log(numbers + self.shape) - np.log(numbers + 1)
    return np.cumsum(steps) - np.log(gamma**-self.shape - 1)

  def draw(self, stream: Stream) -> int:
    """Draws the number of runs."""
    share = stream.generator('number of runs').random()
    return self._first_beyond(share)

  def quantile(self, tail: float) -> int:
    """Returns a number of runs that is exceeded with this probability at most."""
    return self._first_beyond(1 - tail)

  def event(self, one_run: dp_accounting.DpEvent) -> dp_accounting.DpEvent:
    """Returns the event of choosing the best of the runs."""
    return dp_event.RepeatAndSelectDpEvent(one_run, self.mean, self.shape)

  def _first_beyond(self, share: float) -> int:
    most = 1_000
    while most <= _MOST_RUNS:
      passed = np.cumsum(np.exp(self.log_probabilities(most)))
      if passed[-1] >= share:
        return int(np.searchsorted(passed, share)) + 1
      most *= 10
    raise SelectionError(f'more than {_MOST_RUNS:,} runs; choose a smaller mean')

  def _gamma(self) -> float:
    """Solves mean = shape (1 - gamma) / (gamma (1 - gamma^shape)) by bisection."""
    low, high = 0.0, 1.0
    for _ in range(200):
      gamma = (low + high) / 2
      mean = self.shape * (1 - gamma) / (gamma * -np.expm1(self.shape * np.log(gamma)))
      low, high = (low, gamma) if mean < self.mean else (gamma, high)
    return (low + high) / 2


def draw_runs(
  grid: Sequence[sweep_grid.Run], repetitions: Repetitions, folder: pathlib.Path
) -> list[sweep_grid.Run]:
  """Draws how many runs there are, and a configuration for each.

  Both follow from a secret in the sweep's folder, so that a sweep that was stopped goes
  on with the same ones.

  Args:
    grid: The configurations, as runs.
    repetitions: How many runs there may be.
    folder: The sweep's folder.

  Raises:
    SelectionError: If a configuration promises nothing, or noise would not be secret.
  """
  for each in grid:
    if each.config.get('noise_source') != 'system':
      raise SelectionError(
        '--private_selection needs runs with a promise and noise of their own: use a '
        'private algorithm and --noise_source=system'
      )
  if len({each.config['seed'] for each in grid}) > 1:
    raise SelectionError(
      '--private_selection needs one --seed: it decides who trains, and nobody may '
      'train in one run and choose in another'
    )
  if not (folder / secret.FILE).exists() and (folder / _name(1)).exists():
    raise SelectionError(
      f'{folder / secret.FILE} is missing; choose another --sweep_name'
    )
  stream = secret.stream('system', 0, folder)
  secret.keep(stream, folder)
  number = repetitions.draw(stream)
  chosen = stream.generator('configurations').integers(len(grid), size=number)
  return [_renamed(grid[each], _name(i), folder) for i, each in enumerate(chosen, 1)]


def _name(number: int) -> str:
  return f'run_{number}'


def _renamed(run: sweep_grid.Run, name: str, folder: pathlib.Path) -> sweep_grid.Run:
  argv = (*run.argv, f'--experiment_name={name}')
  return dataclasses.replace(run, name=name, folder=folder / name, argv=argv)


def release(
  runs: Sequence[sweep_grid.Run],
  repetitions: Repetitions,
  folder: pathlib.Path,
  command: str,
  metric: str | None = None,
) -> dict[str, Any]:
  """Copies the best of finished runs to `selected`, with a card of the choice.

  Writes the sweep's summary, too, which tells of no other run.

  Args:
    runs: All runs of the selection, finished.
    repetitions: How their number was drawn.
    folder: The sweep's folder.
    command: The command, for the reader to repeat it.
    metric: The figure that decides; by default one that all runs have.

  Returns:
    The card.

  Raises:
    SelectionError: If the runs do not all cost the same, under a promise of one kind.
  """
  best = _best(runs, metric)
  promised = _card(best, runs, repetitions)
  target = folder / SELECTED
  shutil.rmtree(target, ignore_errors=True)
  target.mkdir(parents=True)
  for name in (*_RELEASED, *_WORDS):
    source = best.folder / name
    if source.is_dir():
      shutil.copytree(source, target / name)
    elif source.exists():
      shutil.copy(source, target / name)
  card.write(promised, target)
  results = {'rounds': promised['plan']['rounds_done'], 'epsilon': promised['epsilon']}
  files.write_atomically(target / run_folder.RESULTS, json.dumps(results) + '\n')
  sentences = '\n\n'.join([f'**{promised["headline"]}**', *_NOT_COVERED])
  chosen = sweep_table.label(best.point)
  files.write_atomically(
    folder / 'sweep_summary.md',
    f'# The chosen run: {chosen}\n\n    {command}\n\n{sentences}\n',
  )
  files.write_atomically(folder / 'sweep_summary.csv', f'chosen\n"{chosen}"\n')
  return promised


def _best(runs: Sequence[sweep_grid.Run], metric: str | None) -> sweep_grid.Run:
  """Returns the run with the best validation figure of its model; the first of equals."""
  measured = [_validation(run.folder) for run in runs]
  if metric is not None and not metrics.is_known(metric):
    raise SelectionError(f'--metric={metric}: there is no such figure')
  known = _DECIDING if metric is None else [metrics.find(metric)]
  for figure in known:
    values = [each[figure.validation] for each in measured if figure.validation in each]
    if len(values) == len(runs):
      best = max(values) if figure.higher_is_better else min(values)
      return runs[values.index(best)]
  names = ', '.join(sorted(set.intersection(*map(set, measured))))
  raise SelectionError(f'no figure to choose by; all runs have {names}')


def _validation(folder: pathlib.Path) -> dict[str, float]:
  """Returns the validation figures of the round whose model is the run's result."""
  chosen = run_folder.read_results(folder).get('selected_round')
  figures: dict[str, float] = {}
  for row in run_folder.rounds(folder):
    found = {name: row[name] for name in row if name.startswith(metrics.VALIDATION)}
    if found and (not figures or chosen is None or row['round'] <= chosen):
      figures = found
  return figures


def promise(ledgers: Sequence[Ledger], repetitions: Repetitions) -> float:
  """Returns the epsilon of choosing among runs with these ledgers.

  Random numbers are drawn to the precision of the machine. That adds to each run a bit
  of epsilon and delta, which no accountant composes: counted are as many runs as there
  are but for a thousandth of delta.

  Raises:
    SelectionError: If they do not cost the same, or are not composed by an accountant.
  """
  first = ledgers[0]
  if any(
    ledger.no_guarantee_reasons or _paid(ledger) != _paid(first) for ledger in ledgers
  ):
    raise SelectionError(
      'the runs do not all promise the same: sweep only what changes nothing of their '
      'cost, such as learning rates and clip norms'
    )
  entries = tuple(entry for entry in first.entries if entry.cost is not None)
  if not entries or any(
    entry.kind != ledger_entries.CENTRAL or entry.cost.event() is None
    for entry in entries
    if entry.cost is not None
  ):
    raise SelectionError(
      'the choice is accounted for releases of a trusted server only, and these runs '
      'have reports that users randomized'
    )
  if any(entry.group for entry in entries):
    raise SelectionError('the choice is not accounted for users in groups')
  most = repetitions.quantile(_TAIL * first.delta)
  costs = [(entry.cost, entry.count) for entry in entries if entry.cost is not None]
  left = first.delta * (1 - _TAIL) - most * sum(entry.own_delta for entry in entries)
  if left <= 0:
    raise SelectionError(f'delta {first.delta:g} is too small for so many runs')
  event, relation = ledger_entries.composition(entries)
  try:
    epsilon = accountants.epsilon(repetitions.event(event), left, relation, 'rdp')
  except PrivacyError as error:
    raise SelectionError(str(error)) from error
  return epsilon + most * sum(count * cost.own_epsilon for cost, count in costs)


def _paid(ledger: Ledger) -> list[tuple[Any, ...]]:
  """Returns what a ledger's figure follows from."""
  return [
    (ledger.delta, entry.kind, entry.cost, entry.count, entry.group)
    for entry in ledger.entries
  ]


def _card(
  best: sweep_grid.Run, runs: Sequence[sweep_grid.Run], repetitions: Repetitions
) -> dict[str, Any]:
  """Makes the card of the choice from that of the chosen run."""
  of_run = run_folder.read_object(best.folder / run_folder.CARD)
  cards = [run_folder.read_object(run.folder / run_folder.CARD) for run in runs]
  ledgers = [journal.Journal(run.folder).ledger for run in runs]
  found = [ledger for ledger in ledgers if ledger is not None]
  if len(found) < len(runs) or not all(each.get('of_this_model') for each in cards):
    raise SelectionError(
      'a run’s model carries no guarantee of its own (see its privacy_card.md), so that '
      'the best of them has none'
    )
  epsilon = promise(found, repetitions)
  unit = of_run['plan'].get('unit', 'user')
  return {
    **of_run,
    'headline': (
      f'({card_blocks.figure(epsilon)}, {of_run["delta"]:g})-differential privacy for '
      f'every {unit}, the choice among several runs included'
    ),
    'epsilon': epsilon,
    'accountant': 'rdp',
    'accounting': {
      'rdp': {'epsilon': epsilon, 'note': 'headline, of the choice'},
      'pld': {'epsilon': None, 'note': 'not available: PLD cannot account a choice'},
    },
    'sources': [
      *of_run.get('sources', ()),
      'Choice of the best of a random number of runs: Papernot and Steinke, '
      'Hyperparameter Tuning with Renyi Differential Privacy (2021)',
    ],
    'curve': [],
    'ledger': [
      *of_run['ledger'],
      {
        'kind': ledger_entries.CENTRAL,
        'name': 'choice of the best run',
        'count': 1,
        'cost': 'composed by RDP (repeat and select)',
        'description': (
          'The entries above, a random number of times (negative binomial, mean '
          f'{repetitions.mean:g}, shape {repetitions.shape:g}), of which one is chosen.'
        ),
        'users': 'all',
      },
    ],
    'not_covered': [
      *(each for each in of_run['not_covered'] if 'hyper-parameters' not in each),
      *_NOT_COVERED,
    ],
    'facts': {**of_run['facts'], 'mean_runs': repetitions.mean},
  }
