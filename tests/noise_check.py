"""The one check of Gaussian noise that all tests of mechanisms share."""

import numpy as np
import scipy.stats


def is_gaussian(values: np.ndarray, stddev: float) -> bool:
  """Tells whether numbers look like independent draws of N(0, stddev^2).

  Mean, variance and the neighbours' correlation are held to 5 standard errors of
  theirs; the shape to the Kolmogorov-Smirnov test at the same level.

  Args:
    values: Float [n].
    stddev: What the plan says.
  """
  n, scaled = values.size, values.astype(np.float64) / stddev
  five_standard_errors = 2 * scipy.stats.norm.sf(5)
  return bool(
    abs(scaled.mean()) < 5 / np.sqrt(n)
    and abs(scaled.var() - 1) < 5 * np.sqrt(2 / n)
    and abs((scaled[1:] * scaled[:-1]).mean()) < 5 / np.sqrt(n)
    and scipy.stats.kstest(scaled, 'norm').pvalue > five_standard_errors
  )
