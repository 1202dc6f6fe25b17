"""What `tools.plan` has found, as text and as JSON values."""

from collections.abc import Mapping, Sequence
from typing import Any

from tff_textpriv.privacy import comparison, planning

_FORMATS = {
  'epsilon': '{:.4f}',
  'noise_multiplier': '{:.4f}',
  'report_epsilon': '{:.4f}',
  'cohort': '{:,}',
  'rounds': '{:,}',
}
_WIDTH = 18


def as_json(
  question: planning.Question, solutions: Sequence[planning.Solution]
) -> dict[str, Any]:
  """Returns the answer as a dictionary."""
  return {
    'solved_for': question.unknown,
    'population': question.population,
    'delta': question.delta,
    'sampling': solutions[0].sampling,
    'solutions': {
      solution.accountant: {
        name: getattr(solution, name) for name in question.quantities
      }
      | (
        {}
        if solution.local_epsilon is None
        else {'local_epsilon': solution.local_epsilon}
      )
      for solution in solutions
    },
  }


def as_text(question: planning.Question, solutions: Sequence[planning.Solution]) -> str:
  """Writes the answer as a small table."""
  first = solutions[0]
  lines = [
    f'population {question.population:,}, delta {question.delta:g}, '
    f'{first.sampling} cohorts ({first.relation.name.lower().replace("_", " ")})',
    '',
    ' ' * _WIDTH + ''.join(f'{each.accountant.upper():>14}' for each in solutions),
  ]
  for name in question.quantities:
    cells = ''.join(
      f'{_FORMATS[name].format(getattr(each, name)):>14}' for each in solutions
    )
    mark = '   <- solved for' if name == question.unknown else ''
    lines.append(f'{name.replace("_", " "):<{_WIDTH}}{cells}{mark}')
  lines += [_strength(solutions)]
  if question.sampling == 'fixed' and len(solutions) == 1:
    lines += ['', 'PLD: not available, as it cannot account cohorts of a fixed size.']
  if question.delta >= 1 / question.population:
    lines += [
      '',
      f'A run would refuse to claim this: delta must be below 1/{question.population:,}, '
      'or publishing the data of one random user would satisfy it.',
    ]
  return '\n'.join(lines)


def _strength(solutions: Sequence[planning.Solution]) -> str:
  """Writes what the noise amounts to, or what reports cost without a shuffler."""
  if solutions[0].noise_multiplier is None:
    cells = ''.join(f'{each.local_epsilon:>14.4f}' for each in solutions)
    return f'{"local epsilon":<{_WIDTH}}{cells}   (of the run, without a shuffler)'
  cells = ''.join(
    f'{(each.noise_multiplier or 0.0) / each.cohort:>14.3g}' for each in solutions
  )
  return f'{"noise on the mean":<{_WIDTH}}{cells}   (stddev per clip norm)'


def comparison_text(
  place: comparison.Place, noises: Mapping[str, Sequence[float | None]]
) -> str:
  """Writes the comparison of all trust models as a table."""
  width = max(map(len, noises))
  lines = [
    str(place),
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
