"""What no row reads moves given the effects, by its own law."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z
from numba import njit

import pymc_austerity as pma
from pymc_austerity.groups.along_line import build_move_along
from pymc_austerity.groups.group_given import build_move_given
from pymc_austerity.kernel import pack_generators

pytestmark = pytest.mark.slow

INDEX = np.repeat(np.arange(5), 5)
EFFECTS = np.array([0.3, -1.1, 0.8, 2.0, 0.1])


@pytest.fixture(scope="module")
def case():
    """A step, and a weight that counts the prior of the effects once more where it is one.

    The model is that of `test_group_moves`, for which moves and graphs are compiled once.
    """
    with pm.Model() as model:
        mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
        effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=5)
        again = pm.logp(pm.Normal.dist(mean, pm.math.exp(log_scale)), effect)
        pm.Potential("again", pm.Data("weight", 0.0) * again)
        pm.Normal("y", effect[INDEX], 1, observed=np.arange(25.0) % 2)
        return model, pma.GroupMH(test=pma.Exact(), rng=1, progressbar=False).decider


def _law():
    """Means and standard deviations of the mean and the log scale given the effects, on a grid."""
    m, s = np.meshgrid(np.linspace(-4, 4, 401), np.linspace(-3, 3, 401), indexing="ij")
    rows = -0.5 * ((EFFECTS[:, None, None] - m) / np.exp(s)) ** 2 - s
    weight = np.exp(rows.sum(axis=0) - 0.5 * m**2 - 0.5 * ((s + 0.3) / 0.7) ** 2)
    weight /= weight.sum()
    means = [(weight * x).sum() for x in (m, s)]
    return [(mean, np.sqrt((weight * (x - mean) ** 2).sum())) for x, mean in zip((m, s), means)]


@cache
def _many_moves(density):
    move = build_move_given(build_move_along(density.log_prior))

    @njit
    def run(theta, data, state, generators, n):
        draws = np.empty((n, theta.size))
        for i in range(n):
            theta = move(theta, data, state, generators)
            draws[i] = theta
        return draws

    return run


def _largest_z(decider, fixed, n=20_000):
    run = _many_moves(decider.parts.density)
    generators = pack_generators(*np.random.default_rng(3).spawn(3))
    data = decider.data()._replace(fixed=decider.likelihood.fixed_at(fixed))
    draws = run(np.concatenate([[0.0, 0.0], EFFECTS]), data, decider.new_state(), generators, n)
    assert (draws[:, 2:] == EFFECTS).all()
    assert len(np.unique(draws[:, 0])) > n / 4
    return max(np.abs(moment_z(x, *of)).max() for x, of in zip(draws[:, :2].T.reshape(2, 4, -1), _law()))


def test_mean_and_scale_of_effects_have_their_law_given_the_effects(case):
    _, decider = case
    assert _largest_z(decider, decider.fixed) < MAX_Z


def test_a_prior_that_counts_twice_is_seen(case):
    _, decider = case
    assert _largest_z(decider, (np.array(1.0),)) > MAX_Z
