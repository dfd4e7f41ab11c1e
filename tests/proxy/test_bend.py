"""Expansions in powers of parameters: the sums are those of all rows, and posteriors against a boundary are right."""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z

import pymc_austerity as pma
from pymc_austerity.likelihood.density import compile_density
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy import bend, centre
from pymc_austerity.proxy.expansion import Expansion, compile_remainder_density, expanded_sum
from pymc_austerity.proxy.full_pass import FullPass, read_coordinates
from pymc_austerity.rows.storage import Rows

N = 2_000


def against_zero():
    """Return a logistic regression whose slope is positive by its prior and about zero by the data; x and y."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=N), rng.integers(0, 2, N)
    with pm.Model() as model:
        slope = pm.HalfNormal("slope", 1)
        pm.Bernoulli("y", logit_p=slope * x, observed=y)
    return model, x, y


def change_by_expansion(powers, sums):
    """Return how remainders of all rows and known sum change between two points, and how the log-likelihood does."""
    model, _, _ = against_zero()
    likelihood, source, _ = row_likelihood(model)
    density = compile_density(likelihood)
    centre = np.array([-2.5])
    full_pass = FullPass(likelihood, read_coordinates(likelihood))
    rows = Rows(source.row_arrays())
    at_centre = full_pass(centre, (), rows)
    expansion = Expansion(np.append(centre, powers), full_pass.coordinates, *sums(at_centre, powers)[1:])
    remainders = compile_remainder_density(density, likelihood, 2, True, mode="NUMBA")
    new, old, nothing = np.array([-1.0]), np.array([-4.0]), np.empty(0)
    r_new, r_old = remainders.both_sides(new, old, nothing, expansion.centre, *rows.arrays)
    known = expanded_sum(new, nothing, expansion) - expanded_sum(old, nothing, expansion)
    return (r_new - r_old).sum() + known, full_pass(new, (), rows).value - full_pass(old, (), rows).value


@pytest.mark.parametrize("power", [1.0, -0.7, 0.0])
def test_remainders_and_known_sum_are_the_log_likelihood(power):
    found, expected = change_by_expansion(np.array([power]), bend.by_powers)
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_hessian_by_the_parameter_would_be_seen():
    found, expected = change_by_expansion(np.array([1.0]), lambda sums, powers: sums)
    assert found != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("power", [1.0, -1.0, 0.5])
def test_the_power_of_a_quadratic_is_found(power):
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    v = np.expm1(power * steps) / power
    found = bend._power_of(steps, 0.3 * v - 0.8 * v**2, 0.3, -1.6 + power * 0.3)
    assert found == pytest.approx(power, abs=1e-3)


def test_a_quadratic_stays_as_it_is():
    steps = np.array([-2.0, -1.0, 1.0, 2.0])
    assert bend._power_of(steps, 0.3 * steps - 0.8 * steps**2, 0.3, -1.6) == 0.0


def by_grid(x, y):
    """Return mean and standard deviation of the slope by quadrature."""
    slope = np.linspace(1e-6, 0.6, 4_001)
    eta = np.outer(slope, x)
    log_density = (y * eta - np.logaddexp(0, eta)).sum(axis=1) - slope**2 / 2
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ slope
    return mean, np.sqrt(weight @ (slope - mean) ** 2)


def z_scores(step_of, draws=4_000):
    """Return z-scores of mean and variance of the slope, and how the rows were expanded."""
    model, x, y = against_zero()
    with model:
        step = step_of()
        idata = pm.sample(
            draws, tune=500, step=step, chains=2, cores=1, random_seed=5, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    z = moment_z(idata.posterior["slope"].to_numpy(), *by_grid(x, y))
    return np.abs(z).max(), step.decider.parts.prepared.bent


@pytest.mark.slow
@pytest.mark.parametrize("step_of", [pma.PenaltyMH, pma.MinibatchBarker, pma.ExactMH], ids=lambda of: of.__name__)
def test_a_slope_against_zero_has_the_moments_of_quadrature(step_of):
    z, bent = z_scores(step_of)
    assert bent
    assert z < MAX_Z


@pytest.mark.slow
def test_powers_travel_to_processes_and_follow_data():
    """Processes started afresh draw the same; data away from the boundary are expanded as they were without powers."""
    model, x, _ = against_zero()
    options = {"draws": 100, "tune": 100, "chains": 2, "random_seed": 1, "progressbar": False}
    with model:
        step = pma.PenaltyMH()
        here = pm.sample(step=step, cores=1, compute_convergence_checks=False, **options)
        there = pm.sample(step=step, cores=2, mp_ctx="spawn", compute_convergence_checks=False, **options)
    assert np.array_equal(here.posterior["slope"], there.posterior["slope"])
    with pm.Model() as model:
        slope, y = pm.HalfNormal("slope", 1), pm.Data("y", np.arange(N) % 2)
        pm.Bernoulli("rows", logit_p=slope * x, observed=y)
        step = pma.PenaltyMH(progressbar=False)
        assert step.decider.parts.prepared.bent
        pm.set_data({"y": (x > 0).astype(int) ^ (np.arange(N) % 5 == 0)})
        pm.sample(step=step, cores=1, compute_convergence_checks=False, **options)
    assert not step.decider.parts.prepared.bent


@pytest.mark.slow
def test_a_surrogate_in_other_powers_than_the_rows_is_seen(monkeypatch):
    """The known sum has the Hessian by another power than the remainders."""
    monkeypatch.setattr(centre, "by_powers", lambda sums, powers: bend.by_powers(sums, 0.5 * powers))
    z, bent = z_scores(pma.PenaltyMH, draws=20_000)
    assert bent
    assert z > MAX_Z
