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


def sampled(model, draws, stop, *, step=None, **options):
    """Sample in one process, of which `stop` is the callback."""
    options = {"tune": 0, "chains": 1, "cores": 1, "random_seed": 1, **options}
    with model:
        return pm.sample(draws, step=step or pma.ExactMH(), callback=stop, progressbar=False, **options)


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
def test_a_run_ends_with_the_effective_draws(model, cores, caplog):
    """Of all chains together, in processes of their own or one after another, with few more than were asked for."""
    with caplog.at_level(logging.INFO):
        idata = sampled(model, 300_000, pma.stop_at(ess=600, chains=2), tune=100, chains=2, cores=cores)
    assert idata.posterior.sizes["chain"] == 2
    # Of chains beside each other, one may be far ahead on a loaded machine before the other begins.
    assert idata.posterior.sizes["draw"] < (10_000 if cores == 1 else 300_000)
    assert min(float(az.ess(idata)[name]) for name in ("mu", "s")) > 450
    assert any("effective draws" in message for message in caplog.messages)


@pytest.mark.slow
def test_one_callback_serves_a_second_run(model):
    stop, step = pma.stop_at(ess=300, chains=1), pma.ExactMH(model=model)
    lengths = [sampled(model, 20_000, stop, step=step).posterior.sizes["draw"] for _ in range(2)]
    assert lengths[0] == lengths[1] < 20_000


@pytest.mark.slow
def test_seconds_end_a_run_with_draws_of_each_chain(model, caplog):
    """No chain ends while it tunes, however short the time; on a loaded machine PyMC may drop one that lags."""
    with caplog.at_level(logging.INFO):
        idata = sampled(model, 300_000, pma.stop_at(seconds=0.5), tune=50, chains=2, cores=2)
    assert any("2 chains have" in message for message in caplog.messages)
    assert 2 <= idata.posterior.sizes["draw"] < 300_000


@pytest.mark.slow
def test_a_frozen_chain_is_not_ended_by_ess(model):
    """A chain that never moves has no effective draws."""
    step = pma.ExactMH(proposal=pma.RandomWalk(scale=1e9), tune=False, model=model)
    idata = sampled(model, 300, pma.stop_at(ess=1, chains=1), step=step)
    assert idata.posterior.sizes["draw"] == 300


@pytest.mark.parametrize(
    ("given", "named"),
    [({}, "ess="), ({"ess": 0}, "ess=0"), ({"seconds": -1}, "seconds=-1"), ({"ess": 5, "chains": 0}, "chains=0")],
)
def test_stop_at_refuses_what_stops_no_run(given, named):
    with pytest.raises(ValueError, match=named):
        pma.stop_at(**given)
