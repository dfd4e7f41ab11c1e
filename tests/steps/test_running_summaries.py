"""Summaries that are brought up to date with every draw, against those of draws that were kept."""

import warnings
from typing import ClassVar

import numpy as np
import pymc as pm
import pytest
from pymc.step_methods.arraystep import BlockedStep
from scipy import signal

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group
from pymc_austerity.steps.running_moments import ChainMoments, summarised

GROUPS = 1_500
OF_ROWS = np.arange(6_000) % GROUPS
Y = np.random.default_rng(0).normal(size=6_000)


def model_with_groups():
    with pm.Model(coords={"shop": [f"s{k}" for k in range(GROUPS)]}) as model:
        u = pm.Normal("u", pm.Normal("mu"), 1, dims="shop")
        pm.Normal("y", u[OF_ROWS], 1, observed=Y)
    return model


class Independent(BlockedStep):
    """Draws everything anew."""

    stats_dtypes_shapes: ClassVar[dict] = {"size": (float, [])}

    def __init__(self):
        self.vars, self.rng = pm.modelcontext(None).value_vars, np.random.default_rng(3)

    def step(self, point):
        return {name: self.rng.normal(size=value.shape) for name, value in point.items()}, [{"size": 1.0}]


def run(trace=None, cores=1):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pm.sample(
            120, tune=60, chains=2, cores=cores, random_seed=3, progressbar=False, trace=trace, step=Independent(),
            compute_convergence_checks=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def both():
    """The same run twice: with all draws, and with summaries."""
    with model_with_groups():
        trace = pma.RunningSummaries(thin=4, quantiles=[0.1, 0.9])
        return group(run(), "posterior")["u"], run(trace), trace


def test_moments_are_those_of_all_draws(both):
    """Mean and sd to rounding, R-hat as by its formula for split chains."""
    draws, _, trace = both
    found = trace.summaries()["u"]
    np.testing.assert_allclose(found.sel(summary="mean"), draws.mean(("chain", "draw")), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.sel(summary="sd"), draws.std(("chain", "draw"), ddof=1), rtol=1e-8)
    halves = draws.to_numpy().reshape(4, 60, GROUPS)
    within, between = halves.var(axis=1, ddof=1).mean(axis=0), halves.mean(axis=1).var(axis=0, ddof=1)
    np.testing.assert_allclose(found.sel(summary="r_hat"), np.sqrt(59 / 60 + between / within), rtol=1e-6)
    assert found["shop"].to_numpy()[1] == "s1"


def test_other_variables_and_statistics_are_kept(both):
    posterior = group(both[1], "posterior")
    assert list(posterior.data_vars) == ["mu"]
    assert posterior["mu"].shape == (2, 120)
    assert len(np.unique(posterior["mu"])) == 240
    assert group(both[1], "sample_stats").sizes["draw"] == 120


def test_quantiles_have_about_their_rank(both):
    """The rank of an estimate is within .1 of what was asked, on average over entries within .01."""
    draws, _, trace = both
    for q in (0.1, 0.9):
        ranks = (draws <= trace.summaries()["u"].sel(summary=f"q{q}")).mean(("chain", "draw"))
        assert float(ranks.mean()) == pytest.approx(q, abs=0.02)
        assert float(np.abs(ranks - q).quantile(0.95)) < 0.1


def test_kept_draws_are_draws_of_the_run_and_saved_with_it(both):
    draws, idata, trace = both
    np.testing.assert_allclose(trace.thinned()["u"], draws[:, ::4], rtol=1e-6)
    saved = trace.saved_with(idata)
    assert group(saved, "summaries")["u"].sizes["summary"] == 7
    assert group(saved, "thinned")["u"].sizes["draw"] == 30


def test_chains_in_processes_give_the_same(both):
    """Draws of chains beside each other come one by one to one object."""
    _, _, trace = both
    with model_with_groups():
        beside = pma.RunningSummaries(quantiles=[0.5])
        run(beside, cores=2)
    assert [len(chain["u"]) for chain in beside._kept.values()] == [40, 40]
    names = ["mean", "sd", "ess", "r_hat"]
    np.testing.assert_allclose(beside.summaries()["u"].sel(summary=names), trace.summaries()["u"].sel(summary=names))


def chains_of(draws, batch=None):
    found = []
    for chain in draws:
        moments = ChainMoments(chain.shape[1:], batch or round(len(chain) ** 0.5), len(chain) // 2)
        for draw in chain:
            moments.add(draw)
        found.append(moments)
    return summarised(found)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_effective_draws_of_autoregressions(rho):
    """On average over entries the effective draws are n(1 − ρ)/(1 + ρ) within 25 %; those of batches of one are not."""
    noise = np.random.default_rng(1).normal(size=(4, 2_000, 200))
    draws = signal.lfilter([1.0], [1.0, -rho], noise, axis=1)
    exact = 8_000 * (1 - rho) / (1 + rho)
    assert np.median(chains_of(draws)["ess"]) == pytest.approx(exact, rel=0.25)
    if rho:
        assert np.median(chains_of(draws, batch=1)["ess"]) > 1.5 * exact


def test_far_means_lose_no_digits():
    draws = 1e8 + np.random.default_rng(2).normal(size=(2, 500, 3))
    found = chains_of(draws)
    np.testing.assert_allclose(found["sd"], draws.reshape(-1, 3).std(axis=0, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(found["r_hat"], 1, atol=0.02)
    assert (found["ess"] > 300).all()


def test_chains_in_different_places_are_seen():
    draws = np.random.default_rng(3).normal(size=(4, 400, 2)) + np.array([[0.0, 3.0]] * 2 + [[0.0, 0.0]] * 2)[:, None]
    assert chains_of(draws)["r_hat"][0] < 1.05
    assert chains_of(draws)["r_hat"][1] > 1.5


def test_a_trace_serves_another_run():
    with model_with_groups():
        trace = pma.RunningSummaries(summarise=["u", "mu"])  # all that there is
        run(trace)
        first = trace.summaries()
        run(trace)
    np.testing.assert_array_equal(first["u"], trace.summaries()["u"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"summarise": ["w"]}, r"\['w'\] are no variables of the model"),
        ({"summarise": "u"}, "must be a sequence of names"),
        ({"quantiles": [5]}, "must lie between 0 and 1"),
        ({"thin": 0}, "must be 1 or more"),
        ({}, "no draws after tuning yet"),
    ],
)
def test_what_is_refused(given, message):
    with model_with_groups(), pytest.raises((ValueError, TypeError), match=message):
        pma.RunningSummaries(**given).summaries()
