"""A chain that goes nowhere is told, however many of its proposals are accepted."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_austerity as pma
from pymc_austerity.diagnostics.place_of_draws import movement
from pymc_austerity.diagnostics.verdicts import CARE, DO_NOT_TRUST, TRUST, judge_movement

ROWS = np.random.default_rng(0).normal(1.0, 1.0, size=1_000)


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 10), 1.0, observed=ROWS)
    return model


def stepping(model, scale):
    return pma.ExactMH(proxy=None, model=model, tune=False, proposal=pma.RandomWalk(scale=scale), progressbar=False)


def log_posterior(mu):
    return stats.norm(0, 10).logpdf(mu) + stats.norm(mu, 1).logpdf(ROWS).sum()


def test_movement_is_the_change_of_the_log_posterior(model):
    """Between draws far apart."""
    decider = stepping(model, 0.05).decider
    states = [np.array([mu]) for mu in (0.9, 1.1, 1.2)]
    found, passes = movement(decider, states, np.empty(0))
    assert found == pytest.approx(abs(log_posterior(1.2) - log_posterior(0.9)), rel=1e-9)
    assert passes == 1
    assert movement(decider, [states[0]] * 3, np.empty(0)) == (0.0, 0)


@pytest.mark.parametrize(("change", "verdict"), [(1.0, TRUST), (0.0015, CARE), (1e-6, DO_NOT_TRUST), (0, DO_NOT_TRUST)])
def test_little_movement_is_not_trusted(change, verdict):
    assert judge_movement(change).verdict == verdict


@pytest.mark.parametrize(("scale", "told"), [(1e-9, True), (0.05, False)])
def test_a_step_size_that_collapsed_is_warned_of(model, caplog, scale, told):
    with model:
        idata = pm.sample(
            300, tune=0, chains=1, cores=1, step=stepping(model, scale), initvals={"mu": ROWS.mean()}, random_seed=1,
            progressbar=False, compute_convergence_checks=False,
        )  # fmt: skip
    assert (float(idata.sample_stats["accepted"].mean()) > 0.99) == told
    assert ("The step size has collapsed" in caplog.text) == told
