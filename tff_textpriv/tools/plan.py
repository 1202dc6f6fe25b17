"""Plans a private deployment: give three of four, get the fourth.

  python -m tff_textpriv.tools.plan --epsilon=2 --delta=1e-6 \
    --population=10000000 --cohort=20000 --rounds=5000

solves for the noise multiplier. Whichever one of --epsilon, --noise_multiplier,
--cohort and --rounds is left out is the one that is solved for.

  python -m tff_textpriv.tools.plan --compare --population=1000000 --cohort=5000 \
    --rounds=300 --delta=1e-7 --plot=trust.png

shows, for one deployment, how much noise each way of keeping a promise needs, from a
trusted server to nobody at all.
"""

import dataclasses
import json
import math

from tff_textpriv import flags
from tff_textpriv.iterative_processes import registry
from tff_textpriv.privacy import comparison, planning
from tff_textpriv.privacy.correlated_cost import BandedRounds
from tff_textpriv.privacy.costs import SAMPLINGS, SampledGaussian
from tff_textpriv.settings import (
  IncompatibleSettingsError,
  Settings,
  SettingsError,
  setting,
)

DESCRIPTION = (
  'Solves for whichever one of --epsilon, --noise_multiplier, --cohort and --rounds is '
  'left out, with RDP and PLD accounting side by side, and draws the trade-off. With '
  '--compare, shows the noise of all trust models at one deployment.'
)
PICTURES = ('.png', '.pdf', '.svg')


@dataclasses.dataclass(frozen=True)
class PlanSettings(Settings):
  """Flags of the planning tool."""

  epsilon: float | None = setting(
    None, 'Epsilon of the whole run.', above=0, below=math.inf
  )
  noise_multiplier: float | None = setting(
    None, 'Noise on the sum of updates, over the clip norm.', above=0, below=math.inf
  )
  cohort: int | None = setting(None, '(Expected) users per round.', low=1)
  rounds: int | None = setting(None, 'Number of rounds.', low=1)
  population: int = setting(10_000_000, 'Users that may be sampled.', low=1)
  delta: float = setting(1e-6, 'Delta of the guarantee.', above=0, below=1)
  sampling: str = setting(
    'poisson',
    'How cohorts are drawn: each user by chance (poisson), or a fixed number of users. '
    'Those of dp_ftrl are not drawn, or from one slot after the other (banded_poisson).',
    choices=(*SAMPLINGS, BandedRounds.sampling),
  )
  algo: str = setting(
    'dp_fed_avg',
    'The algorithm whose mechanism is planned.',
    choices=tuple(registry.ALGORITHMS),
  )
  compare: bool = setting(
    False,
    'Compare all trust models at --population, --cohort, --rounds and --delta, over '
    'epsilon, in place of solving for something.',
  )
  num_coordinates: int = setting(
    1_000_000, 'The size of an update, with --compare.', low=1
  )
  format: str = setting('text', 'Form of the answer.', choices=('text', 'json'))
  plot: str | None = setting(
    None, 'File (.png, .pdf or .svg) to draw the trade-off in.'
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.plot is not None and not self.plot.endswith(PICTURES):
      raise SettingsError(
        'plot', self.plot, f'must end in one of {", ".join(PICTURES)}'
      )


def main(settings: PlanSettings) -> int:
  """Prints the solution by each accountant that can give one; returns 0."""
  if settings.compare:
    return _compare(settings)
  question = planning.Question(
    **{
      field.name: getattr(settings, field.name)
      for field in dataclasses.fields(planning.Question)
    }
  )
  unknown = question.unknown
  solutions = registry.ALGORITHMS[settings.algo].privacy.solve(question)
  if settings.format == 'json':
    print(json.dumps(as_json(settings, unknown, solutions), indent=2))
  else:
    print(as_text(settings, unknown, solutions))
  if settings.plot is not None:
    costs = {
      solution.accountant: solution.cost
      for solution in solutions
      if isinstance(solution.cost, SampledGaussian)
    }
    if not costs:
      raise SettingsError(
        'plot', settings.plot, f'there is no picture of {settings.algo}'
      )
    # Help and figures need no matplotlib, which takes a while to import.
    from tff_textpriv.reports import plan_plot

    plan_plot.draw(
      settings.plot,
      costs,
      {solution.accountant: solution.rounds for solution in solutions},
      settings.delta,
    )
  return 0


def _compare(settings: PlanSettings) -> int:
  """Prints the noise of all trust models, and draws it; returns 0."""
  if settings.cohort is None or settings.rounds is None:
    raise IncompatibleSettingsError('--compare needs --cohort and --rounds')
  if settings.epsilon is not None or settings.noise_multiplier is not None:
    raise IncompatibleSettingsError(
      '--compare is over all epsilons: leave out --epsilon and --noise_multiplier'
    )
  if settings.cohort > settings.population:
    raise IncompatibleSettingsError(
      f'--cohort={settings.cohort} is larger than --population={settings.population}'
    )
  place = comparison.Place(
    settings.population,
    settings.cohort,
    settings.rounds,
    settings.delta,
    settings.num_coordinates,
  )
  noises = {
    model.name: [comparison.noise(model, place, one) for one in comparison.EPSILONS]
    for model in comparison.TRUST_MODELS
  }
  title = (
    f'{place.population:,} users, {place.cohort:,} per round, {place.rounds:,} rounds, '
    f'delta {place.delta:g}'
  )
  if settings.format == 'json':
    found = {'epsilons': comparison.EPSILONS, 'noise_on_the_mean': noises}
    print(json.dumps(found, indent=2))
  else:
    print(_comparison_text(title, noises))
  if settings.plot is not None:
    from tff_textpriv.reports import comparison_plot

    comparison_plot.draw(settings.plot, title, comparison.EPSILONS, noises)
  return 0


def _comparison_text(title: str, noises: dict[str, list[float | None]]) -> str:
  """Writes the comparison as a table."""
  width = max(map(len, noises))
  lines = [
    title,
    'noise on the mean of a round, in clip norms; correlated noise by what is left of it '
    'in sums',
    '',
    f'{"epsilon":<{width}}' + ''.join(f'{one:>10g}' for one in comparison.EPSILONS),
  ]
  for model in comparison.TRUST_MODELS:
    cells = ''.join(
      f'{"-":>10}' if value is None else f'{value:>10.3g}'
      for value in noises[model.name]
    )
    lines.append(f'{model.name:<{width}}{cells}   trusts {model.trust}')
  return '\n'.join(lines)


def as_json(
  settings: PlanSettings, unknown: str, solutions: list[planning.Solution]
) -> dict[str, object]:
  """Returns the answer as a dictionary."""
  return {
    'solved_for': unknown,
    'population': settings.population,
    'delta': settings.delta,
    'sampling': solutions[0].cost.sampling,
    'solutions': {
      solution.accountant: {name: getattr(solution, name) for name in planning.UNKNOWNS}
      for solution in solutions
    },
  }


def as_text(
  settings: PlanSettings, unknown: str, solutions: list[planning.Solution]
) -> str:
  """Writes the answer as a small table."""
  formats = {
    'epsilon': '{:.4f}',
    'noise_multiplier': '{:.4f}',
    'cohort': '{:,}',
    'rounds': '{:,}',
  }
  cost = solutions[0].cost
  lines = [
    f'population {settings.population:,}, delta {settings.delta:g}, '
    f'{cost.sampling} cohorts ({cost.relation.name.lower().replace("_", " ")})',
    '',
    ' ' * 18 + ''.join(f'{s.accountant.upper():>14}' for s in solutions),
  ]
  for name in planning.UNKNOWNS:
    cells = ''.join(
      f'{formats[name].format(getattr(solution, name)):>14}' for solution in solutions
    )
    mark = '   <- solved for' if name == unknown else ''
    lines.append(f'{name.replace("_", " "):<18}{cells}{mark}')
  shares = ''.join(f'{s.noise_multiplier / s.cohort:>14.3g}' for s in solutions)
  lines += [f'{"noise on the mean":<18}{shares}   (stddev per clip norm)']
  if len(solutions) == 1:
    lines += ['', 'PLD: not available, as it cannot account cohorts of a fixed size.']
  if settings.delta >= 1 / settings.population:
    lines += [
      '',
      f'A run would refuse to claim this: delta must be below 1/{settings.population:,}, or '
      'publishing the data of one random user would satisfy it.',
    ]
  return '\n'.join(lines)


if __name__ == '__main__':
  flags.run(main, PlanSettings, DESCRIPTION)
