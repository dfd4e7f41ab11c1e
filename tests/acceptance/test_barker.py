"""Barker's test on minibatches: its curve is the logistic one, and what makes it another."""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
from decisions import decisions
from evidence import MAX_Z
from numba import njit
from scipy import special, stats

from pymc_austerity.acceptance.barker import (
    Barker,
    BarkerLooks,
    BarkerNoise,
    decide_barker,
    skew_against,
)
from pymc_austerity.acceptance.decision import ACCEPT, REJECT
from pymc_austerity.acceptance.moments import NO_SHAPE, Moments, add_shape, standard_error

N = 20_000
GRID = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
#: Decisions at each Δ: the planted mistakes leave the curve by three times what these tell apart, and more.
N_TESTS = 10_000
#: Error of the acceptance probability that finite batches of normal rows may leave: s² is an estimate.
FINITE = 3e-3


def rows(kind, n_needed, n=N):
    """Return `n` row terms of which `n_needed` bring the standard error of the log ratio to 1."""
    rng = np.random.default_rng(2016)
    x = {"normal": rng.normal, "exponential": rng.exponential, "lognormal": rng.lognormal}[kind](size=n)
    return (x - x.mean()) / x.std() * np.sqrt(n_needed) / n


def curve(test, values, grid=GRID, n_tests=N_TESTS):
    """Acceptance rate minus the logistic function on a grid of Δ, in units of the tolerated error."""
    rates = np.array([decisions(test, values, d, n_tests, seed=5)[0].mean() for d in grid])
    p = special.expit(grid)
    return (rates - p) / (MAX_Z * np.sqrt(p * (1 - p) / n_tests) + FINITE)


SKIP_NOISE_WHEN_CLEAR, VARIANCE_FOR_SD, GREEDY_AT_FULL_DATA, NO_PRIOR, NO_CORRECTION = range(5)
LooksWithMistake = namedtuple("LooksWithMistake", [*BarkerLooks._fields, "mistake"])


@njit
def _decide_with_mistake(looks, look, m, offset, scale, noise):
    estimate = scale * m.mean + offset
    if looks.mistake == SKIP_NOISE_WHEN_CLEAR and abs(estimate) > 5 * scale * standard_error(m):
        return ACCEPT if estimate > 0 else REJECT
    if looks.mistake == GREEDY_AT_FULL_DATA and m.n == m.n_total:
        return ACCEPT if estimate > 0 else REJECT
    if looks.mistake == VARIANCE_FOR_SD:
        m = Moments(m.n, m.n_total, m.mean, m.sd**2, m.bound, m.shape)
    if looks.mistake == NO_PRIOR:
        offset = 0.0
    if looks.mistake == NO_CORRECTION:
        noise = BarkerNoise(noise.logistic, noise.normal, 0.5)
    return decide_barker(looks, look, m, offset, scale, noise)


@dataclass(frozen=True)
class Planted(Barker):
    """Barker's test with a mistake in its decision, which is compiled once for all of them."""

    mistake: int = -1
    decide = staticmethod(_decide_with_mistake)

    def looks(self, n_rows):
        return LooksWithMistake(*super().looks(n_rows), self.mistake)


REGIMES = {
    "little noise": rows("normal", 1),
    "one batch": rows("normal", 40),
    "some batches": rows("normal", 300),
    "all rows": rows("normal", 3_000, 300),
}


@pytest.mark.slow
@pytest.mark.parametrize("regime", REGIMES)
def test_acceptance_follows_the_logistic_curve(regime):
    assert np.abs(curve(Barker(100), REGIMES[regime])).max() < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mistake", "regime"),
    [
        (SKIP_NOISE_WHEN_CLEAR, "little noise"),
        (VARIANCE_FOR_SD, "some batches"),
        (GREEDY_AT_FULL_DATA, "all rows"),
        (NO_PRIOR, "little noise"),
        (NO_CORRECTION, "one batch"),
    ],
    ids=["noise skipped when clear", "variance for sd", "greedy at full data", "no prior", "no correction"],
)
def test_mistakes_leave_the_logistic_curve(mistake, regime):
    assert np.abs(curve(Planted(100, mistake=mistake), REGIMES[regime])).max() > 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exponential", "lognormal"])
def test_skewness_option_halves_the_bias_of_skewed_rows(kind):
    values = rows(kind, 400)
    # A bias of a hundredth, which takes more decisions to see than a mistake does.
    of = {"grid": GRID[3:5], "n_tests": 30_000}
    plain, corrected = (np.abs(curve(Barker(100, skewness=s), values, **of)).max() for s in (False, True))
    assert plain > 1
    assert corrected < plain / 2


@njit
def _one_look(values, n_rows, target, n_tests, rng):
    """Estimate plus noise from one batch each, with plain and with skewed noise."""
    sums, zeros, scale = np.empty((2, n_tests)), np.zeros(n_rows), float(values.size)
    for k in range(n_tests):
        batch = values[rng.integers(0, values.size, n_rows)]
        sd = batch.std() * np.sqrt(n_rows / (n_rows - 1))
        shape = add_shape(NO_SHAPE, 0, batch.mean(), batch, zeros)
        moments = Moments(n_rows, values.size, batch.mean(), sd, np.inf, shape)
        variance = target - (scale * standard_error(moments)) ** 2
        z = rng.standard_normal()
        sums[0, k] = scale * batch.mean() + np.sqrt(variance) * z
        sums[1, k] = scale * batch.mean() + np.sqrt(variance) * skew_against(moments, scale, variance, z)
    return sums


def test_skewed_noise_cancels_the_skewness_of_a_batch():
    values, n_tests = rows("exponential", 40), 200_000
    plain, corrected = _one_look(values, 80, 2.0, n_tests, np.random.default_rng(3))
    third = stats.skew(values) * (40 / 80) ** 1.5 / np.sqrt(80)
    error = np.sqrt(15 * 2.0**3 / n_tests)
    assert abs(stats.moment(plain, 3) + 2 * third) < MAX_Z * error
    assert abs(stats.moment(corrected, 3)) < MAX_Z * error
    # What it would be if the noise did not know the sample variance.
    assert abs(stats.moment(plain, 3) - third) > MAX_Z * error


def test_the_batch_grows_until_the_variance_is_small_enough():
    _, n_rows = decisions(Barker(50, sigma=0.8, growth=2.0), rows("normal", 150), 0.0, 5_000)
    assert set(n_rows) <= {50, 100, 200, 400, 800}
    assert 150 / 0.8**2 < n_rows.mean() < 2 * 150 / 0.8**2
    assert decisions(Barker(50), REGIMES["all rows"], 0.0, 5)[1].tolist() == [300] * 5
