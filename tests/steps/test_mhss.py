"""The step that is exact on less than a row a draw: its posterior, its reduction, its statistics and its refusals."""

import re
from functools import partial

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytest
from evidence import MAX_Z, difference_z, moment_z, moments_on_grid
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.bounds import chosen_bound
from pymc_austerity.bounds.row_series import LOG_SUM_EXP
from pymc_austerity.kernel.parts import Compiled
from pymc_austerity.steps import mhss

# Three successes in forty trials: far enough from normal for the surrogate to be wrong.

N, SUCCESSES = 40, 3
LABELS = (np.arange(N) % 14 == 0).astype(int)
GRID = np.linspace(-8, 4, 4_001)


def rare_events():
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 2)
        pm.Bernoulli("y", logit_p=slope * pm.Data("x", np.ones(N)), observed=LABELS)
    return model


def from_posterior(idata, temperature=1.0):
    """Distances of mean and variance from those of the posterior."""
    log_density = -(GRID**2) / 8 + (SUCCESSES * GRID - N * np.logaddexp(0, GRID)) / temperature
    return np.abs(moment_z(idata.posterior["slope"].to_numpy(), *moments_on_grid(GRID, log_density))).max()


def from_surrogate(idata, centre):
    p, h = 1 / (1 + np.exp(-centre)), GRID - centre
    log_density = -(GRID**2) / 8 + (SUCCESSES - N * p) * h - N * p * (1 - p) * h**2 / 2
    return np.abs(moment_z(idata.posterior["slope"].to_numpy(), *moments_on_grid(GRID, log_density))).max()


def run_of(step_class, draws=4_000, **options):
    model = rare_events()
    step = step_class(model=model, **options)
    return step, sampled(model, step, draws, tune=300)


@pytest.fixture(scope="module")
def run():
    return run_of(pma.MHSS)


@pytest.mark.slow
def test_moments_are_the_posterior_s_not_the_surrogate_s(run):
    step, idata = run
    assert from_posterior(idata) < MAX_Z
    assert from_surrogate(idata, step.decider.expansion.centre[0]) > MAX_Z
    read, full = idata.sample_stats["n_rows"], idata.sample_stats["full_data"]
    assert 0 < float(read.mean()) < 10
    assert float(full.mean()) < 0.05  # beyond the radius
    partial = float(read.where(~full).mean())
    assert partial < 2 * step.predicted_rows < 8 * partial


@pytest.mark.slow
def test_the_order_is_that_which_reads_less_where_it_pays(run, caplog):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(1_000, 20))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=20)
        pm.Bernoulli("y", logit_p=x @ beta, observed=rng.random(1_000) < 1 / (1 + np.exp(-x[:, 0])))
    caplog.set_level("INFO", logger="pymc_austerity")
    auto, second, third = (pma.MHSS(order=k, model=model, rng=1, progressbar=False) for k in ("auto", 2, 3))
    point = model.initial_point()
    np.testing.assert_array_equal(auto.step(point)[0]["beta"], third.step(point)[0]["beta"])
    assert auto.decider.parts.prepared.order == 3
    assert "Third order: it leaves" in caplog.text
    assert second.predicted_rows > third.predicted_rows + 50
    assert run[0].decider.parts.prepared.order == 2  # of few rows there is nothing to save


@pytest.mark.slow
def test_third_order_and_bounds_of_rows_that_read_many_numbers(monkeypatch, caplog):
    """They are not tried in third order, and long bounds are told of before."""
    with pm.Model() as model:
        mu, sd = pm.Normal("mu"), pm.HalfNormal("sd")
        pm.StudentT("y", 4, mu=mu, sigma=sd, observed=np.random.default_rng(8).normal(size=2_000))
    monkeypatch.setattr(mhss, "check_triples", lambda likelihood: pytest.fail("tried"))
    monkeypatch.setattr(mhss, "_LEAST_OF_SEVERAL", -1)
    monkeypatch.setattr(mhss, "_MOST_NUMBERS", 1)
    monkeypatch.setattr(chosen_bound, "_LONG", 0.0)
    step = pma.MHSS(model=model, rng=1, progressbar=False)
    assert step.decider.bound.numbers_read == 2
    assert "through 2 numbers, and the bounds of 2,000 rows take about" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"proposal": pma.RandomWalk(scale=0.5)}, {"order": 3}], ids=["walk", "order 3"])
def test_moves_orders_and_temperatures(options):
    _, idata = run_of(pma.MHSS, temperature=1.5, **options)
    assert from_posterior(idata, 1.5) < MAX_Z
    assert from_posterior(idata) > MAX_Z


@pytest.mark.slow
def test_made_to_read_all_rows_it_decides_as_metropolis_does():
    options = {"draws": 300, "proposal": pma.CrankNicolson()}
    _, ours = run_of(pma.MHSS, bound=lambda *region: np.full(N, 1e9), **options)
    _, exact = run_of(pma.ExactMH, **options)
    assert ours.sample_stats["full_data"].all()
    assert np.array_equal(ours.sample_stats["accepted"], exact.sample_stats["accepted"])
    assert np.allclose(ours.posterior["slope"], exact.posterior["slope"], rtol=1e-9)
    assert 0.1 < float(ours.sample_stats["accepted"].mean()) < 1


@pytest.mark.slow
def test_reliability_finds_decisions_exact(run):
    step, idata = run
    with rare_events() as model:
        found = pma.reliability(idata, model, step=step, n_states=40)
    assert found.checks.loc["batch means", "verdict"] == "trust"
    assert "are exact" in found.checks.loc["batch means", "reason"]
    assert found.checks.loc["spot check", "verdict"] != "do not trust"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"proxy": None}, "proxy=None excludes a proxy, and MHSS .* Use PenaltyMH"),
        ({"proxy": pma.Taylor(order=1)}, "first order"),
        ({"proposal": pma.StiefelWalk()}, "excludes a proxy, and MHSS"),
        ({"rows": pma.Weighted()}, "does not go with ScalableSubsampling"),
        ({"bound": "scan"}, "'scan' is not 'auto' or a function.*PenaltyMH"),
        ({"bound": 3}, "bound=3 must be a name or a function"),
        ({"order": "3"}, "order='3' must be 'auto', 2 or 3"),
        pytest.param({"bound": lambda *region: np.ones(7)}, r"bound= returned .*\(7,\)", marks=pytest.mark.slow),
        pytest.param({"bound": lambda *region: -np.ones(N)}, "bound= returned .*numbers ≥ 0", marks=pytest.mark.slow),
    ],
    ids=lambda x: "" if isinstance(x, str) else next(iter(x)),
)
def test_what_it_cannot_work_with_is_refused_by_name(options, reason):
    with rare_events(), pytest.raises((ValueError, TypeError), match=reason):
        pma.MHSS(**options)


def without_bound():
    with pm.Model() as model:
        pm.Laplace("y", pm.Normal("mu", 0, 1), 1, observed=np.arange(20.0))
    return model


def with_wide_bounds(n=2_500):
    """Counts that need no dispersion, so that its posterior is nearly all tail."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=n)
    with pm.Model() as model:
        mean, alpha = pm.math.exp(pm.Normal("a", 0, 2) + pm.Normal("b", 0, 1) * x), pm.HalfNormal("alpha", 300)
        pm.NegativeBinomial("y", mu=mean, alpha=alpha, observed=rng.poisson(np.exp(0.5 + 0.3 * x)))
    return model


@pytest.mark.parametrize(
    ("make", "level", "because"),
    [
        (without_bound, "INFO", "No bound .*'mu'.* absolute value"),
        (with_wide_bounds, "WARNING", "ask for [0-9,]+ a draw"),
    ],
)
def test_without_narrow_bounds_all_rows_decide(make, level, because, caplog, monkeypatch):
    """Nothing is compiled for rows that are drawn."""
    model = make()
    in_vain = "pymc_austerity.kernel.parts.compile_resolved_density"
    monkeypatch.setattr(in_vain, lambda *given, **options: pytest.fail("compiled in vain"))
    caplog.set_level("INFO", logger="pymc_austerity")
    ours, exact = (kind(model=model, progressbar=False, rng=1) for kind in (pma.MHSS, pma.ExactMH))
    said = [r for r in caplog.records if "at every draw, to be exact" in r.message]
    assert [r.levelname for r in said] == [level]
    assert re.search(because, said[0].message)
    n = exact.decider.n_rows
    assert (ours.predicted_rows, ours.rows_always_read) == (n, n)
    assert f"exact, reads all {n:,} rows" in repr(ours)
    assert ours.test == exact.test
    runs = [sampled(model, step, 400, tune=100, seed=3) for step in (ours, exact)]
    assert runs[0].sample_stats["log_ratio_sd"].max() == 0
    for name in runs[0].posterior:
        assert np.abs(difference_z(*(run.posterior[name].to_numpy() for run in runs))).max() < MAX_Z
    for step, run in zip((ours, exact), runs, strict=True):
        checks = pma.reliability(run, model, step=step, progressbar=False).checks
        assert "all rows" in checks.loc["batch means", "reason"]


@pytest.mark.slow
@pytest.mark.skipif(not LOG_SUM_EXP, reason="bounds of mixtures are known with PyMC 6")
def test_moves_in_powers_reach_the_tail(monkeypatch):
    """Of a zero inflation that is not there; planted: moves in the coordinates of the bounds."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=3_000)
    with pm.Model() as model:
        mean = pm.math.exp(pm.Normal("a", 0, 2) + pm.Normal("b", 0, 1) * x)
        pm.ZeroInflatedPoisson("y", pm.Beta("psi", 1, 1), mean, observed=rng.poisson(np.exp(0.5 + 0.3 * x)))

    def extra_zeros(step):
        run = sampled(model, step(model=model, progressbar=False, rng=1), 1_000, tune=300, seed=2)
        return np.log1p(-run.posterior["psi"].to_numpy()), run

    found, run = extra_zeros(partial(pma.MHSS, order=2))
    assert np.abs(difference_z(found, extra_zeros(pma.ExactMH)[0])).max() < MAX_Z
    assert float(az.ess(found)) > 500
    assert float(run.sample_stats["n_rows"].mean()) < 1_000
    monkeypatch.setattr(Compiled, "may_bend", False)
    assert float(az.ess(extra_zeros(partial(pma.MHSS, order=2))[0])) < 400


@pytest.mark.parametrize("options", [{"order": 2}, {"proxy": pma.Taylor(order=2)}], ids=["order", "proxy"])
def test_an_order_that_was_asked_for_needs_bounds(options):
    with without_bound(), pytest.raises(ValueError, match=r"MHSS: No bound .* PenaltyMH, which needs no bound"):
        pma.MHSS(**options)


def test_a_model_of_single_precision_is_refused():
    words = r"\['slope'\] are of single precision.*rounded.*floatX='float64'"
    with pytensor.config.change_flags(floatX="float32"), rare_events(), pytest.raises(ValueError, match=words):
        pma.MHSS()


def test_rows_that_read_variables_of_other_steps(caplog):
    words = r"rows read \['sd_log__'\], which another step moves"
    caplog.set_level("INFO", logger="pymc_austerity")
    with pm.Model():
        mu, sd = pm.Normal("mu", 0, 1), pm.HalfNormal("sd", 1)
        pm.StudentT("y", nu=4, mu=mu, sigma=sd, observed=np.arange(20.0))
        assert pma.MHSS([mu]).predicted_rows == 20
        assert re.search(words, caplog.text)
        with pytest.raises(ValueError, match=words):
            pma.MHSS([mu], bound=lambda *region: np.ones(20))
