"""Real rows: the approximate chain has the means and variances of the exact one; an uncorrected batch has not."""

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
def _problem(folder):
    model, n_draws = radon(folder)
    return model, n_draws, *_mode_and_covariance(model)


@cache
def _draws(folder, test, seed):
    """Draws (chain, draw, variable) of chains that start at the mode."""
    model, n_draws, mode, covariance = _problem(folder)
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


def _distance(folder, test):
    exact, found = _draws(folder, Exact(), 1), _draws(folder, test, 2)
    return max(np.abs(difference_z(a, b)).max() for a, b in zip(np.moveaxis(found, 2, 0), np.moveaxis(exact, 2, 0)))


def test_means_and_variances_are_those_of_the_exact_chain(data_folder):
    assert _distance(data_folder, SequentialT(0.01, 500)) < TOLERANCE
    assert _distance(data_folder, FixedBatch(200)) > TOLERANCE
