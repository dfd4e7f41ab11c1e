"""Rows of large Pareto k are evaluated by sampling without them, against a closed form."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from draws_at_hand import pointwise, run_of
from scipy import stats
from toy import sampled

import pymc_austerity as pma

pytestmark = pytest.mark.filterwarnings("ignore:loo. Pareto k")

N, FAR = 400, [10, 200]
X = np.random.default_rng(1).normal(size=N)
X[FAR] = 60, -60
Y = np.random.default_rng(2).normal(size=N) + X / 2
Y[FAR] += 8, -6


def exact_run(x, y, draws=500):
    """Return a run with draws of the posterior of a slope under a standard normal prior."""
    precision, rng = 1 + x @ x, np.random.default_rng(3)
    b = x @ y / precision + rng.normal(size=(4, draws)) / np.sqrt(precision)
    return run_of(posterior=xr.Dataset({"b": (("chain", "draw"), b)}))


def exact_elpd():
    precision = 1 + X @ X - X**2
    return stats.norm.logpdf(Y, X * (X @ Y - X * Y) / precision, np.sqrt(1 + X**2 / precision))


def refitted():
    context = pm.modelcontext(None)
    (left,) = (context.rvs_to_values[rv].eval() for rv in context.observed_RVs)
    assert len(set(Y) - set(left)) == 1  # the model of a run has all rows but one
    return sampled(context, pma.MHSS(progressbar=False), 1_000, tune=100)


def define():
    with pm.Model() as model:
        pm.Normal("y", X * pm.Normal("b"), 1, observed=Y)
    return model


@pytest.mark.slow
def test_rows_of_large_influence_are_sampled_without():
    """Two rows of high leverage are right to the Monte Carlo error of their runs, where importance sampling is not."""
    idata, model, exact = exact_run(X, Y), define(), exact_elpd()
    by_weights = pma.loo(idata, model, random_seed=1, progressbar=False)
    by_refits = pma.loo(idata, model, refit=refitted, random_seed=1, progressbar=False)
    assert np.abs(pointwise(by_weights) - exact).max() > 0.25
    np.testing.assert_allclose(pointwise(by_refits), exact, atol=0.1)
    assert by_weights["warning"]
    assert not by_refits["warning"]
    k = by_refits["pareto_k"]
    assert (k.sel(row=FAR) == 0).all()
    others = np.setdiff1d(np.arange(N), FAR)
    np.testing.assert_array_equal(pointwise(by_refits)[others], pointwise(by_weights)[others])


@pytest.mark.slow
def test_rows_beyond_all_predictions_are_still_warned_of():
    """A row in the far tail of what is predicted without it has a density that rests on a few draws: k stays."""
    y = Y.copy()
    y[FAR] += 30, 30
    with pm.Model() as model:
        pm.Normal("y", X * pm.Normal("b"), 1, observed=y)

    def refit():
        context = pm.modelcontext(None)
        left = context.rvs_to_values[context.observed_RVs[0]].eval()
        keep = np.isin(y, left)
        return exact_run(X[keep], y[keep])

    with pytest.warns(UserWarning, match="Pareto k of 2 of the 400 rows"):
        found = pma.loo(exact_run(X, y), model, refit=refit, random_seed=1, progressbar=False)
    assert (found["pareto_k"].sel(row=FAR) > 1).all()


@pytest.mark.slow
def test_groups_are_sampled_without():
    """All rows of a group leave the model, and the group is predicted from its prior."""
    group = np.arange(N) % 5
    with pm.Model() as model:
        u = pm.Normal("u", pm.Normal("mu", 0, 10), 1, shape=5)
        pm.Normal("y", u[group], 1, observed=Y)
    rng, lengths = np.random.default_rng(5), []

    def draws_about(mean, sd):
        mu = mean + sd * rng.normal(size=(4, 200))
        u = mu[..., None] + rng.normal(size=(4, 200, 5))
        return run_of(posterior=xr.Dataset({"mu": (("chain", "draw"), mu), "u": (("chain", "draw", "g"), u)}))

    def refit():
        context = pm.modelcontext(None)
        lengths.append(len(context.rvs_to_values[context.observed_RVs[0]].eval()))
        return draws_about(0, 0.2)

    found = pma.loo(draws_about(0, 1.2), model, by="u", refit=refit, random_seed=1, progressbar=False)
    assert set(lengths) == {N - N // 5}
    assert (found["pareto_k"].to_numpy() <= 0.7).all()


def test_refit_with_blocks_is_refused():
    with pytest.raises(ValueError, match="refit= does not go with data="):
        pma.loo(exact_run(X, Y), define(), refit=refitted, data=pma.Blocks({"x": X}))
