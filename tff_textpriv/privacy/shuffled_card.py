"""What a card says of a shuffler, which the headline does not count on."""

from typing import Any

from tff_textpriv.privacy import card_blocks
from tff_textpriv.privacy.local_mechanism import PureReports


def describe(plan: PureReports, rounds: int) -> dict[str, Any] | None:
  """Returns what a user's reports tell whoever sees them only behind a shuffler.

  Args:
    plan: The plan.
    rounds: The rounds in which the user took part.

  Returns:
    The central figure beside the local one, as JSON values; `None` where nothing is
    promised, or nothing was sent.
  """
  if plan.no_guarantee_reason is not None or not rounds:
    return None
  reports, delta = plan.crowd.counted_on(rounds, plan.delta)
  report_epsilon = plan.cost.pure_epsilon(1)
  local = plan.cost.epsilon(rounds, plan.delta)
  epsilon = min(local, plan.shuffled_bound(report_epsilon, reports, rounds, delta))
  return {
    'epsilon': epsilon,
    'delta': plan.delta,
    'local_epsilon': local,
    'report_epsilon': report_epsilon,
    'reports_per_round': reports,
    'rounds': rounds,
    # Not by less than the figures show.
    'gains': card_blocks.figure(epsilon) != card_blocks.figure(local),
  }


def blocks(
  plan: PureReports, numbers: dict[str, Any] | None
) -> list[card_blocks.Block]:
  """Returns what to say of a shuffler, given what `describe` returned."""
  return [] if numbers is None else [_block(plan, numbers)]


def _block(plan: PureReports, numbers: dict[str, Any]) -> card_blocks.Block:
  epsilon, local, report = (
    card_blocks.figure(numbers[name])
    for name in ('epsilon', 'local_epsilon', 'report_epsilon')
  )
  rounds, reports = f'{numbers["rounds"]:,}', f'{numbers["reports_per_round"]:,}'
  if not numbers['gains']:
    text = (
      'A shuffler would add nothing that can be proved here: a report has local epsilon '
      f'{report} in a single round, and {reports} reports per round are too few to hide one '
      f'of them. Against whoever sees only shuffled reports the figure stays {local}.'
    )
  else:
    text = (
      'Against whoever sees only the shuffled reports of each round: epsilon '
      f'**{epsilon}** at delta {plan.delta:g}, for the {plan.unit} with most rounds '
      f'({rounds}); against whoever sees who sent what, {local}. Any data of one '
      f'{plan.unit} may stand in place of any other. A report has local epsilon {report} '
      f'and is mixed with others, {reports} per round in all. {_crowd_note(plan)}'
    )
  return card_blocks.paragraph(
    f'{text} The simulation shuffles nothing and sums the reports: a '
    'deployment needs a shuffler that it trusts, and reports that carry nothing else by '
    'which to tell users apart.',
    title='Behind a shuffler',
  )


def _crowd_note(plan: PureReports) -> str:
  if plan.crowd.always_complete:
    return 'This holds for rounds in which all the planned reports arrive.'
  return (
    f'Rounds are planned with {plan.crowd.cohort:,}; that one of them has fewer than '
    'counted on is so unlikely that it is part of delta, as long as users come and drop '
    'out by chance as planned.'
  )
