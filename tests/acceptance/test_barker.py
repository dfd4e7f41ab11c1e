"""Barker's test on minibatches: its curve is the logistic one, and what makes it another."""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
from decisions import decisions
from evidence import MAX_Z
from numba import njit
from scipy import special

from pymc_austerity.acceptance.barker import Barker, BarkerLooks, BarkerNoise, decide_barker
from pymc_austerity.acceptance.decision import ACCEPT, REJECT
from pymc_austerity.acceptance.moments import Moments, standard_error

N = 20_000
GRID = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
#: Decisions at each Δ: the planted mistakes leave the curve by three times what these tell apart, and more.
N_TESTS = 10_000
#: Error of the acceptance probability that finite batches of normal rows may leave: s² is an estimate.
FINITE = 3e-3


def rows(kind, n_needed, n=N):
    """Return `n` row terms of which `n_needed` bring the standard error of the log ratio to 1."""
    rng = np.random.default_rng(2016)
    x = {"normal": rng.normal, "exponential": rng.exponential}[kind](size=n)
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
def test_skewness_option_halves_the_bias_of_skewed_rows():
    values = rows("exponential", 400)
    # A bias of a hundredth, which takes more decisions to see than a mistake does.
    of = {"grid": GRID[3:5], "n_tests": 30_000}
    plain, corrected = (np.abs(curve(Barker(100, skewness=s), values, **of)).max() for s in (False, True))
    assert plain > 1
    assert corrected < plain / 2


def test_the_batch_grows_until_the_variance_is_small_enough():
    _, n_rows = decisions(Barker(50, sigma=0.8, growth=2.0), rows("normal", 150), 0.0, 5_000)
    assert set(n_rows) <= {50, 100, 200, 400, 800}
    assert 150 / 0.8**2 < n_rows.mean() < 2 * 150 / 0.8**2
    assert decisions(Barker(50), REGIMES["all rows"], 0.0, 5)[1].tolist() == [300] * 5
