"""Expansions in powers of parameters: the sums are those of all rows, and posteriors against a boundary are right."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z, moments_on_grid
from known_sums import changes, sums_at

import pymc_austerity as pma
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy import bend, centre
from pymc_austerity.proxy.expansion import Expansion
from pymc_austerity.rows.storage import Rows

N = 2_000
SAMPLING = {"chains": 2, "cores": 1, "progressbar": False, "compute_convergence_checks": False}


def against_zero():
    """Return a logistic regression whose slope is positive by its prior and about zero by the data; x and y."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=N), rng.integers(0, 2, N)
    with pm.Model() as model:
        slope = pm.HalfNormal("slope", 1)
        pm.Bernoulli("rows", logit_p=slope * x, observed=pm.Data("y", y))
    return model, x, y


@pytest.mark.parametrize("power", [1.0, -0.7, 0.0])
def test_remainders_and_known_sum_are_the_log_likelihood(power):
    likelihood, source, _ = row_likelihood(against_zero()[0])
    rows, at = Rows(source.row_arrays()), np.array([-2.5])
    straight = sums_at(likelihood, at, rows)

    def added_up(sums):
        expansion = Expansion(np.append(at, power), np.arange(1), sums.gradient, sums.hessian)
        return changes(likelihood, rows, expansion, (np.array([-1.0]), np.array([-4.0])), bent=True)

    found, expected = added_up(bend.by_powers(straight, np.array([power])))
    assert found == pytest.approx(expected, rel=1e-9)
    if power:  # planted: a Hessian by the parameter
        assert added_up(straight)[0] != pytest.approx(expected, rel=1e-3)


def test_the_power_of_a_quadratic_is_found():
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    for power in (1.0, -1.0, 0.5):
        v = np.expm1(power * steps) / power
        found = bend._power_of(steps, 0.3 * v - 0.8 * v**2, 0.3, -1.6 + power * 0.3)
        assert found == pytest.approx(power, abs=1e-3)
    assert bend._power_of(steps, 0.3 * steps - 0.8 * steps**2, 0.3, -1.6) == 0.0


def by_grid(x, y):
    """Return mean and standard deviation of the slope by quadrature."""
    slope = np.linspace(1e-6, 0.6, 4_001)
    eta = np.outer(slope, x)
    return moments_on_grid(slope, (y * eta - np.logaddexp(0, eta)).sum(axis=1) - slope**2 / 2)


def largest_z(draws):
    """Return the largest z-score of mean and variance of the slope; the rows are expanded in powers."""
    model, x, y = against_zero()
    with model:
        step = pma.PenaltyMH()
        idata = pm.sample(draws, tune=500, step=step, random_seed=5, **SAMPLING)
    assert step.decider.parts.prepared.bent
    return np.abs(moment_z(idata.posterior["slope"].to_numpy(), *by_grid(x, y))).max()


@pytest.mark.slow
def test_a_slope_against_zero_has_the_moments_of_quadrature(monkeypatch):
    assert largest_z(4_000) < MAX_Z
    # Planted: the known sum has the Hessian by another power than the remainders.
    monkeypatch.setattr(centre, "by_powers", lambda sums, powers: bend.by_powers(sums, 0.5 * powers))
    assert largest_z(20_000) > MAX_Z


@pytest.mark.slow
def test_powers_travel_and_follow_data():
    """A step read back draws the same; data away from the boundary are expanded as they were without powers."""
    model, x, _ = against_zero()
    step, draws = pma.PenaltyMH(model=model, progressbar=False), []
    for of_model, of in ((model, step), cloudpickle.loads(cloudpickle.dumps((model, step)))):
        with of_model:
            draws.append(pm.sample(100, tune=100, step=of, random_seed=1, **SAMPLING).posterior["slope"])
    assert np.array_equal(*draws)
    assert step.decider.parts.prepared.bent
    with model:
        pm.set_data({"y": (x > 0).astype(int) ^ (np.arange(N) % 5 == 0)})
        pm.sample(100, tune=100, step=step, random_seed=1, **SAMPLING)
    assert not step.decider.parts.prepared.bent
