"""Local differential privacy in a few bits: subsampled, quantized, randomized (SQKR).

The update x of d numbers is clipped to an L2 norm C, filled up with zeros to a power of
two D and turned by a rotation that all clients share, after which all of its coordinates
are about as large: y, with a variance of |x|^2 / D at most each. They are clipped to
q = 3 C / sqrt(D). Of k of them, drawn anew for each report, each becomes a sign, +1 with
probability (y + q) / 2q; the k signs together are one symbol, to which randomized response
is done at once (`randomized_symbol`, with the law). A sign s then stands for

  q s / (1 - M r) D / k

in an estimate of y, which is turned back. It is unbiased but for what of y is beyond q:
three standard deviations, 0.3% of a Gaussian's numbers and 0.03% of its length.

The rotation takes the place of Kashin's representation in the paper, which keeps every
vector within a bound; it costs one transform and holds for all but few vectors.

From an `Sqkr` are made both the aggregation and the ledger's entries.

Reference: Chen, Kairouz and Ozgur, "Breaking the Communication-Privacy-Accuracy Trilemma"
(2020).
"""

import dataclasses
import math

import numpy as np

from tff_textpriv.privacy import mechanism, randomized_symbol, vector_reports
from tff_textpriv.privacy.errors import PrivacyError
from tff_textpriv.settings import setting

# Of a rotated coordinate, in standard deviations of the longest update's.
_RANGE = 3.0


@dataclasses.dataclass(frozen=True)
class SqkrSettings(vector_reports.VectorReportSettings):
  """Flags of local differential privacy by SQKR."""

  promise = 'local differential privacy for users, in a few bits per report'

  bits_per_report: int | None = setting(
    None,
    'Bits of a report, each of one rotated coordinate; by default those with the least '
    'noise, which are about as many as the epsilon of the report.',
    low=1,
    high=randomized_symbol.MOST_BITS,
  )

  def mechanism(self, deployment: mechanism.Deployment) -> 'Sqkr':
    """Makes the mechanism; see the base class."""
    return Sqkr(bits_per_report=self.bits_per_report, **self.deployed(deployment))


@dataclasses.dataclass(frozen=True)
class Sqkr(vector_reports.VectorReports):
  """Local differential privacy of users, a few bits per report; see the base class.

  Attributes:
    bits_per_report: The number k of bits; `None` for those with the least noise.
  """

  aggregator = 'sqkr'
  # Which coordinates the bits are of follows from nobody's data.
  covered = frozenset({'bits', 'selection'})

  bits_per_report: int | None = None

  def __post_init__(self) -> None:
    if self.num_bits > self.dimension:
      raise PrivacyError(
        f'a report of {self.num_bits} bits is more than the {self.dimension} rotated '
        'coordinates that there are'
      )

  @property
  def dimension(self) -> int:
    """D, the power of two to which updates are filled up."""
    return 1 << max(0, self.num_coordinates - 1).bit_length()

  @property
  def num_bits(self) -> int:
    """The number k of bits of a report."""
    return self.bits_per_report or randomized_symbol.bits_of_least_noise(
      self.epsilon, self.dimension
    )

  @property
  def response(self) -> randomized_symbol.SymbolResponse:
    """The law of a report."""
    return randomized_symbol.SymbolResponse(self.epsilon, self.num_bits)

  @property
  def bound(self) -> float:
    """The range q of a rotated coordinate."""
    return self.clip_norm * min(1.0, _RANGE / math.sqrt(self.dimension))

  @property
  def sign_value(self) -> float:
    """What a reported sign stands for in an estimate of a rotated coordinate."""
    return self.bound / self.response.contrast * self.dimension / self.num_bits

  @property
  def noise(self) -> float:
    """See the base class; a rotation leaves noise as it is."""
    return self.sign_value * math.sqrt(self.num_bits / self.dimension)

  @property
  def answer(self) -> str:
    """See the base class."""
    return f'{self.num_bits} bits'

  @property
  def rotation_seed(self) -> np.ndarray:
    """What decides the rotation, int64 [2]; it may be known."""
    return self.stream.words('rotation of reports')

  @property
  def summary(self) -> str:
    """See the base class."""
    return f'local, SQKR, {self.num_bits} bits, clip {self.clip_norm:g}'

  @property
  def threat_model(self) -> str:
    """See the base class."""
    return (
      'Local differential privacy: users send a few bits of their update, randomized '
      'together, so that the guarantee also holds against whoever collects them. It is '
      'about what a user sends; that the user takes part, and when, is not hidden.'
    )

  @property
  def law_in_words(self) -> str:
    """See the base class."""
    law = self.response
    return (
      f'It is rotated, and of {self.num_bits} of its {self.dimension:,} coordinates each '
      'becomes a sign at random. The signs together are kept with probability '
      f'{law.contrast:.4g}, and otherwise replaced by any.'
    )
