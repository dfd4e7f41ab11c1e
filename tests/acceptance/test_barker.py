"""Barker's test on minibatches: its curve is the logistic one, and what makes it another."""

from dataclasses import dataclass

import numpy as np
import pytest
from decisions import decisions
from evidence import MAX_Z
from numba import njit
from scipy import special

from pymc_austerity.acceptance.barker import Barker, decide_barker
from pymc_austerity.acceptance.decision import ACCEPT, REJECT
from pymc_austerity.acceptance.moments import standard_error

GRID = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
#: Decisions at each Δ: the planted mistake leaves the curve by three times what these tell apart.
N_TESTS = 10_000
#: Error of the acceptance probability that finite batches of normal rows may leave: s² is an estimate.
FINITE = 3e-3


def rows(kind, n_needed, n=20_000):
    """Return `n` row terms of which `n_needed` bring the standard error of the log ratio to 1."""
    rng = np.random.default_rng(2016)
    x = {"normal": rng.normal, "exponential": rng.exponential}[kind](size=n)
    return (x - x.mean()) / x.std() * np.sqrt(n_needed) / n


def curve(test, values, grid=GRID, n_tests=N_TESTS):
    """Acceptance rate minus the logistic function on a grid of Δ, in units of the tolerated error."""
    rates = np.array([decisions(test, values, d, n_tests, seed=5)[0].mean() for d in grid])
    p = special.expit(grid)
    return (rates - p) / (MAX_Z * np.sqrt(p * (1 - p) / n_tests) + FINITE)


@njit
def _decide_without_noise(looks, look, m, offset, scale, noise):
    estimate = scale * m.mean + offset
    if abs(estimate) > 5 * scale * standard_error(m):
        return ACCEPT if estimate > 0 else REJECT
    return decide_barker(looks, look, m, offset, scale, noise)


@dataclass(frozen=True)
class Planted(Barker):
    """Planted mistake: the noise is left out where the estimate is clear."""

    decide = staticmethod(_decide_without_noise)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "n_needed", "follows"),
    [(Barker, 1, True), (Barker, 300, True), (Planted, 1, False)],
    ids=["little noise", "some batches", "a mistake"],
)
def test_acceptance_follows_the_logistic_curve(test, n_needed, follows):
    assert (np.abs(curve(test(100), rows("normal", n_needed))).max() < 1) == follows


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
    assert decisions(Barker(50), rows("normal", 3_000, 300), 0.0, 5)[1].tolist() == [300] * 5
