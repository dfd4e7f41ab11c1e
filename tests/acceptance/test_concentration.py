"""The rule of MHSubLhd: how often it decides wrongly, what its looks may use of δ, and its exact limit."""

from dataclasses import dataclass

import numpy as np
import pytest
from decisions import decisions
from numba import njit
from scipy import stats

from pymc_austerity.acceptance import ACCEPT, REJECT, UNDECIDED
from pymc_austerity.acceptance.acceptance_test import NeedsDistinctRowsError
from pymc_austerity.acceptance.concentration import (
    BoundedLooks,
    ConcentrationBound,
    decide_outside_bound,
    empirical_bernstein,
    empirical_bernstein_serfling,
    hoeffding_serfling,
)
from pymc_austerity.acceptance.moments import Moments


@njit
def _no_noise(rng):
    return 0.0


@dataclass(frozen=True)
class Rule(ConcentrationBound):
    """The rule with a threshold of our own in place of a random one."""

    draw_noise = staticmethod(_no_noise)


@dataclass(frozen=True)
class CounterStands(Rule):
    """Planted mistake: every look uses up as much of δ as the first."""

    def looks(self, n_rows):
        sizes = super().looks(n_rows).sizes
        delta = np.full(sizes.size, (self.p - 1) / self.p * self.delta)
        return BoundedLooks(sizes, *self.inequality(sizes, n_rows, delta))


def errors(rule, values, n_tests=2_000):
    """Rate of wrong decisions for a mean next to ψ, and its lower limit at the level 1e-4."""
    accepted, _ = decisions(rule, values, 1e-9, n_tests, scale=1.0, bound=np.abs(values).max(), seed=7)
    n_wrong = int((~accepted).sum())
    return n_wrong / n_tests, stats.beta.ppf(1e-4, n_wrong, n_tests - n_wrong + 1) if n_wrong else 0.0


@pytest.mark.slow
def test_many_looks_at_hard_rows_keep_to_delta():
    """Rows for which the inequality is nearly sharp, a mean next to ψ, and hundreds of looks."""
    # Two values of equal frequency: Hoeffding's inequality is nearly sharp, so mistakes in it show.
    values, delta = np.where(np.arange(30_000) % 2, 1.0, -1.0), 0.1
    settings = {"gamma": 1.02, "p": 5.0, "batch_size": 2, "inequality": hoeffding_serfling}
    assert errors(Rule(delta, **settings), values)[0] <= delta
    assert errors(CounterStands(delta, **settings), values)[1] > delta


def test_the_inequalities_are_those_of_the_papers():
    t, n, delta = np.array([100, 900]), 1_000, np.array([0.01, 0.002])
    sd = np.sqrt((t - 1) / t)
    a, b = hoeffding_serfling(t, n, delta)
    assert (a == 0).all()
    assert b == pytest.approx(
        [np.sqrt(2 * (1 - 99 / 1000) * np.log(200) / 100), np.sqrt(2 * 0.101 * np.log(1000) / 900)]
    )
    a, b = empirical_bernstein(t, n, delta)
    assert a / sd == pytest.approx([np.sqrt(2 * np.log(300) / 100), np.sqrt(2 * np.log(1500) / 900)])
    assert b == pytest.approx([6 * np.log(300) / 100, 6 * np.log(1500) / 900])
    t, delta = np.array([100, 400, 900]), np.array([0.01, 0.005, 0.002])
    sd = np.sqrt((t - 1) / t)
    a, b = empirical_bernstein_serfling(t, n, delta)
    rho = np.array([1 - 99 / 1000, 1 - 399 / 1000, 0.1 * (1 + 1 / 900)])
    assert a / sd == pytest.approx(np.sqrt(2 * rho * np.log(5 / delta) / t))
    assert b == pytest.approx((7 / 3 + 3 / np.sqrt(2)) * 2 * np.log(5 / delta) / t)


def test_look_k_may_fail_with_the_probability_of_the_paper():
    rule = ConcentrationBound(0.02, gamma=2.0, p=3.0, batch_size=50)
    looks, k = rule.looks(1_000), np.arange(1, 7)
    expected = empirical_bernstein_serfling(looks.sizes, 1_000, 2 / (3 * k**3.0) * 0.02)
    np.testing.assert_allclose([looks.per_sd, looks.per_bound], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("n", "distance", "verdict"),
    [(10, 2.01, ACCEPT), (10, -2.01, REJECT), (10, 1.99, UNDECIDED), (10, -1.99, UNDECIDED)]
    + [(20, 0.01, ACCEPT), (20, -0.01, REJECT)],
)
def test_mean_is_compared_with_psi_beyond_the_bound(n, distance, verdict):
    looks = BoundedLooks(np.array([10, 20]), np.array([0.5, 9.0]), np.array([0.25, 9.0]))
    log_u, offset, scale = 0.3, 0.6, 3.0
    moments = Moments(n, 20, (log_u - offset) / scale + distance, 2.0, 4.0)
    assert decide_outside_bound(looks, n // 10 - 1, moments, offset, scale, log_u) == verdict
    # The same rows in another unit, in which every distance is below one.
    small = Moments(n, 20, (log_u - offset) / scale + distance / 10, 0.2, 0.4)
    assert decide_outside_bound(looks, n // 10 - 1, small, offset, scale, log_u) == verdict


def test_defaults_and_refusal_of_weights():
    rule = ConcentrationBound()
    assert (rule.delta, rule.gamma, rule.p, rule.batch_size) == (0.01, 2.0, 2.0, 50)
    assert rule.inequality is empirical_bernstein_serfling
    sizes = ConcentrationBound(gamma=1.5, batch_size=50).looks(1_000).sizes
    assert sizes.tolist() == [50, 75, 113, 170, 255, 383, 575, 863, 1_000]
    assert rule.remedy() == "Use a smaller delta than 0.01."
    with pytest.raises(NeedsDistinctRowsError, match="without replacement and with equal weight"):
        rule.with_replacement()
