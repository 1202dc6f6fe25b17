"""Mechanisms that tests start from: a central one, and none."""

import dataclasses
import math

from tff_textpriv import randomness
from tff_textpriv.privacy.central import CentralGaussian
from tff_textpriv.privacy.no_mechanism import NoMechanism

PLAN = CentralGaussian(
  sampling='poisson',
  population=1000,
  cohort=20,
  simulated_population=1000,
  simulated_cohort=20,
  rounds=100,
  clip=0.5,
  noise_multiplier=1.0,
  delta=1e-5,
  stream=randomness.Stream.of_seed(0),
)
NO_MECHANISM = NoMechanism('nothing protects the users of a test')


def of_everybody(users: int, **changes) -> CentralGaussian:
  """Returns the plan of so many users, all of whom take part, without noise or clip."""
  sizes = ('population', 'cohort', 'simulated_population', 'simulated_cohort')
  bare = {'sampling': 'fixed', 'noise_multiplier': 0.0, 'clip': math.inf}
  return dataclasses.replace(PLAN, **dict.fromkeys(sizes, users), **(bare | changes))
