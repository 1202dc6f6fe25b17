"""Planning reports behind a shuffler: their local epsilon, and what is left of it.

Users take turns, each with one report per round in which it takes part. Of the epsilon of
the run, that of a report and the rounds, two give the third, for cohorts of a given size.
"""

from tff_textpriv.privacy import participation, planning, randomized_response, shuffling
from tff_textpriv.privacy.costs import REPLACE_ONE
from tff_textpriv.settings import IncompatibleSettingsError

_SAMPLING = 'separated'
_MOST_PARTICIPATIONS = 1_000


def solve(question: planning.Question) -> planning.Solution:
  """Solves for what is left out of a question that is planned by reports.

  Raises:
    IncompatibleSettingsError: It is the cohort: a larger one hides better, but its users
      come back sooner, so that there is no largest or smallest one.
  """
  unknown, target = question.unknown, question.epsilon
  if question.cohort is None:
    raise IncompatibleSettingsError(
      'reports behind a shuffler are planned for a given --cohort: larger ones hide '
      'better, but users come back sooner'
    )
  cohort = question.cohort
  crowd = shuffling.Crowd(_SAMPLING, question.population, cohort)
  separation = question.population // cohort

  def spends(report: float, times: int) -> float:
    reports, delta = crowd.counted_on(times, question.delta)
    return shuffling.epsilon_of_reports(report, reports, times, delta)

  report, rounds = question.report_epsilon or 0.0, question.rounds or 1
  if target is not None and unknown == 'rounds':
    rounds = separation * planning.largest(
      lambda times: spends(report, times) <= target, _MOST_PARTICIPATIONS
    )
  times = participation.most_participations(rounds, separation)
  if target is not None and unknown == planning.REPORT:
    reports, delta = crowd.counted_on(times, question.delta)
    report = shuffling.local_epsilon_for(target, reports, times, delta)
  return planning.Solution(
    'shuffling',
    spends(report, times),
    cohort,
    rounds,
    _SAMPLING,
    REPLACE_ONE,
    report_epsilon=report,
    local_epsilon=randomized_response.composed_epsilon(report, times, question.delta),
  )
