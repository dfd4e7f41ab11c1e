"""Temperatures: of the target, and of a chain that cools while it tunes."""

from dataclasses import FrozenInstanceError

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.kernel.temperature import as_schedule

N = 400


@pytest.fixture(scope="module")
def model():
    """A normal mean: at temperature K the posterior has precision 4 + N/K and mean 4/(4 + N/K)."""
    y = np.random.default_rng(2).normal(size=N)
    with pm.Model() as model:
        mu = pm.Normal("mu", 1, 0.5)
        pm.Normal("y", mu, 1, observed=(y - y.mean()) / y.std())
    return model


def _sample(model, temperature):
    with model:
        step = pma.ExactMH(proxy=None, temperature=temperature, proposal=pma.RandomWalk(scale=0.3))
    return sampled(model, step, 2_000, tune=200, seed=8)


def _z(run, temperature):
    precision = 4 + N / temperature
    return np.abs(moment_z(run.posterior["mu"].to_numpy(), 4 / precision, precision**-0.5)).max()


@pytest.mark.slow
def test_the_likelihood_is_tempered_and_the_prior_is_not(model):
    run = _sample(model, 50.0)
    assert _z(run, 50.0) < MAX_Z
    assert _z(run, 1.0) > MAX_Z
    # Prior and likelihood both divided by 50:
    assert np.abs(moment_z(run.posterior["mu"].to_numpy(), 4 / 404, np.sqrt(50 / 404))).max() > MAX_Z


@pytest.mark.parametrize("schedule", [pma.Annealing(500, 150, 20.0), pma.TemperatureDrop(500, 10**9, 20.0)])
def test_every_draw_is_kept_at_the_final_temperature(model, schedule):
    run = _sample(model, schedule)
    assert _z(run, 20.0) < MAX_Z
    assert _z(run, 500.0) > MAX_Z


def test_cooling_is_geometric():
    schedule = pma.Annealing(start=64, steps=3, final=1)
    assert [schedule.at(t) for t in range(5)] == pytest.approx([64, 16, 4, 1, 1])
    schedule = pma.Annealing(start=64, steps=3, final=8)
    assert [schedule.at(t) for t in range(5)] == pytest.approx([64, 32, 16, 8, 8])
    drop = pma.TemperatureDrop(start=100, steps=2, final=1)
    assert [drop.at(t) for t in range(4)] == [100, 100, 1, 1]


@pytest.mark.parametrize("schedule", [pma.Annealing(10, 1), pma.TemperatureDrop(10, 1), as_schedule(1)])
def test_schedules_end_at_the_posterior_and_do_not_change(schedule):
    assert (schedule.at(1), schedule.final) == (1.0, 1.0)
    with pytest.raises(FrozenInstanceError):
        schedule.final = 2.0


@pytest.mark.parametrize("temperature", [0, -1.0, np.nan, np.inf])
def test_a_temperature_must_be_positive_and_finite(temperature):
    with pytest.raises(ValueError, match="must be positive and finite"):
        as_schedule(temperature)
    with pytest.raises(ValueError, match="must be positive and finite"):
        pma.Annealing(start=temperature, steps=5)


def test_what_is_no_temperature_is_refused():
    with pytest.raises(TypeError, match="neither a number nor a schedule"):
        as_schedule([1, 2])
    with pytest.raises(ValueError, match="at least one transition"):
        pma.TemperatureDrop(start=10, steps=0)
