"""Local differential privacy: users send a vector that leans towards their update.

The update is clipped to an L2 norm C. How long it is would tell something, so it becomes a
direction of one dimension more: with the coordinates over C and sqrt(1 - |update|^2 / C^2)
it is a unit vector of d + 1 numbers, whatever the update is. PrivUnitG answers it
(`spherical_cap`, with the proof), and the last number of the answer is left out, which
costs nothing. What is left, times C / m, is an unbiased estimate of the clipped update, as
the answer over m is one of the direction.

From a `PrivUnit` are made both the aggregation and the ledger's entries.
"""

import dataclasses

from tff_textpriv.privacy import mechanism, spherical_cap, vector_reports


@dataclasses.dataclass(frozen=True)
class PrivUnitSettings(vector_reports.VectorReportSettings):
  """Flags of local differential privacy by PrivUnitG."""

  promise = 'local differential privacy for users, of the directions of their updates'

  def mechanism(self, deployment: mechanism.Deployment) -> 'PrivUnit':
    """Makes the mechanism; see the base class."""
    return PrivUnit(**self.deployed(deployment))


@dataclasses.dataclass(frozen=True)
class PrivUnit(vector_reports.VectorReports):
  """Local differential privacy of users, one vector per report; see the base class."""

  aggregator = 'priv_unit'
  covered = frozenset({'report'})
  answer = 'a vector'

  @property
  def response(self) -> spherical_cap.CapResponse:
    """The law of a report, with room for what rounding adds to epsilon."""
    dimension = self.num_coordinates + 1
    exact = self.epsilon - spherical_cap.ROUNDING * dimension
    return spherical_cap.least_noise(exact, dimension)

  @property
  def noise(self) -> float:
    """See the base class."""
    return self.clip_norm / self.response.gain

  @property
  def step_value(self) -> float:
    """What a step of a reported number stands for in an unbiased estimate."""
    return self.noise / spherical_cap.STEPS

  @property
  def summary(self) -> str:
    """See the base class."""
    return f'local, PrivUnitG, clip {self.clip_norm:g}'

  @property
  def threat_model(self) -> str:
    """See the base class."""
    return (
      'Local differential privacy: users send a random vector that leans towards their '
      'update, so that the guarantee also holds against whoever collects the vectors. It '
      'is about what a user sends; that the user takes part, and when, is not hidden.'
    )

  @property
  def law_in_words(self) -> str:
    """See the base class."""
    law = self.response
    return (
      'It is answered by a Gaussian vector whose component along it is drawn from the '
      f'tail beyond {law.edge:.3g} standard deviations with probability '
      f'{law.coin.keep_probability:.4g}, and otherwise from below.'
    )
