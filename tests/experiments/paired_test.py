"""Statistics over seeds, against figures worked out by hand."""

import math

import pytest

from tff_textpriv.experiments import paired


def test_the_interval_is_that_of_student_s_t_on_paired_differences():
  reference = {0: 10.0, 1: 20.0, 2: 30.0, 3: 40.0}
  values = {0: 11.0, 1: 22.0, 2: 33.0, 3: 42.0}
  # Differences 1, 2, 3, 2: mean 2, variance (1 + 0 + 1 + 0) / 3, so that s / sqrt(4) is
  # sqrt(2/3) / 2 = 0.408248; the 97.5% quantile with 3 degrees of freedom is 3.182446.
  found = paired.difference(values, reference)
  assert (found.mean, found.n) == (2.0, 4)
  assert found.low == pytest.approx(2 - 3.182446 * 0.408248, abs=1e-5)
  assert found.high == pytest.approx(2 + 3.182446 * 0.408248, abs=1e-5)


def test_an_unpaired_comparison_would_give_another_interval():
  reference = {0: 10.0, 1: 20.0, 2: 30.0, 3: 40.0}
  values = {0: 11.0, 1: 22.0, 2: 33.0, 3: 42.0}
  # The twin that pairs a seed with another one's run: the mean is the same, but the
  # differences -29, 2, 3 and 32 vary with the seeds themselves.
  mixed = dict(zip(reference, (40.0, 20.0, 30.0, 10.0), strict=True))
  paired_one = paired.difference(values, reference)
  unpaired = paired.difference(values, mixed)
  assert unpaired.mean == paired_one.mean
  assert paired_one.low > 0 > unpaired.low
  assert unpaired.high - unpaired.low > 10 * (paired_one.high - paired_one.low)


def test_differences_of_logarithms_are_ratios():
  found = paired.difference({0: 50.0, 1: 200.0}, {0: 100.0, 1: 400.0}, of_logs=True)
  assert found.mean == pytest.approx(-math.log(2))
  assert found.low == pytest.approx(found.high) == pytest.approx(-math.log(2))


def test_only_seeds_that_both_have_are_compared():
  found = paired.difference({0: 3.0, 1: 5.0, 2: None}, {1: 4.0, 2: 1.0, 3: 9.0})
  assert found == paired.Difference(1.0, None, None, 1)
  assert paired.difference({0: 1.0}, {1: 1.0}) is None
  assert paired.difference({0: None}, {0: 1.0}) is None


def test_a_spread_needs_a_number_of_every_run():
  assert paired.spread([1.0, 3.0]) == paired.Spread(2.0, math.sqrt(2), 2)
  assert paired.spread([4.0]) == paired.Spread(4.0, None, 1)
  assert paired.spread([1.0, None]) is None and paired.spread([]) is None
