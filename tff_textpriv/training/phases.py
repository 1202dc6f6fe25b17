"""The phases of a run: who trains in which rounds, under which privacy plan.

Most algorithms have one phase. `subword_resample` has several, each with its own
tokenizer: it goes on with the same model and users after a switch, or, with the
users split in halves, starts a fresh model on those who took no part before.
"""

import dataclasses
from collections.abc import Sequence

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.privacy import card, local, local_gaussian, plans
from tff_textpriv.runtime import cohorts
from tff_textpriv.training import experiment

ALL_USERS = ''
FIRST_HALF = 'first half'
SECOND_HALF = 'second half'


@dataclasses.dataclass(frozen=True)
class Phase:
  """Rounds of training with one tokenizer.

  Attributes:
    index: The phase's number, from 0.
    rounds_before: The number of rounds of all phases before.
    last_round: The number of its last round, counted over all phases.
    users: The users who may be drawn.
    sampler: What draws them.
    group: Their name in the ledger; empty if they are all users.
    plan: The privacy plan, or `None`. A plan of local privacy depends on the size of the
      model: `for_model` adds it.
    continues: Whether the model goes on from the phase before.
  """

  index: int
  rounds_before: int
  last_round: int
  users: Sequence[str]
  sampler: cohorts.CohortSampler
  group: str
  plan: card.Plan | None
  continues: bool = False


def plan_phases(
  chosen: experiment.Experiment, client_ids: Sequence[str]
) -> list[Phase]:
  """Lays out the phases of an experiment.

  Args:
    chosen: The experiment.
    client_ids: All training users.

  Returns:
    One phase or more, in order.

  Raises:
    SettingsError: If a switch lies outside the run.
  """
  total = chosen.run.total_rounds
  phase_plan = getattr(chosen.algorithm_settings, 'phase_plan', None)
  if phase_plan is None:
    users, group = training_users(chosen, client_ids)
    plan = _plan(chosen, len(users), total, group)
    return [Phase(0, 0, total, users, _sampler(chosen, users), group, plan)]
  switches = _switches(chosen, phase_plan)
  if phase_plan == 'half_split':
    (first_rounds,) = switches
    halves = split_in_halves(client_ids, chosen.run.seed)
    lengths = (first_rounds, total)
    return [
      Phase(
        index,
        sum(lengths[:index]),
        sum(lengths[: index + 1]),
        users,
        _sampler(chosen, users),
        group,
        _plan(chosen, len(users), lengths[index], group),
      )
      for index, (users, group) in enumerate(
        zip(halves, (FIRST_HALF, SECOND_HALF), strict=True)
      )
    ]
  users, group = training_users(chosen, client_ids)
  plan = _plan(chosen, len(users), total, group)
  sampler = _sampler(chosen, users)
  bounds = (0, *switches, total)
  return [
    Phase(
      index, bounds[index], bounds[index + 1], users, sampler, group, plan, index > 0
    )
    for index in range(len(bounds) - 1)
  ]


def for_model(
  phase: Phase, chosen: experiment.Experiment, num_parameters: int
) -> Phase:
  """Adds the privacy plan to a phase whose plan depends on the model's size.

  Args:
    phase: One of `plan_phases`.
    chosen: The experiment.
    num_parameters: The number of trainable parameters of its model.

  Returns:
    The phase with its plan.
  """
  if not isinstance(chosen.privacy_settings, local.LocalPrivacySettings):
    return phase
  plan = local.make_plan(chosen.privacy_settings, num_parameters)
  return dataclasses.replace(phase, plan=plan)


def training_users(
  chosen: experiment.Experiment, client_ids: Sequence[str]
) -> tuple[Sequence[str], str]:
  """Returns the users that `--train_users` names, and their group."""
  if chosen.task_settings.train_users == 'all':
    return client_ids, ALL_USERS
  return split_in_halves(client_ids, chosen.run.seed)[1], SECOND_HALF


def split_in_halves(
  client_ids: Sequence[str], seed: int
) -> tuple[list[str], list[str]]:
  """Deals the users into two halves that have nobody in common."""
  order = randomness.generator(seed, 'halves').permutation(len(client_ids))
  half = len(order) // 2
  return (
    [client_ids[i] for i in sorted(order[:half])],
    [client_ids[i] for i in sorted(order[half:])],
  )


def _switches(chosen: experiment.Experiment, phase_plan: str) -> tuple[int, ...]:
  """Returns the rounds after which the tokenizer changes."""
  rounds = chosen.algorithm_settings.resample_rounds
  total = chosen.run.total_rounds
  if phase_plan == 'half_split':
    if len(rounds) > 1:
      raise settings_lib.SettingsError(
        'resample_rounds',
        rounds,
        'with --phase_plan=half_split, the rounds of the first half’s model: one number',
      )
    return rounds or (total,)
  rounds = rounds or (total // 2,)
  increasing = all(a < b for a, b in zip(rounds, rounds[1:], strict=False))
  if not increasing or rounds[0] < 1 or rounds[-1] >= total:
    raise settings_lib.SettingsError(
      'resample_rounds',
      rounds,
      f'must be increasing rounds from 1 to {total - 1}, before the last of '
      f'--total_rounds={total}',
    )
  return rounds


def _sampler(
  chosen: experiment.Experiment, users: Sequence[str]
) -> cohorts.CohortSampler:
  return cohorts.CohortSampler(
    users, chosen.run.clients_per_round, chosen.run.cohort_sampling, chosen.run.seed
  )


def _plan(
  chosen: experiment.Experiment, population: int, rounds: int, group: str
) -> card.Plan | None:
  """Makes the privacy plan of so many rounds among so many users."""
  privacy = chosen.privacy_settings
  if isinstance(privacy, local_gaussian.LocalGaussianSettings):
    return privacy.plan()
  if privacy is None or isinstance(privacy, local.LocalPrivacySettings):
    return None
  if group != ALL_USERS and privacy.accounted_population is not None:
    # Half of the users of the deployment too.
    privacy = dataclasses.replace(
      privacy, accounted_population=privacy.accounted_population // 2
    )
  return plans.make_plan(
    privacy,
    sampling=chosen.run.cohort_sampling,
    simulated_population=population,
    simulated_cohort=chosen.run.clients_per_round,
    rounds=rounds,
  )
