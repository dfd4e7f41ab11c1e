"""Scales move together with their effects on the surrogate: which these are, and the law that the moves leave."""

from typing import NamedTuple

import numpy as np
import pymc as pm
import pytest
from evidence import moments_on_grid
from numba import njit
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.scale_moves import NO_SCALES, ScaleMoves, build_rescaling, find_scales

N, INFORMATION, MANY = 6, 2.0, 4_000


class State(NamedTuple):
    scales: ScaleMoves
    linearisation: float


@njit
def _funnel(theta, added, surroundings):
    """log τ ~ N(0, 1), effects N(0, τ²), and rows that say a little of each; `added` is a planted mistake."""
    t, squares = theta[0], (theta[1:] ** 2).sum()
    value = -(t**2) / 2 - N * t - np.exp(-2 * t) * squares / 2 - INFORMATION * squares / 2
    return value + added * t, theta


def exact_draws(rng):
    """Independent draws: log τ from its marginal on a grid, the effects given it."""
    grid = np.linspace(-9, 5, 4_001)
    log_p = -(grid**2) / 2 - N / 2 * np.log1p(INFORMATION * np.exp(2 * grid))
    below = np.cumsum(np.exp(log_p - log_p.max()))
    t = np.interp(rng.random(MANY), below / below[-1], grid)
    u = rng.standard_normal((MANY, N)) / np.sqrt(np.exp(-2 * t) + INFORMATION)[:, None]
    return np.column_stack([t, u])


@pytest.mark.parametrize("added", [0.0, 1.0], ids=["right", "a Jacobian of one effect too many"])
def test_moves_leave_the_law_as_it_is(added):
    rng, rescale = np.random.default_rng(1), build_rescaling(_funnel)
    effects = np.arange(1, N + 1)
    state = State(ScaleMoves(np.zeros(1, np.int64), np.array([0, N]), effects, np.ones(N)), added)
    before = exact_draws(rng)
    after = np.array([rescale(rng, theta, _funnel(theta, added, ())[0], state, ())[0] for theta in before])
    assert np.abs(after[:, 0] - before[:, 0]).mean() > 0.3  # and they move
    np.testing.assert_allclose(after[:, 1:] * np.exp(-after[:, :1]), before[:, 1:] * np.exp(-before[:, :1]), rtol=1e-9)
    shift = after[:, 0] - before[:, 0]
    standard_errors = shift.mean() / (shift.std() / np.sqrt(MANY))
    assert (abs(standard_errors) < 4) == (added == 0.0)


def prior_of(psi, fixed, c):
    """Entries 1, 2 about zero with the scale e^θ₀; 3 about one with it; 4, 5 with the precision e^θ₆; 7 by itself."""

    def log_density(at):
        tau, precision = np.exp(at[0]), np.exp(at[6])
        z = [at[1] / tau, at[2] / tau, (at[3] - 1) / tau, at[4] * np.sqrt(precision), at[5] * np.sqrt(precision), at[7]]
        return -0.5 * np.dot(z, z) - 3 * at[0] + at[6]

    def slope(at):
        return np.array([(log_density(at + e) - log_density(at - e)).real / 2e-4 for e in 1e-4 * np.eye(at.size)])

    hessian = np.array([(slope(psi + e) - slope(psi - e)) / 2e-2 for e in 1e-2 * np.eye(psi.size)])
    return Sums(log_density(psi), slope(psi)[c], hessian[np.ix_(c, c)])


def test_scales_and_their_effects_are_found():
    psi, rows = np.array([-0.2, 0.3, 0.1, 0.4, -0.5, 0.2, 0.4, 0.1]), np.array([1, 2, 3, 4, 5, 7])
    found = find_scales(prior_of, psi, (), rows, np.ones(6))
    assert found.place.tolist() == [0, 6]
    assert found.first.tolist() == [0, 2, 4]
    assert found.effects.tolist() == [1, 2, 4, 5]
    np.testing.assert_allclose(found.power, [1, 1, -0.5, -0.5], atol=1e-3)
    # Where the rows say all, one mass matrix serves.
    assert find_scales(prior_of, psi, (), rows, np.full(6, 1e3)).place.size == NO_SCALES.place.size


@pytest.mark.slow
def test_a_scale_that_may_be_zero_is_sampled_in_one_decision():
    """Against quadrature: effects with their mean taken off, in data without any."""
    levels, each = 20, 30
    y, g = np.random.default_rng(5).normal(size=levels * each), np.repeat(np.arange(levels), each)
    with pm.Model() as model:
        tau, z = pm.HalfNormal("tau", 1), pm.Normal("z", shape=levels)
        pm.Normal("y", (tau * (z - z.mean()))[g], 1, observed=y)
        step = pma.PenaltyMH(progressbar=False)
    idata = sampled(model, step, 2_000, seed=1)
    means, grid = y.reshape(levels, each).mean(axis=1), np.linspace(1e-4, 1.0, 2_000)
    shrunk = each * grid**2 / (1 + each * grid**2)
    log_p = -(grid**2) / 2 + (levels - 1) / 2 * np.log1p(-shrunk) + each / 2 * levels * means.var() * shrunk
    mean, sd = moments_on_grid(grid, log_p)
    drawn = idata.posterior["tau"].values
    halves = drawn.reshape(20, -1).mean(axis=1)
    error = halves.std() / np.sqrt(20)
    assert error < 0.15 * sd  # a frozen chain's is as large as the standard deviation
    assert abs(drawn.mean() - mean) < 4 * error + 0.02 * sd
