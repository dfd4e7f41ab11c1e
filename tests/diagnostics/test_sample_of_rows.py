"""A sample of the rows stands for all of them in a spot check."""

import numpy as np
import pymc as pm
import pytest
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.diagnostics import checks_of_decisions
from pymc_austerity.diagnostics.built_steps import sample_of_rows
from pymc_austerity.diagnostics.spot_check import evaluate_pair, pair_shape
from pymc_austerity.kernel import Proposed

N, K = 40_000, 10_000


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    x = rng.exponential(size=N)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2)
        pm.Bernoulli("y", logit_p=b * x, observed=(rng.random(N) < 1 / (1 + np.exp(-0.5 * x))).astype(int))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"proxy": None}, {"rows": pma.Weighted()}], ids=["uniform", "weighted"])
def test_its_row_terms_are_those_of_all_rows(model, options):
    """The sum within its standard error, and the noise of a batch of 200 rows within a tenth."""
    decider = pma.PenaltyMH(model=model, progressbar=False, **options).decider
    proposed = Proposed(np.array([0.53]), np.array([0.50]), np.empty(0), 0.0)
    everything = evaluate_pair(decider, proposed)
    shape = pair_shape(decider, everything)
    found = []
    for seed in range(20):
        sampled = sample_of_rows(decider, K, np.random.default_rng(seed))
        pair = evaluate_pair(sampled, proposed)
        assert pair.terms.size == K
        assert pair_shape(sampled, pair).noise(200, K, 1.0) == pytest.approx(shape.noise(200, N, 1.0), rel=0.1)
        found.append(pair.terms.sum())
    assert np.mean(found) == pytest.approx(everything.terms.sum(), abs=4.5 * np.std(found) / np.sqrt(20))
    assert np.std(found) < 2 * shape.noise(K, N, 1.0) + 1e-12


@pytest.mark.slow
def test_a_run_that_reads_few_of_many_rows_is_judged_on_it(model, monkeypatch):
    step = pma.PenaltyMH(model=model, progressbar=False)
    idata = sampled(model, step, 400, tune=300, seed=1)
    monkeypatch.setattr(checks_of_decisions, "_MANY_ROWS", 30_000)
    monkeypatch.setattr(checks_of_decisions, "_TIMES_READ", 50)
    report = pma.reliability(idata, model, step=step, n_states=40)
    assert report.looked_at == "a sample of 10,000 rows in place of all 40,000"
    assert report.verdict == "trust", str(report)
    assert {"record", "spot check", "proxy", "sums", "location"} <= set(report.checks.index)
    assert report.passes < 2 * 20 + 1 + 45 * 10_000 / N + 3
