import numpy as np
import pymc as pm
import pytest
from numba import njit
from scipy import stats

import pymc_austerity as pma
from pymc_austerity.acceptance import ACCEPT, REJECT, UNDECIDED, NoisePenalty
from pymc_austerity.acceptance.moments import standard_error
from pymc_austerity.diagnostics import spot_check
from pymc_austerity.diagnostics.built_steps import find_decider
from pymc_austerity.diagnostics.decision_verdicts import BALANCE_ERROR
from pymc_austerity.diagnostics.density_on_rows import DensityOnRows
from pymc_austerity.diagnostics.drawn_states import drawn_states
from pymc_austerity.diagnostics.judged_decisions import wrong_decisions
from pymc_austerity.diagnostics.measured_error import (
    Repeats,
    control_coefficient,
    error_of,
    flow_of,
    mean_error,
    typical_error,
    worst_error,
)
from pymc_austerity.diagnostics.row_shape import batch_shape, row_shape
from pymc_austerity.diagnostics.spot_check import RepeatedTest, evaluate_pair, pair_shape
from pymc_austerity.diagnostics.verdicts import (
    DO_NOT_TRUST,
)
from pymc_austerity.kernel.decider import Proposed
from pymc_austerity.steps.row_step import RowStep

QUIET = {"cores": 1, "random_seed": 1, "progressbar": False, "compute_convergence_checks": False}


class TestAcceptanceError:
    def test_shared_thresholds_take_out_the_noise_without_bias(self):
        """Of a test that compares with the threshold of the exact one, but is wrong in 2% of the runs."""
        rng, n = np.random.default_rng(1), 200
        same, wrong = rng.random((400, n)) < 0.4, rng.random((400, n)) < 0.02
        repeats = [
            Repeats(n, int(accepted.sum()), int(exact.sum()), int((accepted & exact).sum()), 10 * n, n, 10 * n)
            for accepted, exact in zip(same ^ wrong, same)
        ]
        coefficient = control_coefficient(repeats)
        assert coefficient == pytest.approx(0.96, abs=0.01)  # 1 − 2·flip
        errors, ses = np.array([error_of(r, 0.4, coefficient) for r in repeats]).T
        # Of 40% acceptances 2% are lost and of 60% rejections 2% are gained.
        assert errors.mean() == pytest.approx(0.02 * 0.6 - 0.02 * 0.4, abs=4 * errors.std() / 20)
        assert errors.std() == pytest.approx(np.sqrt(np.mean(ses**2)), rel=0.15)
        plain = np.array([error_of(r, 0.4, 0.0)[0] for r in repeats])
        assert plain.std() > 2.5 * errors.std()

    def test_a_test_in_balance_has_no_error(self):
        """However few moves it accepts."""
        rng, n, log_ratio = np.random.default_rng(6), 40_000, -0.7
        forth, back = (rng.binomial(n, p) for p in (0.3 * np.exp(log_ratio), 0.3))
        runs = [Repeats(n, int(k), 0, 0, n, n, n) for k in (forth, back)]
        flow = flow_of(*runs, (np.exp(log_ratio), 1.0), log_ratio, 0.0)
        assert flow.back == pytest.approx(0.3 * np.exp(log_ratio), abs=4 * flow.se)
        assert abs(flow.error) < 4 * flow.se < 0.02
        mirrored = flow_of(*runs[::-1], (1.0, np.exp(log_ratio)), -log_ratio, 0.0)
        assert mirrored.error == pytest.approx(-flow.error)
        impossible = Repeats(100, 0, 0, 0, 0, 0, 0)  # a move from which no way leads back is not weighed
        assert flow_of(impossible, None, (0.0, 0.0), -np.inf, 0.0) == (0.0, 0.0, 0.0)
        too_often = flow_of(runs[0]._replace(accepted=forth + n // 10), runs[1], (0.5, 1.0), log_ratio, 0.0)
        assert too_often.error == pytest.approx(flow.error + 0.1)

    def test_typical_error_is_free_of_monte_carlo_error_and_covered(self):
        rng = np.random.default_rng(2)
        errors = np.hypot(0.05, 0.03) * rng.normal(size=(100, 150))  # of true ones of .05, and standard errors of .03
        found = [typical_error(of, np.full(150, 0.03), rng, 0.05) for of in errors]
        assert np.mean([e.value for e in found]) == pytest.approx(0.05, abs=0.001)
        assert sum(e.low <= 0.05 <= e.high for e in found) >= 87  # of 100 at 95%; fewer with probability 0.0004
        assert typical_error(errors[-1], np.zeros(150), rng, 0.05).low > 0.05  # without the correction
        rng = np.random.default_rng(3)  # the mean error
        inside = [mean_error(rng.normal(0.01, 0.05, size=100), 0.05) for _ in range(300)]
        assert 270 <= sum(e.low <= 0.01 <= e.high for e in inside) <= 297

    def test_the_worst_of_many_noisy_errors_is_no_error(self):
        rng = np.random.default_rng(4)
        se = 0.05
        noisy = rng.normal(0, se, size=200)
        assert np.abs(noisy).max() > 0.1  # what would be reported without measuring anew
        finalists = np.argsort(-np.abs(noisy))[:5]
        ses, again_ses = np.full(200, se), np.full(5, se / 3)
        worst = worst_error(noisy, ses, finalists, rng.normal(0, se / 3, 5), again_ses, (100, 1000), 0.05)
        assert worst.value < 0.06
        assert worst.low == 0
        planted = worst_error(noisy, ses, finalists, np.array([0.4, 0, 0, 0, 0]), again_ses, (100, 1000), 0.05)
        assert planted.low > 0.3

        # No difference in n runs bounds the error by about 3/n.
        nothing = np.zeros(50)
        worst = worst_error(nothing, nothing, np.arange(5), np.zeros(5), np.zeros(5), (100, 1000), 0.05)
        assert worst.high == 0.03


class TestShape:
    def test_skewness_and_spread_are_those_of_drawn_batches(self):
        rng = np.random.default_rng(6)
        terms, n = rng.exponential(size=400), 80
        shape = row_shape(terms)
        assert (shape.sd, shape.skewness) == pytest.approx((terms.std(), stats.skew(terms)))
        assert shape.kurtosis == pytest.approx(stats.kurtosis(terms, fisher=False))
        batches = np.array([rng.choice(terms, n, replace=False) for _ in range(20_000)])
        means, variances = batches.mean(axis=1), batches.var(axis=1, ddof=1)
        assert shape.mean_skewness(n, 400) == pytest.approx(stats.skew(means), abs=0.06)
        assert shape.variance_spread(n, 400) == pytest.approx(variances.std() / variances.mean(), rel=0.05)
        assert shape.noise(n, 400, 1.0) == pytest.approx(400 * means.std(), rel=0.03)
        # Without the finite population the skewness would be 1.7 times as large.
        assert abs(shape.skewness) / np.sqrt(n) > 1.4 * stats.skew(means)

    def test_weights_make_alike_what_they_were_made_for(self):
        terms = np.random.default_rng(7).lognormal(0, 2, size=3_000)
        even = row_shape(terms, terms.mean() / terms)
        assert row_shape(terms).kurtosis > 100
        assert even.sd == pytest.approx(0, abs=1e-9)
        assert even.replacement

    def test_rows_all_alike_and_one_that_carries_everything(self):
        assert row_shape(np.full(10, 2.0)).largest == 0
        terms = np.zeros(1_000)
        terms[3] = 5.0
        shape = row_shape(terms)
        assert shape.largest > 0.99
        assert batch_shape([(shape, 100.0)], 1_000, 1.0).variance_spread > 2


class TestStopping:
    def test_wrong_decisions_are_estimated_from_their_stops(self):
        """Δ ~ N(−τ²/2, τ²) as at stationarity, looks of growing precision, a stop at two standard errors."""
        rng = np.random.default_rng(8)
        n, tau, information = 40_000, 2.0, 0.05
        delta, threshold = rng.normal(-(tau**2) / 2, tau, n), np.log(rng.random(n))
        total, precision = np.zeros(n), 0.0
        estimate, sd, stopped = np.zeros(n), np.zeros(n), np.zeros(n, bool)
        for look in range(40):
            total += rng.normal(information * delta, np.sqrt(information))
            precision += information
            now = ~stopped & ((np.abs(total / precision - threshold) * np.sqrt(precision) > 1.6) | (look == 39))
            estimate[now], sd[now] = total[now] / precision, 1 / np.sqrt(precision)
            stopped |= now
        wrong = (estimate > threshold) != (delta > threshold)
        rate = np.mean(np.exp(np.minimum(0, delta)))
        estimated = wrong_decisions(estimate, sd, threshold, rate).mean()
        assert wrong.mean() > 0.03
        assert estimated == pytest.approx(wrong.mean(), rel=0.1)
        # The tail probability of the last look alone would claim half as many at most.
        assert stats.norm.sf(np.abs(estimate - threshold) / sd).mean() < 0.8 * wrong.mean()
        zero = np.zeros(3)  # decisions on all rows are right
        assert (wrong_decisions(np.array([1.0, -1.0, -np.inf]), zero, np.array([-1.0, -1.0, np.nan]), 0.3) == 0).all()


def build(y):
    with pm.Model() as model:
        data = pm.Data("data", y)
        mu = pm.Normal("mu", 0, 10)
        sigma = pm.Uniform("sigma", 0, 10)
        pm.Normal("y", mu, sigma, observed=data)
    return model


@pytest.fixture(scope="module")
def model():
    return build(np.random.default_rng(9).normal(1, 2, size=3_000))


@pytest.fixture(scope="module")
def step(model):
    with model:
        return pma.ApproxMH(proxy=None, epsilon=0.2, batch_size=50)


@pytest.fixture(scope="module")
def idata(model, step):
    with model:
        return pm.sample(400, tune=800, chains=2, step=step, initvals={"mu": 1.0, "sigma": 2.0}, **QUIET)


@pytest.fixture(scope="module")
def report(model, step, idata):
    return pma.reliability(idata, model, n_states=60)


def test_the_exact_probability_is_that_of_the_model(model, step, idata, report):
    """States, transforms, prior and rows are put together as the chain had them."""
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


def test_the_repeated_test_decides_as_the_step_does(step):
    """Acceptance and rows of the table of row terms against transitions of the step itself."""
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


def test_a_careless_test_is_not_trusted(report):
    assert report.verdict == DO_NOT_TRUST
    checks = report.checks
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


def test_the_step_is_found_by_the_model_and_must_fit_the_run(model, step, idata):
    assert find_decider(model) is step.decider
    with pm.Model() as unknown:
        pm.Normal("x")
    with pytest.raises(ValueError, match="no step of pymc_austerity was built for this model"):
        find_decider(unknown)
    other = build(np.random.default_rng(9).normal(1, 2, size=3_000))
    with other:
        first = pma.ApproxMH(proxy=None, epsilon=0.2, batch_size=77)
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
        idata = pm.sample(300, tune=300, chains=2, step=step, **QUIET)
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
