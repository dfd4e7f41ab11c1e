"""Verdicts on runs whose error is known, a few of those whose table is in ``docs/trust.md``."""

import arviz as az
import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.diagnostics.decision_verdicts import LARGEST_MEAN_SHIFT, MEAN_SHIFT, judge_means, judge_spread
from pymc_austerity.diagnostics.measured_error import MeanShift
from pymc_austerity.diagnostics.verdicts import CARE, DO_NOT_TRUST, NOT_KNOWN, TRUST

N = 4_000
SETTINGS = {"chains": 4, "cores": 1, "random_seed": 7, "progressbar": False, "compute_convergence_checks": False}


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
    with model:
        idata = pm.sample(draws, tune=500, step=step, **SETTINGS)
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
def test_a_default_that_is_far_off_is_not_trusted(mean_model):
    """Far is .05 posterior standard deviations; the rows are those of the tests of faults."""
    with mean_model:
        step = pma.PenaltyMH(proxy=None)
    set_rows(mean_model, np.random.default_rng(2).lognormal(0, 2, size=N))
    idata, report = judged(mean_model, step, draws=2_000)
    draws = idata["posterior"]["mu"] * np.sqrt(N)
    error = float(az.mcse(draws.to_dataset(name="mu"), method="mean")["mu"])
    assert error < 0.05
    assert report.verdict == DO_NOT_TRUST or abs(float(draws.mean())) < 0.05 + 2 * error, str(report)


@pytest.mark.slow
def test_what_is_right_is_trusted(mean_model, by_default):
    """The controls: an exact test on the same rows, and the default on normal rows."""
    set_rows(mean_model, np.random.default_rng(2).lognormal(0, 2, size=N))
    with mean_model:
        step = pma.ExactMH(proxy=None)
    _, report = judged(mean_model, step, draws=1_000)
    assert report.verdict == TRUST, str(report)
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


@pytest.mark.parametrize("judge", [judge_means, judge_spread])
@pytest.mark.parametrize(
    ("value", "half", "verdict"),
    [
        (0.0, 0.005, TRUST),
        (0.9 * MEAN_SHIFT[1], 0.005, CARE),
        (-MEAN_SHIFT[1] - 0.02, 0.005, DO_NOT_TRUST),
        (0.0, 1.1 * LARGEST_MEAN_SHIFT, NOT_KNOWN),
        (MEAN_SHIFT[1], 1.1 * LARGEST_MEAN_SHIFT, NOT_KNOWN),
    ],
)
def test_distrust_has_to_be_shown_and_so_has_trust(judge, value, half, verdict):
    shift = MeanShift("mu", value, value - half, value + half)
    expected = TRUST if judge is judge_spread and verdict == CARE and half == 0.005 else verdict
    assert judge(shift, "Read more rows.").verdict == expected
