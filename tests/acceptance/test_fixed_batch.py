"""Gao's rule: exact on all rows, over-dispersed on fewer, and more so the fewer."""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z

import pymc_austerity as pma
from pymc_austerity.acceptance.uncorrected import FixedBatch

N = 2_000


@pytest.mark.slow
def test_all_rows_give_the_posterior_and_fewer_spread_it():
    """Of a normal mean with known variance and a flat prior: the posterior is N(ȳ, 1/N)."""
    y, draws = np.random.default_rng(6).normal(size=N), {}
    with pm.Model():
        mu = pm.Flat("mu", initval=0.0)
        pm.Normal("y", mu, 1, observed=(y - y.mean()) / y.std())
        for n in (N, N // 4, N // 16):
            step = pma.MinibatchMH(
                proxy=None, batch_size=n, proposal=pma.RandomWalk(scale=2.4 / np.sqrt(N)), tune=False
            )
            run = pm.sample(
                3_000, tune=200, step=step, chains=2, cores=1, random_seed=3, progressbar=False,
                compute_convergence_checks=False,
            )  # fmt: skip
            draws[n] = run.posterior["mu"].to_numpy()
            assert (run.sample_stats["n_rows"] == n).all()
    assert np.abs(moment_z(draws[N], 0.0, 1 / np.sqrt(N))).max() < MAX_Z
    assert moment_z(draws[N // 4], 0.0, 1 / np.sqrt(N))[1] > MAX_Z
    sd = [draws[n].std() * np.sqrt(N) for n in (N, N // 4, N // 16)]
    assert sd[0] < sd[1] < sd[2]
    assert sd[2] > 1.3


def test_a_batch_beyond_the_data_is_all_rows():
    assert FixedBatch(500).looks(100).sizes.tolist() == [100]
