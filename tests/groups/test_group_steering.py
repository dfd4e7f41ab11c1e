"""The quadratic that steers groups with few rows: what it leaves of them, and draws against quadrature."""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z
from grouped import by_group, largest_z, logistic_rows, moments, moves

import pymc_austerity as pma
from pymc_austerity.groups.group_expansion import grouped_sum

# The moves are the same on every PyMC, and long to compile.
pytestmark = pytest.mark.slow

G, SIZE = 60, 4
INDEX = np.repeat(np.arange(G), SIZE)
RNG = np.random.default_rng(21)
Y = (RNG.random(G * SIZE) < 1 / (1 + np.exp(-1.0 - 1.3 * RNG.normal(size=G)[INDEX]))).astype(int)


@pytest.fixture(scope="module")
def decider():
    with pm.Model():
        mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
        effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=G)
        pm.Bernoulli("y", logit_p=effect[INDEX], observed=Y)
        return pma.GroupMH(rng=1, progressbar=False).decider


@pytest.fixture(scope="module")
def law():
    return moments(by_group(logistic_rows(Y), INDEX, G))


def _left(decider, e):
    """Standard deviation of what a quadratic leaves of all rows, over draws of everything."""
    prepared, rng, left = decider.prepared, np.random.default_rng(3), []
    at = decider.others, decider.fixed
    for _ in range(200):
        theta = decider.surrogate.theta(prepared.draw_shared(rng), rng.standard_normal((G, 1)), e)
        rows = sum(terms.sum() for terms in decider.model.group_pass.rows(theta, *at, prepared.rows))
        left.append(rows - grouped_sum(theta, decider.others, e))
    return np.std(left)


def test_averaged_quadratic_leaves_less_of_the_rows(decider):
    at_centre, steering = _left(decider, decider.prepared.expansion), _left(decider, decider.prepared.steering)
    assert at_centre > 0.6
    assert steering < 0.75 * at_centre


def test_steering_centre_is_near_the_posterior_mean(decider, law):
    means, sds = law[:, :2]
    assert np.abs((decider.prepared.mean - means) / sds).max() < 0.4


def _largest_z(decider, law, data, n=16_000):
    made = list(moves(decider, n, data, tune=500))
    draws, accepted = np.array([refresh.theta for *_, refresh in made]), [carried.accepted for _, carried, _ in made]
    return largest_z(draws.T, law), np.mean(accepted)


def test_draws_have_the_moments_of_quadrature(decider, law):
    largest, accepted = _largest_z(decider, law, decider.data())
    assert largest < MAX_Z
    assert accepted > 0.35
    # Planted: what is left out of the rows is the quadratic that steers, and not that whose remainders are drawn.
    data = decider.data()
    assert _largest_z(decider, law, data._replace(expansion=data.steering))[0] > 2 * MAX_Z
