"""Runs end once they have the effective draws, or the seconds, that were asked for."""

import logging

import arviz as az
import numpy as np
import pymc as pm
import pytest

import pymc_austerity as pma


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(3)
    with pm.Model() as built:
        mu = pm.Normal("mu", 0, 10)
        s = pm.HalfNormal("s", 3)
        pm.Normal("y", mu, s, observed=rng.normal(1, 2, 2_000))
    return built


def least(idata):
    found = az.ess(idata)
    return min(float(found[name]) for name in ("mu", "s"))


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
def test_a_run_ends_with_the_effective_draws(model, cores, caplog):
    """Of all chains together, in processes of their own or one after another, with few more than were asked for."""
    stop = pma.stop_at(ess=600, chains=2)
    with model, caplog.at_level(logging.INFO):
        idata = pm.sample(
            300_000,
            tune=100,
            chains=2,
            cores=cores,
            step=pma.ExactMH(),
            callback=stop,
            progressbar=False,
            random_seed=1,
        )
    assert idata.posterior.sizes["chain"] == 2
    # Of chains beside each other, one may be far ahead on a loaded machine before the other begins.
    assert idata.posterior.sizes["draw"] < (10_000 if cores == 1 else 300_000)
    assert least(idata) > 450
    assert any("effective draws" in message for message in caplog.messages)


def test_one_callback_serves_a_second_run(model):
    stop = pma.stop_at(ess=300, chains=1)
    with model:
        step = pma.ExactMH()
        lengths = [
            pm.sample(
                20_000, tune=0, chains=1, cores=1, step=step, callback=stop, progressbar=False, random_seed=2
            ).posterior.sizes["draw"]
            for _ in range(2)
        ]
    assert lengths[0] == lengths[1] < 20_000


def test_seconds_end_a_run_with_draws_of_each_chain(model, caplog):
    """No chain ends while it tunes, however short the time; on a loaded machine PyMC may drop one that lags."""
    with model, caplog.at_level(logging.INFO):
        idata = pm.sample(
            300_000, tune=50, chains=2, cores=2, step=pma.ExactMH(), callback=pma.stop_at(seconds=0.5),
            progressbar=False, random_seed=1,
        )  # fmt: skip
    assert any("2 chains have" in message for message in caplog.messages)
    assert 2 <= idata.posterior.sizes["draw"] < 300_000


def test_a_frozen_chain_is_not_ended_by_ess(model):
    """A chain that never moves has no effective draws."""
    with model:
        step = pma.ExactMH(proposal=pma.RandomWalk(scale=1e9), tune=False)
        idata = pm.sample(
            300, tune=0, chains=1, cores=1, step=step, callback=pma.stop_at(ess=1, chains=1), progressbar=False,
            random_seed=1,
        )  # fmt: skip
    assert idata.posterior.sizes["draw"] == 300


@pytest.mark.parametrize(
    ("given", "named"),
    [({}, "ess="), ({"ess": 0}, "ess=0"), ({"seconds": -1}, "seconds=-1"), ({"ess": 5, "chains": 0}, "chains=0")],
)
def test_stop_at_refuses_what_stops_no_run(given, named):
    with pytest.raises(ValueError, match=named):
        pma.stop_at(**given)
