"""A plan of central differential privacy that tests start from."""

from tff_textpriv.privacy.central import CentralDpPlan

PLAN = CentralDpPlan(
  sampling='poisson',
  population=1000,
  cohort=20,
  simulated_population=1000,
  simulated_cohort=20,
  rounds=100,
  clip=0.5,
  noise_multiplier=1.0,
  delta=1e-5,
)
