"""Real rows: the approximate chain has the means and variances of the exact one; an uncorrected batch has not.

Random subsets of the rows keep each comparison to some seconds.
"""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from evidence import difference_z
from pytensor.compile.mode import Mode
from scipy.optimize import minimize
from toy import AnyTest

import pymc_austerity as pma
from pymc_austerity.acceptance.all_rows import Exact
from pymc_austerity.acceptance.sequential import SequentialT
from pymc_austerity.acceptance.uncorrected import FixedBatch

pytestmark = pytest.mark.slow

#: Standard errors of a difference, which are themselves estimated, over up to a hundred comparisons at once.
TOLERANCE = 5.0
CHAINS = 2


def _standardised(columns):
    columns = np.asarray(columns, float)
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def _with_intercept(columns):
    return np.column_stack([np.ones(len(columns)), _standardised(columns)])


def _some(n_total, n):
    return np.sort(np.random.default_rng(2014).choice(n_total, n, replace=False))


def covtype(folder):
    """Forest cover: 10 quantitative columns, 4,000 of 581,012 rows."""
    with np.load(folder / "covtype_binary.npz") as data:
        rows = _some(len(data["y"]), 4_000)
        x, y = _with_intercept(data["X"][rows, :10]), data["y"][rows].astype(float)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=x.shape[1])
        pm.Bernoulli("y", logit_p=pm.Data("x", x) @ beta, observed=pm.Data("labels", y))
    return model, 6_000


def radon(folder):
    """Radon in homes: the 12 counties with most homes, intercepts that vary by county."""
    with np.load(folder / "radon_all.npz") as data:
        x, y = data["X"].astype(float), data["y"].astype(float)
    county, floor = x[:, 0].astype(int), x[:, 1]
    largest = np.argsort(np.bincount(county))[::-1][:12]
    rows = np.isin(county, largest) & (floor < 9)
    index = np.searchsorted(np.sort(largest), county[rows])
    above, y = (floor[rows] > 0).astype(float), y[rows]
    with pm.Model() as model:
        mean, spread = pm.Normal("mean", 0, 3), pm.HalfNormal("spread", 1)
        intercept = pm.Normal("intercept", mean, spread, shape=12)
        slope, sigma = pm.Normal("slope", 0, 1), pm.HalfNormal("sigma", 2)
        pm.Normal("y", intercept[index] + slope * above, sigma, observed=y)
    return model, 12_000


def _mode_and_covariance(model):
    """Laplace approximation over the unconstrained variables, from the model's own gradient."""
    point = model.initial_point()
    sizes = [np.size(v) for v in point.values()]
    # A few hundred times: NumPy is done before it would be compiled.
    by_numpy = Mode(linker="py", optimizer="fast_run").excluding("fusion", "inplace", "BlasOpt")
    evaluate = model.compile_fn([model.logp(), model.dlogp()], mode=by_numpy)

    def as_point(vector):
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return {k: p.reshape(np.shape(v)) for (k, v), p in zip(point.items(), parts)}

    def objective(vector):
        logp, gradient = evaluate(as_point(vector))
        return -float(logp), -np.asarray(gradient)

    start = np.concatenate([np.ravel(v) for v in point.values()])
    mode = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    h = 1e-4
    hessian = [(objective(mode + h * e)[1] - objective(mode - h * e)[1]) / (2 * h) for e in np.eye(mode.size)]
    return as_point(mode), np.linalg.inv((np.array(hessian) + np.transpose(hessian)) / 2)


@cache
def _problem(build, folder):
    model, n_draws = build(folder)
    return model, n_draws, *_mode_and_covariance(model)


@cache
def _draws(build, folder, test, seed):
    """Draws (chain, draw, variable) of chains that start at the mode."""
    model, n_draws, mode, covariance = _problem(build, folder)
    proposal = pma.RandomWalk(cov=2.38**2 / len(covariance) * covariance)
    step = AnyTest(test, proposal=proposal, model=model)
    draws = np.empty((CHAINS, n_draws, len(covariance)))
    for chain, rng in zip(draws, np.random.default_rng(seed).spawn(CHAINS)):
        step.start_chain(rng)
        point = mode
        for draw in chain:
            point, _ = step.step(point)
            draw[:] = np.concatenate([np.ravel(v) for v in point.values()])
    return draws[:, n_draws // 20 :]


def _distance(build, folder, test):
    exact, found = _draws(build, folder, Exact(), 1), _draws(build, folder, test, 2)
    return max(np.abs(difference_z(a, b)).max() for a, b in zip(np.moveaxis(found, 2, 0), np.moveaxis(exact, 2, 0)))


@pytest.fixture(scope="module", params=[covtype, radon], ids=lambda build: build.__name__)
def build(request):
    """One data set after the other, so that both comparisons are with the same exact chain."""
    return request.param


def test_means_and_variances_are_those_of_the_exact_chain(build, data_folder):
    assert _distance(build, data_folder, SequentialT(0.01, 500)) < TOLERANCE


def test_an_uncorrected_batch_is_told_from_the_exact_chain(build, data_folder):
    assert _distance(build, data_folder, FixedBatch(200)) > TOLERANCE
