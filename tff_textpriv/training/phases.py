"""The phases of a run: who trains in which rounds.

Most algorithms have one phase. `subword_resample` has several, each with its own
tokenizer: it goes on with the same model and users after a switch, or, with the
users split in halves, starts a fresh model on those who took no part before.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from tff_textpriv import randomness
from tff_textpriv import settings as settings_lib
from tff_textpriv.iterative_processes import algorithm, common_settings
from tff_textpriv.privacy.mechanism import Deployment, Mechanism
from tff_textpriv.runtime import cohorts
from tff_textpriv.training import experiment


@dataclasses.dataclass(frozen=True)
class Phase:
  """Rounds of training with one tokenizer.

  Attributes:
    index: The phase's number, from 0.
    leg: Its rounds, the name of its users in the ledger, and whether the model goes on
      from the phase before.
    sampler: Draws its users.
    sampling: How they are drawn in the deployment that is accounted for.
    stream: Where the random numbers of its rounds come from, but for the cohorts, which
      runs with other phases but the same users share.
    stages: The rounds of each phase of the same users, in order, itself among them.
    stage: Its own place there.
  """

  index: int
  leg: algorithm.Leg
  sampler: cohorts.CohortSampler
  sampling: str
  stream: randomness.Stream
  stages: tuple[int, ...]
  stage: int

  @property
  def folder(self) -> str:
    """Where its checkpoints are, within the run's folder."""
    return f'checkpoints/phase_{self.index}'

  @property
  def others_rounds(self) -> int:
    """The rounds before that only other users trained.

    Users are drawn, and their batches shuffled, by the rounds of their own. So a run
    whose first half of users finds the tokenizer shows its second half the same text in
    the same order as a run that has no first half.
    """
    return self.leg.rounds_before - sum(self.stages[: self.stage])

  def deployment(
    self, chosen: experiment.Experiment, num_coordinates: int | None = None
  ) -> Deployment:
    """Returns what a mechanism has to know of its rounds.

    Args:
      chosen: The experiment.
      num_coordinates: The size of its model, if that is known yet.
    """
    return Deployment(
      sampling=self.sampling,
      simulated_sampling=self.sampler.sampling,
      population=len(self.sampler.client_ids),
      cohort=self.sampler.cohort_size,
      separation=self.sampler.separation,
      device_failure_rate=self.sampler.device_failure_rate,
      # The promise to users is one for all phases in which they train.
      rounds=sum(self.stages),
      stages=self.stages,
      stage=self.stage,
      stream=self.stream,
      num_coordinates=num_coordinates,
      client_step=chosen.algorithm_settings.client_step,
      parts=_parts(self.leg),
      unit='user' if chosen.task_settings.user_note is None else 'simulated client',
      **_reports(chosen),
    )

  def mechanism(
    self, chosen: experiment.Experiment, num_coordinates: int | None = None
  ) -> Mechanism:
    """Makes the mechanism of its rounds.

    Args:
      chosen: The experiment.
      num_coordinates: The size of its model; if that is not known yet, what comes of it
        is only good for refusing what no model can keep.
    """
    deployment = self.deployment(chosen, num_coordinates)
    return chosen.privacy_settings.mechanism(deployment)


def lay_out(chosen: experiment.Experiment, client_ids: Sequence[str]) -> list[Phase]:
  """Lays out the phases of an experiment.

  Args:
    chosen: The experiment.
    client_ids: All training users.

  Returns:
    One phase or more, in order.

  Raises:
    SettingsError: If a switch lies outside the run, or the server's step size would be
      zero before its end.
  """
  phases = []
  legs = [
    leg._replace(users=leg.users or chosen.task_settings.training_group)
    for leg in chosen.algorithm_settings.legs(chosen.run.total_rounds)
  ]
  _check_decay(chosen.algorithm_settings, legs)
  for index, leg in enumerate(legs):
    users = members(client_ids, leg.users, chosen.stream)
    # Users' turns go on over phases: the sampler counts all rounds of its users.
    sampler = _sampler(chosen, leg, users, chosen.stream.child('users', leg.users))
    sampling = chosen.cohort_sampling
    if chosen.algorithm.gathers_data:
      sampling = sampler.sampling
    stream = chosen.stream.child('phase', index)
    theirs = [other for other in legs if other.users == leg.users]
    stages = tuple(other.last_round - other.rounds_before for other in theirs)
    phases.append(
      Phase(index, leg, sampler, sampling, stream, stages, theirs.index(leg))
    )
  return phases


def _reports(chosen: experiment.Experiment) -> dict[str, Any]:
  """Returns what users spend on reports before the first round: those who train, or others."""
  apart = chosen.task_settings.training_group == algorithm.SECOND_HALF
  whose = 'spent_elsewhere' if apart else 'spent_besides'
  return {whose: chosen.task_settings.reported_epsilon}


def _sampler(
  chosen: experiment.Experiment,
  leg: algorithm.Leg,
  users: Sequence[str],
  stream: randomness.Stream,
) -> cohorts.CohortSampler:
  """Makes the sampler; without clients, there is one place that always takes part."""
  run = chosen.run
  if chosen.algorithm.gathers_data:
    return cohorts.CohortSampler(users, len(users), 'fixed', stream)
  cohort, rounds = run.cohort(len(users)), leg.last_round - leg.rounds_before
  return cohorts.CohortSampler(
    users,
    cohort,
    chosen.privacy_settings.simulated_sampling(
      chosen.cohort_sampling, len(users), cohort, _parts(leg)
    ),
    stream,
    run.device_failure_rate,
    chosen.privacy_settings.slots(rounds, len(users), cohort),
  )


def _parts(leg: algorithm.Leg) -> int:
  """Returns into how many parts the users of a run are dealt, of which a leg has one."""
  return 1 if leg.users == algorithm.ALL_USERS else 2


def _check_decay(
  settings: common_settings.AlgorithmSettings, legs: Sequence[algorithm.Leg]
) -> None:
  """Refuses a server whose step size is zero before its model is trained."""
  decay_rounds = getattr(settings, 'server_decay_rounds', None)
  if decay_rounds is None:
    return
  begun = 0
  for leg in legs:
    # The optimizer of a model that goes on goes on counting.
    begun = begun if leg.continues else leg.rounds_before
    if leg.last_round - begun > decay_rounds:
      raise settings_lib.SettingsError(
        'server_decay_rounds',
        decay_rounds,
        f'a model is trained for {leg.last_round - begun} rounds, of which those after '
        f'round {decay_rounds} would have a step size of zero; use '
        f'{leg.last_round - begun} or more',
      )


def members(
  client_ids: Sequence[str], group: str, stream: randomness.Stream
) -> Sequence[str]:
  """Returns the users of a group: all, or a half; the halves have nobody in common.

  A user's half is that of the user's own id and the stream: whoever else comes or goes,
  nobody changes sides. So halves are only about equal.
  """
  if group == algorithm.ALL_USERS:
    return client_ids
  first = group == algorithm.FIRST_HALF
  return [user for user in client_ids if (stream.share('half', user) < 0.5) == first]
