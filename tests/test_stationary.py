"""What the chains converge to: exact posteriors, and the bias of the approximate test as enumerated."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from enumeration import acceptance_probability
from evidence import LEVEL, MAX_Z, moment_z, occupancy_p, stationary_law
from scipy import stats
from toy import AnyTest, MissingRoot, NoPrior, walk

import pymc_austerity as pma
from pymc_austerity.acceptance.sequential import SequentialT
from pymc_austerity.acceptance.uncorrected import FixedBatch

QUIET = {"progressbar": False, "compute_convergence_checks": False, "cores": 1, "random_seed": 8}

pytestmark = pytest.mark.slow

NORMAL_ROWS = np.random.default_rng(60).normal(0.4, 1.0, size=600)
NORMAL_SD = 1 / np.sqrt(600 + 1 / 0.05**2)
NORMAL_POSTERIOR = stats.norm(NORMAL_ROWS.sum() * NORMAL_SD**2, NORMAL_SD)


def _sampled_z(test):
    """Distances of mean and variance under ``pm.sample`` from the exact ones, tuning included."""
    with pm.Model():
        pm.Normal("y", pm.Normal("mu", 0, 0.05), 1, observed=NORMAL_ROWS)
        step = AnyTest(test, proposal=pma.RandomWalk(scale=2 * NORMAL_SD), model=None, rng=5, tune=True)
        idata = pm.sample(2_500, tune=500, chains=4, step=step, **QUIET)
    return np.abs(moment_z(idata.posterior["mu"].to_numpy(), NORMAL_POSTERIOR.mean(), NORMAL_SD))


def test_sampled_moments_are_the_posterior_moments_but_of_a_fixed_batch():
    assert _sampled_z(SequentialT(0.001, 100)).max() < MAX_Z
    assert _sampled_z(FixedBatch(20)).max() > MAX_Z


# A few states of an integer variable on a few rows: the transition matrix can be written down.
STATES = np.arange(5)
STATE_ROWS = 2.1 + 1.5 * stats.norm.ppf((np.arange(12) + 0.5) / 12)
STATE_SD, PRIOR_SLOPE, WALK_SD, BATCH = 3.0, -0.4, 1.3, 4


def _state_log_ratios(i, j):
    return (STATE_ROWS - i) ** 2 / (2 * STATE_SD**2) - (STATE_ROWS - j) ** 2 / (2 * STATE_SD**2)


def _transition_matrix(acceptance):
    """Transition matrix of a rounded normal walk that is accepted with probability ``acceptance(i, j)``."""
    matrix = np.zeros((STATES.size, STATES.size))
    for i in STATES:
        for j in STATES[i != STATES]:
            move = stats.norm.cdf((j - i + 0.5) / WALK_SD) - stats.norm.cdf((j - i - 0.5) / WALK_SD)
            matrix[i, j] = move * acceptance(i, j)
        matrix[i, i] = 1 - matrix[i].sum()
    return matrix


@cache
def _approximate(epsilon):
    return _transition_matrix(
        lambda i, j: acceptance_probability(_state_log_ratios(i, j), PRIOR_SLOPE * (j - i), epsilon, BATCH, 400)
    )


def _exact(i, j):
    return min(1.0, np.exp(_state_log_ratios(i, j).sum() + PRIOR_SLOPE * (j - i)))


POSTERIOR = np.exp(PRIOR_SLOPE * STATES - np.square(STATE_ROWS[:, None] - STATES).sum(axis=0) / (2 * STATE_SD**2))
POSTERIOR /= POSTERIOR.sum()


@cache
def _visits(test, n_steps=40_000):
    with pm.Model() as model:
        k = pm.DiscreteUniform("k", 0, STATES[-1])
        pm.Potential("slope", PRIOR_SLOPE * k)
        pm.Normal("y", k, STATE_SD, observed=STATE_ROWS)
    step = AnyTest(test, proposal=pma.RandomWalk(scale=WALK_SD), model=model, rng=17)
    draws, _ = walk(step, {"k": np.array(2)}, n_steps)
    return np.bincount(draws.astype(int), minlength=STATES.size)


def test_the_exact_matrix_leaves_the_posterior_alone():
    assert stationary_law(_transition_matrix(_exact)) == pytest.approx(POSTERIOR)


@pytest.mark.parametrize("epsilon", [0.2, 0.5])
def test_chain_visits_states_as_often_as_enumerated(epsilon):
    assert occupancy_p(_visits(SequentialT(epsilon, BATCH)), _approximate(epsilon)) > LEVEL


@pytest.mark.parametrize("planted", [NoPrior, MissingRoot])
def test_a_mistake_moves_the_visits(planted):
    assert occupancy_p(_visits(planted(0.2, BATCH)), _approximate(0.2)) < LEVEL


def test_the_bias_of_a_careless_test_shows_in_the_visits():
    assert occupancy_p(_visits(SequentialT(0.5, BATCH)), _transition_matrix(_exact)) < LEVEL
