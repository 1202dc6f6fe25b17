"""Compares runs on the same data: the figure that counts, and the Pareto front."""

import dataclasses
import os
import re
import statistics
from collections.abc import Callable, Iterable, Sequence

from tff_textpriv import metrics
from tff_textpriv.reports import attacks, promises, runs


@dataclasses.dataclass(frozen=True)
class Variant:
  """Finished runs that differ in nothing but the seed: one point of a comparison.

  Attributes:
    name: Their name, or what their names have in common.
    runs: The runs.
    values: Their utility.
    promise: The weakest promise among them.
    bytes_up: Bytes that a client sends in a round, where known.
    leakage: The highest recall of an attack on them, where there was one.
  """

  name: str
  runs: tuple[runs.Run, ...]
  values: tuple[float, ...]
  promise: promises.Promise
  bytes_up: float | None
  leakage: float | None

  @property
  def utility(self) -> float:
    """The mean over the runs."""
    return statistics.fmean(self.values)


@dataclasses.dataclass(frozen=True)
class Comparison:
  """All runs of one task on the same data.

  Attributes:
    title: Task and data.
    runs: The runs, finished or not.
    utility: The figure that counts.
    variants: The finished runs, the best first.
    front: The places of the variants that no other one beats in everything.
    criteria: What was compared for the front.
  """

  title: str
  runs: tuple[runs.Run, ...]
  utility: metrics.Metric
  variants: tuple[Variant, ...]
  front: frozenset[int]
  criteria: tuple[str, ...]

  @property
  def differing(self) -> list[str]:
    """The settings that are not the same in all runs."""
    names = dict.fromkeys(name for run in self.runs for name in run.config)
    return [
      name for name in names if len({shown_setting(run, name) for run in self.runs}) > 1
    ]


def shown_setting(run: runs.Run, name: str) -> str:
  """Writes a setting of a run; a dash where the run has no such setting."""
  if name not in run.config:
    return '–'
  value = run.config[name]
  if value is None:
    return 'not set'
  return runs.without_folders(value) or 'empty'


def compare(
  all_runs: Sequence[runs.Run], scoreboards: Sequence[attacks.Scoreboard]
) -> list[Comparison]:
  """Sorts runs by task and data and compares those that belong together.

  Args:
    all_runs: The runs; those without settings belong nowhere.
    scoreboards: Attacks, from which leakage is known.
  """
  by_data: dict[str, list[runs.Run]] = {}
  for run in all_runs:
    if run.config:
      by_data.setdefault(_title(run), []).append(run)
  return [_compare(title, group, scoreboards) for title, group in by_data.items()]


def _title(run: runs.Run) -> str:
  data = run.config.get('data')
  return run.task if data is None else f'{run.task} ({runs.without_folders(data)})'


def _compare(
  title: str, group: Sequence[runs.Run], scoreboards: Sequence[attacks.Scoreboard]
) -> Comparison:
  finished = [run for run in group if run.is_finished]
  utility = _choose_utility(group)
  variants = sorted(
    _variants(finished, utility, scoreboards),
    key=lambda variant: variant.utility,
    reverse=utility.higher_is_better,
  )
  front, criteria = _front(variants, utility)
  return Comparison(title, tuple(group), utility, tuple(variants), front, criteria)


def _choose_utility(group: Sequence[runs.Run]) -> metrics.Metric:
  """Returns the figure that most runs have, of several the preferred one.

  Where no run has ended, it is the one that most have followed on validation users.
  """

  def count(utility: metrics.Metric) -> tuple[int, int]:
    figures = [metrics.number(run.results.get(utility.test)) for run in group]
    followed = sum(bool(run.curves.get(utility.validation)) for run in group)
    return len(figures) - figures.count(None), followed

  # A closed vocabulary's perplexity leaves out the words that it does not know.
  closed = any(run.config.get('tokenizer') == 'word' for run in group)
  usable = [one for one in metrics.UTILITIES if not (closed and one.is_perplexity)]
  return max(usable, key=count)


def _variants(
  finished: Iterable[runs.Run],
  utility: metrics.Metric,
  scoreboards: Sequence[attacks.Scoreboard],
) -> list[Variant]:
  same: dict[str, list[runs.Run]] = {}
  for run in finished:
    if metrics.number(run.results.get(utility.test)) is not None:
      settings = {key: value for key, value in run.config.items() if key != 'seed'}
      same.setdefault(repr(sorted(settings.items())), []).append(run)
  return [_variant(group, utility, scoreboards) for group in same.values()]


def _variant(
  group: Sequence[runs.Run],
  utility: metrics.Metric,
  scoreboards: Sequence[attacks.Scoreboard],
) -> Variant:
  all_promises = [promises.read(run.card) for run in group]
  weakest = next(
    (one for one in all_promises if one.epsilon is None),
    max(all_promises, key=lambda one: one.epsilon or 0),
  )
  return Variant(
    name=_common_name([run.name for run in group]),
    runs=tuple(group),
    values=tuple(float(run.results[utility.test]) for run in group),
    promise=weakest,
    bytes_up=_largest(run.bytes_up for run in group),
    leakage=_largest(board.leakage(run) for board in scoreboards for run in group),
  )


def _largest(values: Iterable[float | None]) -> float | None:
  return max((value for value in values if value is not None), default=None)


def _common_name(names: Sequence[str]) -> str:
  """Names runs that differ in the seed by what their names have in common."""
  if len(names) == 1:
    return names[0]
  common = re.sub('[_-]?(seed)?=?[0-9]*$', '', os.path.commonprefix(list(names)))
  return f'{common or names[0]} ({len(names)} seeds)'


def _is_as_good(utility: metrics.Metric, value: float, other: float) -> bool:
  """Tells whether a value is as good as another, as they are printed."""
  return utility.shown(value) == utility.shown(other) or utility.is_as_good(
    value, other
  )


def _front(
  variants: Sequence[Variant], utility: metrics.Metric
) -> tuple[frozenset[int], tuple[str, ...]]:
  """Finds the variants that no other one beats.

  One beats another if it is as good in all criteria and better in one. Bytes and leakage
  are criteria where they are known of all: nothing is assumed about what is not known.
  """
  criteria: dict[str, Callable[[Variant, Variant], bool]] = {
    utility.label: lambda a, b: _is_as_good(utility, a.utility, b.utility),
    'epsilon (of the same promise)': lambda a, b: a.promise.is_at_least(b.promise),
  }
  if all(variant.bytes_up is not None for variant in variants):
    criteria['bytes sent'] = lambda a, b: (a.bytes_up or 0) <= (b.bytes_up or 0)
  if all(variant.leakage is not None for variant in variants):
    criteria['leakage'] = lambda a, b: (a.leakage or 0) <= (b.leakage or 0)

  def beats(a: Variant, b: Variant) -> bool:
    return all(c(a, b) for c in criteria.values()) and not all(
      c(b, a) for c in criteria.values()
    )

  front = frozenset(
    i
    for i, variant in enumerate(variants)
    if not any(beats(other, variant) for other in variants)
  )
  return front, tuple(criteria)
