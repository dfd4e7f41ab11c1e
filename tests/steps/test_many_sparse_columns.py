"""A sparse table of more columns than a dense one may have, against the posterior that algebra gives."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor.sparse as ps
import pytest
from scipy import linalg, sparse
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import as_dataset
from pymc_austerity.proxy import log_posterior

N, P, ENTRIES = 6_000, 300, 10


@pytest.mark.slow
def test_the_posterior_of_a_normal_regression_is_the_exact_one(monkeypatch, caplog):
    monkeypatch.setattr(log_posterior, "_MAX_EXPANDED", 200)
    rng = np.random.default_rng(3)
    columns = rng.integers(0, P, N * ENTRIES)
    X = sparse.csr_matrix((rng.normal(size=N * ENTRIES), (np.repeat(np.arange(N), ENTRIES), columns)), shape=(N, P))
    y = X @ rng.normal(0, 0.3, P) + rng.normal(size=N)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 0.5, shape=P)
        pm.Normal("y", ps.dot(X, beta), 1.0, observed=y)
        step = pma.PenaltyMH(progressbar=False)
    idata = sampled(model, step, 300, tune=200, seed=1, chains=1, quiet=True)
    assert "The rows read few of 300 parameters each" in caplog.text
    draws, error = idata.posterior["beta"].to_numpy()[0], as_dataset(az.mcse(idata))["beta"].to_numpy()
    # Planted: a table whose columns are shifted by one.
    for table, right in ((X, True), (X[:, np.roll(np.arange(P), 1)], False)):
        precision = (table.T @ table).toarray() + np.eye(P) / 0.25
        factor = linalg.cholesky(precision, lower=True)
        z = (draws.mean(axis=0) - linalg.cho_solve((factor, True), table.T @ y)) / error
        # A mean of P squares of about standard normal numbers.
        assert (abs((z**2).mean() - 1) < 6 * np.sqrt(2 / P)) == right
        if right:
            sd = linalg.norm(linalg.solve_triangular(factor, np.eye(P), lower=True), axis=0)
            assert abs((draws.std(axis=0) / sd).mean() - 1) < 0.02
    assert idata.sample_stats["accepted"].mean() > 0.9
