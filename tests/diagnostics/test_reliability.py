import numpy as np
import pymc as pm
import pytest
from numba import njit
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.acceptance import ACCEPT, REJECT, UNDECIDED, NoisePenalty
from pymc_austerity.acceptance.moments import standard_error
from pymc_austerity.diagnostics import spot_check
from pymc_austerity.diagnostics.built_steps import find_decider
from pymc_austerity.diagnostics.decision_verdicts import BALANCE_ERROR
from pymc_austerity.diagnostics.density_on_rows import DensityOnRows
from pymc_austerity.diagnostics.drawn_states import drawn_states
from pymc_austerity.diagnostics.measured_error import flow_of
from pymc_austerity.diagnostics.spot_check import RepeatedTest, evaluate_pair, pair_shape
from pymc_austerity.diagnostics.verdicts import DO_NOT_TRUST
from pymc_austerity.kernel.decider import Proposed
from pymc_austerity.steps.row_step import RowStep


def careless(batch_size):
    """Return a model, and a step that decides carelessly."""
    with pm.Model() as model:
        data = pm.Data("data", np.random.default_rng(9).normal(1, 2, size=3_000))
        pm.Normal("y", pm.Normal("mu", 0, 10), pm.Uniform("sigma", 0, 10), observed=data)
        return model, pma.ApproxMH(proxy=None, epsilon=0.2, batch_size=batch_size)


@pytest.fixture(scope="module")
def run():
    model, step = careless(50)
    idata = sampled(model, step, 400, tune=800, seed=1, initvals={"mu": 1.0, "sigma": 2.0})
    return model, step, idata, pma.reliability(idata, model, n_states=60)


@pytest.mark.slow
def test_the_exact_probability_is_that_of_the_model(run):
    """States, transforms, prior and rows are put together as the chain had them."""
    model, step, idata, report = run
    density = model.compile_logp(mode="FAST_COMPILE")
    point = {"mu": 0.9, "sigma_interval__": -1.3}
    other = {"mu": 1.0, "sigma_interval__": -1.4}
    names = [b.name for b in step.decider.parts.likelihood.blocks]
    theta, theta_new = (np.array([p[name] for name in names]) for p in (point, other))
    pair = evaluate_pair(step.decider, Proposed(theta_new, theta, np.empty(0), 0.0))
    test = RepeatedTest(step.decider, np.random.default_rng(0))
    log_ratio = test.log_ratio(pair)
    probability = test.exact(log_ratio)
    assert log_ratio == pytest.approx(density(other) - density(point), rel=1e-9)
    assert probability == pytest.approx(min(1, np.exp(log_ratio)))
    chosen = report.states.iloc[10]
    drawn = idata["posterior"].isel(chain=int(chosen["chain"]), draw=int(chosen["draw"]))
    states = drawn_states(idata, model, step.decider.parts, 60)
    sigma = float(drawn["sigma"])
    assert states.theta[10] == pytest.approx([float(drawn["mu"]), np.log(sigma / (10 - sigma))])


def test_the_repeated_test_decides_as_the_step_does(run):
    """Acceptance and rows of the table of row terms against transitions of the step itself."""
    _, step, *_ = run
    theta = np.array([1.0, -1.4])
    rng = np.random.default_rng(10)
    pair = evaluate_pair(step.decider, step.decider.propose(theta, np.empty(0), step.chain.state, rng))
    n = 4_000
    runs = RepeatedTest(step.decider, np.random.default_rng(11))(pair, n, step.test.looks(3_000))
    accepted, rows = 0, []
    for _ in range(n):
        step.chain.rng_propose = np.random.default_rng(10)  # the same proposal every time
        outcome = step.chain.transition(theta, np.empty(0), 1.0)
        accepted += outcome.accepted
        rows.append(outcome.n_rows)
    se = np.sqrt(2 * 0.25 / n)
    assert abs(runs.accepted - accepted) / n < 4.4 * se
    assert abs(runs.rows / n - np.mean(rows)) < 4.4 * np.std(rows) * np.sqrt(2 / n)


@njit
def decide_without_penalty(looks, look, moments, offset, scale, noise):
    """Planted mistake: the estimate is taken for the log ratio."""
    if moments.n < moments.n_total and (scale * standard_error(moments)) ** 2 > looks.max_variance:
        return UNDECIDED
    return ACCEPT if scale * moments.mean + offset > noise else REJECT


class WithoutPenalty(NoisePenalty):
    decide = staticmethod(decide_without_penalty)


@pytest.mark.slow
@pytest.mark.parametrize("test", [NoisePenalty, WithoutPenalty])
def test_a_penalty_keeps_the_balance_and_none_does_not(test):
    """Of a move away from the posterior, of which the first batch leaves a standard error of nearly one."""
    with pm.Model():
        pm.Normal("y", pm.Normal("mu", 0, 10), 2, observed=np.random.default_rng(12).normal(1, 2, size=500))
        step = RowStep(test(150, growth=1.3), proposal=pma.RandomWalk(scale=0.07), proxy=None)
    repeated = RepeatedTest(step.decider, np.random.default_rng(2))
    pair = evaluate_pair(step.decider, Proposed(np.array([1.205]), np.array([1.15]), np.empty(0), 0.0))
    log_ratio = repeated.log_ratio(pair)
    assert -1.5 < log_ratio < -0.5
    assert 0.7 < pair_shape(step.decider, pair).noise(150, 500, 1.0) < 1.0
    runs = repeated.both_ways(pair, 40_000, step.test.looks(500))
    flow = flow_of(*runs, (repeated.exact(log_ratio), repeated.exact(-log_ratio)), log_ratio, 0.0)
    if test is NoisePenalty:
        assert abs(flow.error) < 4 * flow.se < BALANCE_ERROR[0]
    else:
        assert abs(flow.error) > BALANCE_ERROR[1] + 4 * flow.se


def test_a_careless_test_is_not_trusted(run):
    *_, report = run
    checks = report.checks
    assert report.verdict == DO_NOT_TRUST
    assert checks.loc["spot check", "verdict"] == DO_NOT_TRUST
    assert checks.loc["estimated error", "verdict"] == DO_NOT_TRUST
    assert "epsilon=0.02" in checks.loc["spot check", "remedy"]
    assert str(report).startswith("Do not use these draws (")
    assert max(map(len, str(report).splitlines())) <= 80
    written = " ".join(str(report).split())
    assert checks.loc["spot check", "reason"].split()[-1] in written
    assert all("<td" in report._repr_html_() and name in report._repr_html_() for name in checks.index)
    assert len(report.states) == 60
    assert report.passes >= 50


def test_the_step_is_found_by_the_model_and_must_fit_the_run(run):
    model, step, idata, _ = run
    assert find_decider(model) is step.decider
    with pm.Model() as unknown:
        pm.Normal("x")
    with pytest.raises(ValueError, match="no step of pymc_austerity was built for this model"):
        find_decider(unknown)
    other, first = careless(77)
    with pytest.raises(ValueError, match=r"step: ApproxMH on mu.*another step made them"):
        pma.reliability(idata, other, step=first, n_states=10)
    with pytest.raises(ValueError, match="n_states=1"):
        pma.reliability(idata, model, step=step, n_states=1)


@pytest.mark.slow
def test_all_rows_are_evaluated_as_often_as_is_reported(monkeypatch):
    """What a proxy leaves at a proposal is known from its spot check: only the raw terms are evaluated beside it."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3_000, 2))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=X @ beta, observed=rng.integers(0, 2, 3_000))
        step = pma.PenaltyMH(progressbar=False)
    idata = sampled(model, step, 300, tune=300, seed=1)
    passes, evaluate = [], spot_check._all_rows
    monkeypatch.setattr(spot_check, "_all_rows", lambda *arguments: passes.append(1) or evaluate(*arguments))
    over, slopes = DensityOnRows._over, []

    def counted(self, function, theta, others, rows=None):
        slopes.extend([1] if rows is None else [])
        return over(self, function, theta, others, rows)

    monkeypatch.setattr(DensityOnRows, "_over", counted)
    report = pma.reliability(idata, model, step=step, n_states=30)
    assert report.passes == len(passes) + len(slopes)
    assert len(slopes) < 450
    assert len(passes) < 1.5 * 30 + 50
    assert report.checks.loc["proxy", "value"] < 1e-3
