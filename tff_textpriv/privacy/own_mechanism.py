"""An aggregator of the caller's own: what it does to updates is not known here.

So nothing is promised, whatever it is, and nothing but the mean is asked of it.
"""

import dataclasses
from typing import Any

from tff_textpriv.privacy.mechanism import Deployment
from tff_textpriv.privacy.no_mechanism import NoMechanism, NoPrivacySettings

_REASON = (
  'updates are averaged by an aggregator of the caller’s own, of which nothing is known'
)


@dataclasses.dataclass(frozen=True)
class OwnMechanism(NoMechanism):
  """No mechanism, with a mean of the caller's own.

  Attributes:
    factory: The aggregation factory of TFF.
  """

  aggregator = 'own_factory'

  factory: Any = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True)
class OwnAggregatorSettings(NoPrivacySettings):
  """There are no flags: the factory is an object, which config.json has by a hash."""

  factory: dataclasses.InitVar[Any]

  def __post_init__(self, factory: Any) -> None:
    super().__post_init__()
    object.__setattr__(self, '_factory', factory)

  def mechanism(self, deployment: Deployment) -> OwnMechanism:
    """Makes the mechanism of the factory; see the base class."""
    return OwnMechanism(
      _REASON,
      rounds=deployment.rounds,
      population=deployment.population,
      factory=vars(self)['_factory'],
    )
