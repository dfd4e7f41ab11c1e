"""Barker's test on minibatches: its curve is the logistic one, and its parts are the formulas of the paper in NumPy."""

from dataclasses import dataclass

import numpy as np
import pytest
from decisions import decisions
from evidence import MAX_Z
from numba import njit
from scipy import special, stats

from pymc_austerity.acceptance import ACCEPT, REJECT, UNDECIDED
from pymc_austerity.acceptance.barker import (
    Barker,
    BarkerNoise,
    barker_threshold,
    decide_barker,
    normality_error,
    skew_against,
    stopping_bias,
)
from pymc_austerity.acceptance.correction import correction
from pymc_austerity.acceptance.moments import NO_SHAPE, Moments, add_shape, standard_error

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


#: Rows of which 40 are read, and the scale that makes the standard error of the log ratio .7.
ROWS, N_TOTAL = np.random.default_rng(3).exponential(size=40), 100
MEAN, SD, THIRD = ROWS.mean(), ROWS.std(ddof=1), stats.moment(ROWS, 3)
MOMENTS = Moments(40, N_TOTAL, MEAN, SD, np.inf, add_shape(NO_SHAPE, 0, MEAN, ROWS, np.zeros(40)))
ERROR = SD * np.sqrt((1 - 39 / 99) / 40)
SCALE = 0.7 / ERROR
NOISE = BarkerNoise(0.3, 0.8, 0.7)
SIGMA = 0.9
LOOKS = Barker(40, sigma=SIGMA).looks(N_TOTAL)


def threshold_by_hand(looks, *, normal=NOISE.normal, bias=0.0):
    """−(bias + X_nc + X_corr), X_corr the first atom whose cumulative probability is above the uniform number."""
    added = next(atom for atom, up_to in zip(looks.atoms, looks.cumulative) if up_to > NOISE.uniform)
    return -(bias + np.sqrt(SIGMA**2 - 0.7**2) * normal + added)


def test_threshold_is_missing_noise_and_correction():
    found = [barker_threshold(LOOKS, look, MOMENTS, SCALE, NOISE) for look in (0, 1)]
    assert found == pytest.approx([threshold_by_hand(LOOKS)] * 2, rel=1e-9)


def test_skewness_is_in_the_noise_and_later_in_the_bias():
    looks = Barker(40, sigma=SIGMA, skewness=True).looks(N_TOTAL)
    skewed = skew_against(MOMENTS, SCALE, SIGMA**2 - 0.7**2, NOISE.normal)
    bias = stopping_bias(MOMENTS, SCALE)
    assert abs(skewed - NOISE.normal) > 0.01
    assert bias > 0.01
    first, second = (barker_threshold(looks, look, MOMENTS, SCALE, NOISE) for look in (0, 1))
    assert first == pytest.approx(threshold_by_hand(looks, normal=skewed), rel=1e-9)
    assert second == pytest.approx(threshold_by_hand(looks, bias=bias), rel=1e-9)


def test_stopping_bias_is_third_moment_over_variance():
    """E[mean] − μ = −Cov(Σl_i, n)/n² with n in proportion to the variance, smaller by the share of rows left."""
    assert stopping_bias(MOMENTS, SCALE) == pytest.approx(SCALE * THIRD / (SD**2 * 40) * 0.6, rel=1e-9)


@pytest.mark.parametrize(("times", "limited"), [(1.0, False), (-1.0, False), (30.0, True), (-30.0, True)])
def test_skewed_noise_has_the_third_cumulant_that_is_missing(times, limited):
    """2κ of the estimate, for κ of a mean of rows drawn without replacement, by z + c(z² − 1) of skewness 6c."""
    share = 0.4
    kappa, covariance = THIRD * (1 - share) * (1 - 2 * share) / 40**2, THIRD * (1 - share) ** 2 / 40**2
    variance, scale, z = 2.0, times * SCALE, 0.8
    skewness = (3 * covariance - kappa) * scale**3 / variance**1.5
    assert (abs(skewness) > 1) == limited
    c = np.clip(skewness, -1, 1) / 6
    expected = (z + c * (z**2 - 1)) / np.sqrt(1 + 2 * c**2)
    assert skew_against(MOMENTS, scale, variance, z) == pytest.approx(expected, rel=1e-9)


def test_the_normality_error_is_the_bound_of_the_corollary():
    x = (ROWS - MEAN) / SD
    expected = (6.4 * (np.abs(x) ** 3).mean() + 2 * np.abs(x).mean()) / np.sqrt(40)
    assert normality_error(MOMENTS) == pytest.approx(expected, rel=1e-9)


def test_the_normality_error_of_rows_that_hardly_differ():
    # The cube of the last is zero where its square is not.
    for sd in (0.0, 1e-300, 1e-120):
        assert normality_error(Moments(40, N_TOTAL, 1.0, sd)) == 0.0
    rows = 1e-90 * ROWS  # the cube of their deviation is a number, its fourth power is none
    shape = add_shape(NO_SHAPE, 0, rows.mean(), rows, np.zeros(40))
    found = normality_error(Moments(40, N_TOTAL, rows.mean(), rows.std(ddof=1), np.inf, shape))
    assert found == pytest.approx(normality_error(MOMENTS), rel=1e-9)


def test_decision_needs_a_variance_below_sigma_squared():
    for log_ratio, verdict in ((-1e-6, REJECT), (1e-6, ACCEPT)):
        offset = log_ratio + barker_threshold(LOOKS, 0, MOMENTS, SCALE, NOISE) - SCALE * MEAN
        assert decide_barker(LOOKS, 0, MOMENTS, offset, SCALE, NOISE) == verdict
    verdicts = [decide_barker(LOOKS, 0, MOMENTS, 0.0, error * SIGMA / ERROR, NOISE) for error in (0.999, 1.001)]
    assert [verdict == UNDECIDED for verdict in verdicts] == [False, True]


@pytest.mark.parametrize(("times", "decides"), [(1.01, True), (0.99, False)])
def test_batch_beyond_normality_tolerance_reads_on(times, decides):
    looks = Barker(40, sigma=SIGMA, normality_tol=times * normality_error(MOMENTS)).looks(N_TOTAL)
    assert (decide_barker(looks, 0, MOMENTS, 0.0, SCALE, NOISE) != UNDECIDED) == decides
    assert decide_barker(looks, 2, MOMENTS._replace(n=N_TOTAL), 0.0, SCALE, NOISE) == ACCEPT


def test_defaults_and_limits_are_those_documented():
    test = Barker(40)
    assert (test.sigma, test.growth, test.normality_tol, test.skewness) == (1.0, 1.5, None, False)
    assert test.looks(100).sizes.tolist() == [40, 60, 90, 100]
    assert test.looks(100).variance == 1.0
    assert Barker(40, normality_tol=0.2).looks(100).tolerance == 0.2
    assert [Barker(40, **m).reads_shape for m in ({}, {"skewness": True}, {"normality_tol": 0.2})] == [0, 1, 1]
    for kept in ({"sigma": 0.3}, {"sigma": 1.81}, {"growth": 1.001}, {"normality_tol": 1e-9}):
        Barker(2, **kept)


@pytest.mark.parametrize(("sigma", "limit"), [(0.8, 1e-8), (1.0, 1e-7), (1.5, 3e-3)])
def test_normal_plus_correction_is_logistic(sigma, limit):
    """The paper reports 6.7e-6 at σ = 0.8 and 9e-4 at σ = 1."""
    (atoms, cumulative), y = correction(sigma), np.linspace(-40, 40, 16_001)
    probabilities = np.diff(cumulative, prepend=0.0)

    def error(atoms):
        return np.abs(stats.norm.cdf(y[:, None], atoms, sigma) @ probabilities - special.expit(y)).max()

    assert error(atoms) < limit
    assert error(1.1 * atoms) > limit  # planted mistake
    assert (probabilities > 0).all()
    assert atoms == pytest.approx(-atoms[::-1])
    assert (np.diff(atoms) >= 0).all()
    assert correction(sigma)[0] is atoms  # once in a process
