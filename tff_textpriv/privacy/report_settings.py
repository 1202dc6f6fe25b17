"""What the flags of mechanisms have in common by which users send private reports."""

import dataclasses
from typing import Any

from tff_textpriv.privacy import (
  claim_settings,
  mechanism,
  planning,
  shuffled_planning,
  shuffling,
)


@dataclasses.dataclass(frozen=True)
class ReportSettings(claim_settings.ClaimSettings):
  """Flags of reports that are each locally private, at delta 0."""

  randomizes_on_device = True
  planned_by = planning.REPORT

  @classmethod
  def solve(cls, question: planning.Question) -> list[planning.Solution]:
    """See the base class: of reports behind a shuffler."""
    return [shuffled_planning.solve(question)]

  def deployed(self, deployment: mechanism.Deployment) -> dict[str, Any]:
    """Returns what `local_mechanism.PureReports` have of a deployment, by attribute."""
    return {
      'delta': self.settled_delta(deployment.population),
      'participations': deployment.participations,
      'noise_source': self.noise_source,
      'claim': self.privacy_claim,
      'rounds': deployment.rounds,
      'population': deployment.population,
      'stream': deployment.stream_from(self.noise_source),
      'unit': deployment.unit,
      'crowd': shuffling.Crowd(
        deployment.sampling,
        deployment.population,
        deployment.cohort,
        deployment.device_failure_rate,
      ),
    }
