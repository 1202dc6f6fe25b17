"""What one's own data can carry: at which epsilon a model can be expected to learn."""

import dataclasses
from collections.abc import Mapping, Sequence

from tff_textpriv.iterative_processes.algorithm import LANGUAGE_MODEL
from tff_textpriv.privacy import outlook
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.settings import SettingsError
from tff_textpriv.tasks import base, custom
from tff_textpriv.training import experiment

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_ALGORITHM = 'dp_fed_avg'


@dataclasses.dataclass(frozen=True)
class Load:
  """What a run at one epsilon would be.

  Attributes:
    epsilon: Epsilon of the whole run.
    rounds: Rounds, as a run would choose them.
    noise_multiplier: The noise on the sum of updates, in clip norms; `None` if no noise
      can keep the promise.
    foreseen: What comes of it, if there is such noise.
    remedies: What would be enough, if it is not.
  """

  epsilon: float
  rounds: int
  noise_multiplier: float | None
  foreseen: outlook.Outlook | None
  remedies: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Answer:
  """What data can carry.

  Attributes:
    population: The number of training users.
    cohort: Users per round, as a run would choose them.
    model: What is trained.
    num_coordinates: The number of its parameters.
    loads: What runs would be, by epsilon.
  """

  population: int
  cohort: int
  model: str
  num_coordinates: int
  loads: Sequence[Load]

  @property
  def text(self) -> str:
    """The answer, to print."""
    lines = [
      f'{self.population:,} training users; {_ALGORITHM} would train {self.model}, '
      f'{self.num_coordinates:,} parameters, with {self.cohort:,} users per round.',
      'What users agree on stands out of the noise so many times:',
      '',
      f'  {"epsilon":>8}  {"rounds":>6}  {"noise multiplier":>16}  {"stands out":>10}',
    ]
    for load in self.loads:
      if load.foreseen is None:
        lines.append(f'  {load.epsilon:8g}  no noise keeps this promise')
        continue
      verdict = 'enough' if load.foreseen.is_enough else 'drowns'
      if load.remedies:
        verdict += f': needs {", or ".join(load.remedies)}'
      lines.append(
        f'  {load.epsilon:8g}  {load.rounds:6,}  {load.noise_multiplier:16.3g}  '
        f'{outlook.shown(load.foreseen.strength):>10}  {verdict}'
      )
    lines += [
      '',
      f'{outlook.ENOUGH:g} is needed. That is a rule of thumb and no promise: the last line of '
      'a run says whether its model is better than a guess.',
    ]
    return '\n'.join(lines)


def ask(given: Mapping[str, str], epsilons: Sequence[float]) -> Answer:
  """Reads data, as a run of the task `custom` would, and foresees runs.

  Args:
    given: Flags of the task, `data` and columns among them.
    epsilons: For which epsilons of a run.

  Raises:
    ValueError: What the task would refuse.
  """
  chosen = _experiment(given, epsilons[0])
  population = custom.num_training_users(chosen)
  cohort = chosen.run.cohort(population)
  model, size = _model(chosen)
  loads = []
  for epsilon in epsilons:
    one = _experiment(given, epsilon)
    rounds = one.run.total_rounds
    deployment = Deployment('poisson', population, cohort, rounds, num_coordinates=size)
    loads.append(_load(one, deployment))
  return Answer(population, cohort, model, size, loads)


def _experiment(given: Mapping[str, str], epsilon: float) -> experiment.Experiment:
  made = {'algo': _ALGORITHM, 'target_epsilon': str(epsilon), **given}
  return base.make_experiment(custom.TASK, made)


def _model(chosen: experiment.Experiment) -> tuple[str, int]:
  """Returns what a run would train, and its number of parameters."""
  task = chosen.task_settings
  if chosen.task.kind == LANGUAGE_MODEL:
    # Only now is TensorFlow needed.
    from tff_textpriv.models import language_models

    model = language_models.build(task.model, task.vocab_size, task.tied_embeddings)
    return f'{task.model} on {task.vocab_size:,} tokens', model.num_parameters
  size = custom.num_coordinates(chosen)
  assert size is not None  # The default model is one of hashed words.
  words = f'{task.hash_buckets:,} hashed words'
  return f'logistic regression of {custom.num_classes(chosen)} classes on {words}', size


def _load(chosen: experiment.Experiment, deployment: Deployment) -> Load:
  settings = chosen.privacy_settings
  epsilon = settings.target_epsilon  # type: ignore[attr-defined]
  try:
    mechanism = settings.mechanism(deployment)
  except (PrivacyError, SettingsError):
    return Load(epsilon, deployment.rounds, None, None, ())
  foreseen = outlook.foresee(mechanism, deployment)
  enough = foreseen is None or foreseen.is_enough
  remedies = () if enough else outlook.remedies(settings, deployment)
  noise = mechanism.noise_multiplier  # type: ignore[attr-defined]
  return Load(epsilon, deployment.rounds, noise, foreseen, remedies)
