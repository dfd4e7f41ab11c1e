"""Likelihoods that sums over the data determine: the exact chain without a row, with the scale unknown too."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma
from pymc_austerity.diagnostics.decision_verdicts import judge_sums
from pymc_austerity.diagnostics.spot_check import against_rows
from pymc_austerity.kernel import Proposed

N = 60
RNG = np.random.default_rng(1)
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, -0.5] + RNG.normal(size=N)
QUIET = {"progressbar": False, "compute_convergence_checks": False, "cores": 1, "chains": 1, "random_seed": 3}


def regression():
    with pm.Model() as model:
        mean = pm.math.dot(pm.Data("x", X), pm.Normal("b", 0, 1, shape=2))
        pm.Normal("y", mean, pm.HalfNormal("s", 1), observed=Y)
    return model


@pytest.fixture(scope="module")
def model():
    return regression()


@pytest.fixture(scope="module")
def step(model):
    return pma.MHSS(proposal=pma.CrankNicolson(), model=model)


@pytest.mark.slow
def test_no_row_is_read_and_decisions_are_those_of_all_rows(model, step):
    with model:
        exact = pma.ExactMH(proposal=pma.CrankNicolson())
        ours, exact = (pm.sample(200, tune=50, step=one, **QUIET) for one in (step, exact))
    assert step.predicted_rows == 0
    assert float(ours.sample_stats["n_rows"].max()) == 0
    assert np.array_equal(ours.sample_stats["accepted"], exact.sample_stats["accepted"])
    np.testing.assert_allclose(ours.sample_stats["log_ratio"], exact.sample_stats["log_ratio"], atol=1e-11)
    np.testing.assert_allclose(ours.posterior["b"], exact.posterior["b"], rtol=1e-9)
    assert 0.2 < float(ours.sample_stats["accepted"].mean()) < 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "trust"), (1.02, "do not trust")], ids=["as they are", "planted: a wrong covariance"]
)
def test_reliability_compares_the_sums_with_the_rows(step, factor, verdict):
    decider, prepared = step.decider, step.decider.parts.prepared
    few = tuple(a.mean(axis=0) + factor * (a - a.mean(axis=0)) for a in prepared.expansion.few)
    tampered = prepared._replace(expansion=prepared.expansion._replace(few=few))
    decider = replace(decider, parts=replace(decider.parts, prepared=tampered))
    moves = [Proposed(new, old, np.empty(0), 0.0) for new, old in zip(prepared.draws[:5], prepared.draws[5:10])]
    variance_left, sum_error = against_rows(decider, [(move, (0.0, 0.0)) for move in moves])
    assert variance_left == 0
    assert [finding.verdict for finding in judge_sums(sum_error)] == [verdict]


@pytest.mark.slow
def test_it_is_said_in_the_log_and_other_data_have_other_sums(caplog):
    with regression() as model, caplog.at_level("INFO", logger="pymc_austerity"):
        step = pma.MHSS(proposal=pma.CrankNicolson())
        before = step.decider.expansion.few
        pm.set_data({"x": X[::-1].copy()}, model=model)
        step.start_chain(np.random.default_rng(0))
    assert "MHSS will read no row: sums over the data" in caplog.text
    after = step.decider.expansion.few
    assert not all(np.allclose(a, b) for a, b in zip(before, after))
    assert np.allclose(sum(a.sum() for a in before), sum(a.sum() for a in after))
