"""Effects with exponential tails come back from there: rates of groups in which no event, or every one, was seen."""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z
from grouped import largest_z, moves
from scipy import special, stats

import pymc_austerity as pma
from pymc_austerity.groups.group_tails import find_tails, propose_across, propose_by_tails

#: Shape of log-gamma laws, and points over which they are integrated.
SHAPE, GRID = 0.2, np.linspace(-80, 12, 40_001)


def log_gamma(z):
    """Log density of z where exp(m + z / C) has a Gamma law of this shape, and m and C are its mode and curvature."""
    eta = z / np.sqrt(SHAPE) + np.log(SHAPE)
    return SHAPE * eta - np.exp(eta)


def log_law(k, x):
    return np.array([log_gamma(x), -x * x / 2, log_gamma(-x)])


@pytest.fixture(scope="module")
def tails():
    return find_tails(log_law, np.array([1, 1, 1]), 1)


def test_laws_far_from_normal_are_fitted(tails):
    assert tails.number.tolist() == [0, -1, 1]
    law = stats.loggamma(SHAPE, loc=-np.log(SHAPE), scale=1)
    low, middle = law.ppf([0.1, 0.5]) * np.sqrt(SHAPE)
    unit = stats.t.ppf(0.9, 4)
    curve = tails.bend[0, 0] * (np.sqrt(1 + unit**2) - 1)
    found = [tails.middle[0, 0], tails.width[0, 0] * unit - curve]
    np.testing.assert_allclose(found, [middle, middle - low], rtol=0.05, atol=0.05)
    assert tails.bend[0, 0] < 0
    assert tails.middle[1, 0] == pytest.approx(-tails.middle[0, 0])
    assert tails.bend[1, 0] == pytest.approx(-tails.bend[0, 0])


def test_groups_of_tied_factors_are_left_as_they_are():
    assert (find_tails(log_law, np.array([0, 1, 0]), 1).number == -1).all()


def test_laws_without_a_density_in_the_middle_are_fitted():
    found = find_tails(lambda k, x: np.array([np.nan, -np.inf]), np.array([1, 1]), 1)
    assert np.isfinite([found.middle, found.width, found.bend]).all()


def walked(tails, planted, n=40_000):
    """Draws of the log-gamma law by proposals from its tails."""
    rng, z, draws = np.random.default_rng(3), np.zeros(1), np.empty(n)
    for i in range(n):
        z_new = rng.standard_normal(1)
        log_q_ratio = propose_by_tails(z, z_new, 1, 0, tails, rng)
        change = log_gamma(z_new[0]) - log_gamma(z[0])
        if np.log1p(-rng.random()) < change + planted * log_q_ratio:
            z = z_new.copy()
        draws[i] = z[0]
    return draws.reshape(4, -1)


@pytest.mark.parametrize("planted", [1.0, 0.0])
def test_proposals_from_tails_keep_the_law(tails, planted):
    """Control: the ratio of the proposals is left out."""
    weight = special.softmax(log_gamma(GRID))
    mean = weight @ GRID
    sd = np.sqrt(weight @ (GRID - mean) ** 2)
    assert (np.abs(moment_z(walked(tails, planted), mean, sd)).max() < MAX_Z) == (planted == 1)


@pytest.mark.parametrize("planted", [1.0, 0.0])
def test_proposals_across_keep_a_normal_law(planted):
    """Control: the ratio of the proposals is left out."""
    rng, z, draws = np.random.default_rng(5), np.zeros(2), np.empty((20_000, 2))
    for i in range(len(draws)):
        z_new = rng.standard_normal(2)
        log_q_ratio = propose_across(z, z_new, 2, 3.0, rng)
        if np.log1p(-rng.random()) < (z @ z - z_new @ z_new) / 2 + planted * log_q_ratio:
            z = z_new
        draws[i] = z
    squares = (draws**2).sum(1).reshape(4, -1)
    assert (np.abs(moment_z(squares, 2.0, 2.0)).max() < MAX_Z) == (planted == 1)


def across(z, z_new, rng):
    """Propose from a normal law, across its centre, or in one of twenty cases by a walk."""
    walks = rng.random() < 0.05
    z_new[0] = (z[0] + 2.38 * rng.normal()) if walks else -0.4 * z[0] + np.sqrt(0.84) * rng.normal()
    return 0.0 if walks else (z_new[0] ** 2 - z[0] ** 2) / 2


def times_until_back(propose, n_starts=40, most=2000):
    """How many proposals it takes to come back from far out in the tail, from each of some starts."""
    rng, times = np.random.default_rng(4), []
    for _ in range(n_starts):
        z, z_new, taken = np.array([-12.0]), np.empty(1), 0
        while z[0] < -3 and taken < most:
            taken, z_new[0] = taken + 1, rng.normal()
            change = propose(z, z_new, rng) + log_gamma(z_new[0]) - log_gamma(z[0])
            if np.log1p(-rng.random()) < change:
                z[0] = z_new[0]
        times.append(taken)
    return np.mean(times)


def test_groups_come_back_from_their_tails(tails):
    """The control is proposed to from a normal law."""
    by_tails = times_until_back(lambda z, z_new, rng: propose_by_tails(z, z_new, 1, 0, tails, rng))
    assert 4 * by_tails < times_until_back(across)


N_GROUPS, EACH, PRIOR_SHAPE = 12, 4, 0.3
EXPOSURE = np.random.default_rng(1).uniform(0.5, 2, (N_GROUPS, EACH))
COUNTS = np.random.default_rng(2).poisson(np.r_[np.zeros(8), 0.5, 1, 2, 4][:, None] * EXPOSURE)


def posterior_of_rates(exposure):
    """Means and standard deviations of the log rate and of the log of each effect; effects are integrated out."""
    x = np.linspace(-5, 5, 4001)
    shape, rate = PRIOR_SHAPE + COUNTS.sum(1), exposure.sum(1)[:, None] + np.exp(x)
    log_weight = N_GROUPS * PRIOR_SHAPE * x - (shape[:, None] * np.log(rate)).sum(0) - x * x / 2
    weight = special.softmax(log_weight)
    mean_given = special.digamma(shape)[:, None] - np.log(rate)
    means = np.vstack([x, mean_given])
    squares = np.vstack([x**2, mean_given**2 + special.polygamma(1, shape)[:, None]]) @ weight
    return means @ weight, np.sqrt(squares - (means @ weight) ** 2)


@pytest.mark.slow
def test_rates_without_events_follow_their_law():
    """Gamma rates of Poisson counts: eight groups have none, and the log of a rate a tail of exp(0.3 x).

    The control is the law of rates that were looked at for twice as long.
    """
    index = np.repeat(np.arange(N_GROUPS), EACH)
    with pm.Model():
        log_rate = pm.Normal("log_rate", 0, 1)
        effect = pm.Gamma("effect", PRIOR_SHAPE, pm.math.exp(log_rate), shape=N_GROUPS)
        pm.Poisson("y", pm.Data("t", EXPOSURE.ravel()) * effect[pm.Data("g", index)], observed=COUNTS.ravel())
        rates = pma.GroupMH(rng=1, progressbar=False).decider
    data = rates.data()
    assert (data.tails.number[:8] >= 0).all()
    draws = np.array([refresh.theta for *_, refresh in moves(rates, 8_000, data, seed=8)])
    for times in (1, 2):
        assert (largest_z(draws.T, posterior_of_rates(times * EXPOSURE)) < MAX_Z) == (times == 1)
