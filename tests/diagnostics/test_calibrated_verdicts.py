"""Verdicts on runs whose error is known, a few of those whose table is in ``docs/trust.md``."""

import numpy as np
import pymc as pm
import pytest
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.diagnostics.verdicts import DO_NOT_TRUST, TRUST

N = 4_000


@pytest.fixture(scope="module")
def mean_model():
    """The mean of rows of variance 1, which are replaced, taken for that of normal rows."""
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=pm.Data("rows", np.random.default_rng(2).normal(size=N)))
    return model


@pytest.fixture(scope="module")
def by_default(mean_model):
    with mean_model:
        return pma.ApproxMH(proxy=None)


def set_rows(model, drawn):
    with model:
        pm.set_data({"rows": (drawn - drawn.mean()) / drawn.std()})


def judged(model, step, draws=3_000):
    idata = sampled(model, step, draws, seed=7, chains=4)
    return idata, pma.reliability(idata, model, step=step, n_states=1_000)


@pytest.mark.slow
def test_defaults_are_not_trusted_where_rows_shift_the_mean(mean_model, by_default):
    """Log-normal rows with log sd 1: forty thousand draws are off by -.062 ± .011 posterior standard deviations."""
    set_rows(mean_model, np.random.default_rng(2).lognormal(0, 1, size=N))
    _, report = judged(mean_model, by_default)
    assert report.verdict == DO_NOT_TRUST, str(report)
    assert report.checks.loc["means", "verdict"] == DO_NOT_TRUST
    assert report.checks.loc["batch means", "verdict"] == TRUST  # nothing but the measured drift could tell


@pytest.mark.slow
def test_what_is_right_is_trusted(mean_model, by_default):
    """The control: the default on normal rows."""
    set_rows(mean_model, np.random.default_rng(3).normal(size=N))
    idata, report = judged(mean_model, by_default)
    assert report.verdict == TRUST, str(report)
    assert abs(float(idata["posterior"]["mu"].mean())) * np.sqrt(N) < 0.1


@pytest.mark.slow
def test_a_posterior_that_is_too_wide_is_not_trusted(mean_model):
    """A batch taken for all rows shifts nothing and widens everything."""
    with mean_model:
        step = pma.MinibatchMH(batch_size=1_000, proxy=None)
    set_rows(mean_model, np.random.default_rng(3).normal(size=N))
    idata, report = judged(mean_model, step)
    assert float(idata["posterior"]["mu"].std()) * np.sqrt(N) > 1.15
    assert report.checks.loc["spread", "verdict"] == DO_NOT_TRUST, str(report)
    assert report.checks.loc["means", "verdict"] == TRUST
