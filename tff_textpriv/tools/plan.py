"""Plans a private deployment: give three of four, get the fourth.

  python -m tff_textpriv.tools.plan --epsilon=2 --delta=1e-6 \
    --population=10000000 --cohort=20000 --rounds=5000

solves for the noise multiplier. Whichever one of --epsilon, --noise_multiplier,
--cohort and --rounds is left out is the one that is solved for.

  python -m tff_textpriv.tools.plan --compare --population=1000000 --cohort=5000 \
    --rounds=300 --delta=1e-7 --plot=trust.png

shows, for one deployment, how much noise each way of keeping a promise needs, from a
trusted server to nobody at all.

  python -m tff_textpriv.tools.plan --data=posts.csv --user_column=author \
    --text_column=body --label_column=stars

reads how many users there are, and says at which epsilon a model can be expected to learn.
"""

import dataclasses
import json
import math
import sys

from tff_textpriv import flags
from tff_textpriv.iterative_processes import algorithm as algorithm_lib
from tff_textpriv.iterative_processes import registry
from tff_textpriv.privacy import claim_settings, comparison, planning
from tff_textpriv.privacy.correlated_cost import BandedRounds
from tff_textpriv.privacy.costs import SAMPLINGS
from tff_textpriv.privacy.mechanism import MechanismSettings
from tff_textpriv.reports import plan_tables
from tff_textpriv.settings import (
  IncompatibleSettingsError,
  Settings,
  SettingsError,
  setting,
)
from tff_textpriv.tasks import own_outlook

DESCRIPTION = (
  'Solves for whichever one of --epsilon, --noise_multiplier, --cohort and --rounds is '
  'left out, with RDP and PLD accounting side by side, and draws the trade-off. With '
  '--compare, shows the noise of all trust models at one deployment; with --data, what '
  'your own data can carry.'
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
  report_epsilon: float | None = setting(
    None,
    'Local epsilon of a report, for rr_ldp, in place of --noise_multiplier.',
    above=0,
  )
  cohort: int | None = setting(None, '(Expected) users per round.', low=1)
  rounds: int | None = setting(None, 'Number of rounds.', low=1)
  population: int = setting(10_000_000, 'Users that may be sampled.', low=1)
  delta: float | None = setting(
    None,
    'Delta of the guarantee; by default 1e-6, or less where there are more than a hundred '
    'thousand users.',
    above=0,
    below=1,
  )
  sampling: str = setting(
    'poisson',
    'How cohorts are drawn: each user by chance (poisson), or a fixed number of users. '
    'Those of dp_ftrl are not drawn, or from one slot after the other (banded_poisson).',
    choices=(*SAMPLINGS, BandedRounds.sampling),
  )
  algo: str = setting(
    'dp_fed_avg',
    'The algorithm whose mechanism is planned; rr_ldp behind a shuffler.',
    choices=tuple(registry.ALGORITHMS),
  )
  mechanism: str = setting(
    algorithm_lib.OWN_MECHANISM,
    'The mechanism of the algorithm, where it has several, such as distributed of '
    'dp_fed_avg.',
  )
  compare: bool = setting(
    False,
    'Compare all trust models at --population, --cohort, --rounds and --delta, over '
    'epsilon, in place of solving for something.',
  )
  data: str | None = setting(
    None,
    'Your own text, as of the task custom: its users are counted, and it is said at which '
    'epsilon (all of some, or --epsilon) a model can be expected to learn.',
  )
  user_column: str | None = setting(
    None, 'With --data, the column that tells users apart.'
  )
  text_column: str | None = setting(None, 'With --data, the column of texts.')
  label_column: str | None = setting(
    None, 'With --data, the column of labels; without it, a language model is planned.'
  )
  data_dir: str = setting(
    'runs/data', 'With --data, the folder for the converted text.'
  )
  num_coordinates: int = setting(
    1_000_000, 'The size of an update, where it matters: distributed, --compare.', low=1
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

  @property
  def settled_delta(self) -> float:
    """Delta: the one that is asked for, or that of a run which names none."""
    return self.delta or claim_settings.default_delta(self.population)


def main(settings: PlanSettings) -> int:
  """Prints the solution by each accountant that can give one; returns 0."""
  if settings.data is not None:
    return _own_data(settings)
  if settings.compare:
    return _compare(settings)
  privacy = _mechanism_settings(settings)
  names = {field.name for field in dataclasses.fields(settings)}
  given = {
    field.name: getattr(settings, field.name)
    for field in dataclasses.fields(planning.Question)
    if field.name in names
  }
  question = planning.Question(
    strength=privacy.planned_by, **{**given, 'delta': settings.settled_delta}
  )
  solutions = privacy.solve(question)
  if settings.format == 'json':
    print(json.dumps(plan_tables.as_json(question, solutions), indent=2))
  else:
    print(plan_tables.as_text(question, solutions))
  if settings.plot is not None:
    # Help and figures need no matplotlib, which takes a while to import.
    from tff_textpriv.reports import plan_plot

    plan_plot.draw(settings.plot, question, solutions, privacy.solve)
    print(f'written: {settings.plot}', file=sys.stderr)
  return 0


def _mechanism_settings(settings: PlanSettings) -> type[MechanismSettings]:
  """Returns the settings of the mechanism that is planned."""
  choices = registry.ALGORITHMS[settings.algo].choices
  if settings.mechanism not in choices:
    raise SettingsError(
      'mechanism',
      settings.mechanism,
      f'--algo={settings.algo} has {", ".join(choices)}',
    )
  return choices[settings.mechanism].privacy


def _own_data(settings: PlanSettings) -> int:
  """Says what one's own data can carry; returns 0."""
  if settings.plot is not None or settings.noise_multiplier is not None:
    raise IncompatibleSettingsError(
      '--data is read to say what each epsilon gives: leave out --plot and '
      '--noise_multiplier'
    )
  flag_of = {
    **{name: name for name in ('user_column', 'text_column', 'label_column')},
    **{'data': 'data', 'data_dir': 'data_dir'},
    **{'cohort': 'clients_per_round', 'rounds': 'total_rounds'},
  }
  asked = {flag: getattr(settings, name) for name, flag in flag_of.items()}
  given: dict[str, str] = {
    flag: str(value) for flag, value in asked.items() if value is not None
  }
  if settings.label_column is None:
    given['public_data'] = str(settings.data)  # No tokenizer is learnt here.
  epsilons = own_outlook.EPSILONS if settings.epsilon is None else (settings.epsilon,)
  answer = own_outlook.ask(given, epsilons)
  if settings.format == 'json':
    print(json.dumps(dataclasses.asdict(answer), indent=2))
  else:
    print(answer.text)
  return 0


def _compare(settings: PlanSettings) -> int:
  """Prints the noise of all trust models, and draws it; returns 0."""
  if settings.cohort is None or settings.rounds is None:
    raise IncompatibleSettingsError('--compare needs --cohort and --rounds')
  given = (settings.epsilon, settings.noise_multiplier, settings.report_epsilon)
  if any(number is not None for number in given):
    raise IncompatibleSettingsError(
      '--compare is over all epsilons: leave out --epsilon, --noise_multiplier and '
      '--report_epsilon'
    )
  if settings.cohort > settings.population:
    raise IncompatibleSettingsError(
      f'--cohort={settings.cohort} is larger than --population={settings.population}'
    )
  if settings.settled_delta >= 1 / settings.population:
    raise SettingsError(
      'delta',
      settings.delta,
      f'must be below 1/{settings.population:,}: no run would claim it',
    )
  place = comparison.Place(
    settings.population,
    settings.cohort,
    settings.rounds,
    settings.settled_delta,
    settings.num_coordinates,
  )
  noises = comparison.noises(place)
  if settings.format == 'json':
    found = {'epsilons': comparison.EPSILONS, 'noise_on_the_mean': noises}
    print(json.dumps(found, indent=2))
  else:
    print(plan_tables.comparison_text(place, noises))
  if settings.plot is not None:
    from tff_textpriv.reports import comparison_plot

    comparison_plot.draw(settings.plot, str(place), comparison.EPSILONS, noises)
    print(f'written: {settings.plot}', file=sys.stderr)
  return 0


if __name__ == '__main__':
  flags.run(main, PlanSettings, DESCRIPTION)
