"""The flags of DP-FTRL, checked before anything is trained."""

import dataclasses
from collections.abc import Sequence

from tff_textpriv.privacy import (
  accountants,
  calibration,
  central_settings,
  correlated_noise,
  ftrl,
  mechanism,
  participation,
  planning,
)
from tff_textpriv.privacy.banded_noise import BandedNoise
from tff_textpriv.privacy.buffered_noise import BufferedNoise
from tff_textpriv.privacy.correlated_cost import BandedRounds, CorrelatedRounds
from tff_textpriv.privacy.costs import GaussianCost
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.privacy.tree_noise import TreeNoise
from tff_textpriv.settings import SettingsError, setting

# More bands are less noise, and more vectors as large as the model for the server to keep.
_DEFAULT_BANDS = 16
_DEFAULT_BUFFERS = 3
# The flag that says how much a kind of noise remembers.
_SIZES = {
  'blt': 'ftrl_buffers',
  'banded': 'ftrl_bands',
  'tree': 'ftrl_restart_rounds',
}
_MOST_ROUNDS = 10_000


@dataclasses.dataclass(frozen=True)
class FtrlPrivacySettings(central_settings.NoisySumSettings):
  """Flags of central differential privacy by correlated noise."""

  promise = (
    'differential privacy for users without random cohorts; the server is trusted to add '
    'the noise'
  )

  noise_multiplier: float | None = setting(
    None,
    'Standard deviation of the independent noise, of which that of rounds is made, over '
    'the clip norm.',
    low=0,
    below=float('inf'),
  )
  cohort_sampling: str = setting(
    ftrl.SEPARATED,
    'How users come: each when it is its turn, as many rounds apart as the users allow '
    '(separated); or, with --ftrl_noise=banded, drawn by chance from one slot of users '
    'after the other, of which there are as many as bands (banded_poisson).',
    choices=(ftrl.SEPARATED, ftrl.BANDED_POISSON),
  )
  ftrl_noise: str = setting(
    'blt',
    'How the noise of rounds is correlated: buffered linear Toeplitz (blt), which is '
    'nearly the best and keeps little, a banded matrix factorization (banded), or tree '
    'aggregation with restarts (tree).',
    choices=('blt', 'banded', 'tree'),
    key='how the noise of rounds is correlated',
  )
  ftrl_buffers: int | None = setting(
    None,
    'With --ftrl_noise=blt: the number of buffers, by default 3. The server keeps 8 bytes '
    'per weight for each.',
    low=1,
    high=8,
  )
  ftrl_bands: int | None = setting(
    None,
    'With --ftrl_noise=banded: how many rounds the noise remembers, at most as many as '
    'lie between two participations of a user; by default that, but 16 at most. The '
    'server keeps 8 bytes per weight for each but one.',
    low=1,
  )
  ftrl_restart_rounds: int | None = setting(
    None,
    'With --ftrl_noise=tree: rounds after which a new tree begins; at most, and by '
    'default, as many as lie between two participations of a user.',
    low=1,
  )
  ftrl_max_participations: int | None = setting(
    None,
    'Rounds in which a user may take part at most; a run that needs more is refused.',
    low=1,
  )

  @classmethod
  def solve(cls, question: planning.Question) -> list[planning.Solution]:
    """See the base class; with the noise that is the default."""
    return [_solve(question, name) for name in accountants.ACCOUNTANTS]

  def slots(self, rounds: int, population: int, cohort: int) -> int:
    """See the base class: as many as bands, where users are drawn from them."""
    if self.cohort_sampling != ftrl.BANDED_POISSON:
      return 1
    return min(self.ftrl_bands or _DEFAULT_BANDS, rounds, population // cohort)

  def strategy(self, rounds: int, separation: int) -> correlated_noise.Strategy:
    """Returns how the noise of so many rounds hangs together.

    Raises:
      SettingsError: Users come back too soon for it.
    """
    longest = min(rounds, separation)
    own = _SIZES[self.ftrl_noise]
    for name in _SIZES.values():
      if name != own and getattr(self, name) is not None:
        raise SettingsError(
          name, getattr(self, name), f'is not for --ftrl_noise={self.ftrl_noise}'
        )
    size = getattr(self, own)
    if self.ftrl_noise == 'blt':
      return BufferedNoise(rounds, size or _DEFAULT_BUFFERS, separation)
    if size is not None and size > longest:
      raise SettingsError(
        own,
        size,
        f'must be at most {longest}: there are {rounds:,} rounds, and users may take '
        f'part again after {separation:,}',
      )
    if self.ftrl_noise == 'tree':
      return TreeNoise(rounds, size or longest)
    return BandedNoise(rounds, size or min(longest, _DEFAULT_BANDS))

  def mechanism(self, deployment: mechanism.Deployment) -> ftrl.CorrelatedGaussian:
    """Makes the mechanism, with the least noise that keeps within `--target_epsilon`.

    See the base class.
    """
    population, cohort = self.accounted_sizes(deployment)
    rounds, simulated = deployment.rounds, deployment.separation
    is_drawn = deployment.sampling == ftrl.BANDED_POISSON
    if is_drawn:
      self._check_drawn(len(deployment.stages))
      simulated = self.slots(rounds, deployment.population, deployment.cohort)
    separation = simulated
    if (population, cohort) != (deployment.population, deployment.cohort):
      slots = self.slots(rounds, population, cohort)
      separation = slots if is_drawn else population // cohort
    self._check_participations(rounds, population, cohort, separation)
    # The noise of a phase is made for its own rounds, and begins with them.
    strategies = [
      self.strategy(each, separation) for each in deployment.stages or (rounds,)
    ]
    strategy = strategies.pop(deployment.stage)
    num_coordinates = deployment.num_coordinates or mechanism.MANY_COORDINATES
    # Nothing is drawn at random, or by Poisson sampling, and so PLD can tell.
    accountant = self.settled_accountant('poisson')
    delta = self.settled_delta(population)
    cost: GaussianCost = _cost_of_run(
      [strategy, *strategies], separation, num_coordinates
    )
    if is_drawn:
      draws = num_coordinates * strategy.draws_per_round
      cost = BandedRounds(1.0, population, cohort, separation, rounds, draws)
    return ftrl.CorrelatedGaussian(
      sampling=deployment.sampling,
      population=population,
      cohort=cohort,
      simulated_population=deployment.population,
      simulated_cohort=deployment.cohort,
      rounds=rounds,
      clip=self.clip,
      noise_multiplier=self.settled_noise(cost, deployment, delta, accountant),
      delta=delta,
      accountant=accountant,
      noise_source=self.noise_source,
      budget_epsilon=self.target_epsilon,
      claim=self.privacy_claim,
      stream=deployment.stream_from(self.noise_source),
      num_coordinates=num_coordinates,
      unit=deployment.unit,
      strategy=strategy,
      separation=separation,
      simulated_separation=simulated,
      stage=deployment.stage,
      other_strategies=tuple(strategies),
    )

  def _check_drawn(self, num_phases: int) -> None:
    """Refuses draws from slots where the theorem on them does not hold."""
    if self.cohort_sampling != ftrl.BANDED_POISSON:
      raise PrivacyError(
        f'the settings are for {self.cohort_sampling} cohorts, not for '
        f'{ftrl.BANDED_POISSON} ones'
      )
    problem = None
    if self.ftrl_noise != 'banded':
      problem = 'needs --ftrl_noise=banded'
    elif num_phases > 1:
      problem = 'is not for runs of several phases'
    if problem is not None:
      raise SettingsError('cohort_sampling', self.cohort_sampling, problem)

  def _check_participations(
    self, rounds: int, population: int, cohort: int, separation: int
  ) -> None:
    """Refuses rounds that the population cannot carry."""
    allowed = self.ftrl_max_participations
    needed = participation.most_participations(rounds, separation)
    if allowed is not None and needed > allowed:
      raise SettingsError(
        'ftrl_max_participations',
        allowed,
        f'{rounds:,} rounds of {cohort:,} users are {rounds * cohort:,} participations, '
        f'and {population:,} users who come back after {separation:,} rounds would each '
        f'take part up to {needed:,} times. Use at most {allowed * separation:,} rounds, '
        'smaller cohorts or more users',
      )


def _cost_of_run(
  strategies: Sequence[correlated_noise.Strategy],
  separation: int,
  num_coordinates: int,
) -> CorrelatedRounds:
  """Returns what all phases of a run cost together, as one release over all rounds.

  With one noise multiplier z for all phases they are a Gaussian mechanism of z / S, where
  S^2 is `ftrl.squared_sensitivity`: that is also what a ledger makes of their entries. To
  it is added what drawing the noise costs, R d(n) for R rounds of n weights each. The
  model of another phase, with another tokenizer, may be larger than this one, so that
  this phase leaves room for 2 n. If the smallest model has n and all have at most 2 n
  weights, then no phase has less noise than the z for which
  epsilon(z / S) + R d(2 n) <= target, and they spend epsilon(z / S) + sum_i R_i d(n_i) at
  most, which is no more. Were a model larger still, the ledger would end the run before
  the round that goes beyond the target.
  """
  room = 2 if len(strategies) > 1 else 1
  draws = room * num_coordinates * max(each.draws_per_round for each in strategies)
  rounds = sum(each.rounds for each in strategies)
  square = ftrl.squared_sensitivity(strategies, separation)
  return CorrelatedRounds(1.0, rounds, (square,), draws)


def _cost(
  strategy: correlated_noise.Strategy,
  separation: int,
  noise_multiplier: float,
) -> CorrelatedRounds:
  squares = strategy.squared_sensitivities(separation)
  return CorrelatedRounds(noise_multiplier, separation, squares)


def _solve(question: planning.Question, accountant: str) -> planning.Solution:
  """Solves for what is left out, by one accountant."""
  unknown, settings = question.unknown, FtrlPrivacySettings()
  if question.sampling == ftrl.BANDED_POISSON:
    settings = FtrlPrivacySettings(
      cohort_sampling=ftrl.BANDED_POISSON, ftrl_noise='banded'
    )

  def at(cohort: int, rounds: int) -> GaussianCost:
    noise = question.noise_multiplier or 1.0
    if settings.cohort_sampling == ftrl.BANDED_POISSON:
      slots = settings.slots(rounds, question.population, cohort)
      return BandedRounds(noise, question.population, cohort, slots, rounds)
    separation = question.population // cohort
    strategy = settings.strategy(rounds, separation)
    return _cost(strategy, separation, noise)

  cohort, rounds = question.cohort or 1, question.rounds or 1
  if question.epsilon is not None:
    budget = calibration.Budget(question.epsilon, question.delta, accountant)
    if unknown == 'cohort':
      cohort = planning.largest(
        lambda size: not budget.exceeded_by(at(size, rounds), rounds),
        question.population,
      )
    elif unknown == 'rounds':
      rounds = planning.largest(
        lambda number: not budget.exceeded_by(at(cohort, number), number), _MOST_ROUNDS
      )
  cost = at(cohort, rounds)
  if unknown == 'noise_multiplier':
    cost = cost.with_noise(calibration.noise_for_budget(cost, rounds, budget))
  return planning.of_gaussian(cost, cohort, rounds, question.delta, accountant)
