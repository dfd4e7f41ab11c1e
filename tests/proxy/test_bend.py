"""Expansions in powers of parameters: the sums are those of all rows, and posteriors against a boundary are right."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from known_sums import changes, error_of_log_ratios, sums_at

import pymc_austerity as pma
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy import bend, centre
from pymc_austerity.proxy.expansion import Expansion
from pymc_austerity.rows.storage import Rows

N = 2_000


def against_zero():
    """Return a logistic regression whose slope is positive by its prior and about zero by the data; and x."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=N), rng.integers(0, 2, N)
    with pm.Model() as model:
        slope = pm.HalfNormal("slope", 1)
        pm.Bernoulli("rows", logit_p=slope * x, observed=pm.Data("y", y))
    return model, x


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 6])
def test_normal_rows_are_expanded_though_their_slopes_are_wide(seed):
    """In powers of slopes that the data allow to be 0 normal rows leave next to nothing, at posterior distance too."""
    rng, n = np.random.default_rng(seed), 100_000
    X = rng.normal(size=(n, 3))
    with pm.Model():
        level, slopes, sd = pm.Normal("level"), pm.HalfNormal("slopes", 1, shape=3), pm.HalfNormal("sd", 1)
        pm.Normal("rows", level + X @ slopes, sd, observed=rng.normal(size=n))
        assert pma.PenaltyMH(progressbar=False).decider.parts.prepared.bent


@pytest.mark.slow
def test_on_all_rows_log_ratios_are_those_of_the_model(monkeypatch):
    model, x = against_zero()
    everything = {"batch_size": N, "rows": pma.Uniform(), "proposal": pma.CrankNicolson(), "progressbar": False}
    step = pma.PenaltyMH(model=model, **everything)
    assert step.decider.parts.prepared.bent
    assert error_of_log_ratios(step, model) < 1e-7
    assert error_of_log_ratios(cloudpickle.loads(cloudpickle.dumps(step)), model) < 1e-7
    # Planted: the known sum has the Hessian by another power than the remainders.
    monkeypatch.setattr(centre, "by_powers", lambda sums, powers: bend.by_powers(sums, 0.5 * powers))
    assert error_of_log_ratios(pma.PenaltyMH(model=model, **everything), model) > 1e-4
    # Data away from the boundary are expanded as they were without powers.
    pm.set_data({"y": (x > 0).astype(int) ^ (np.arange(N) % 5 == 0)}, model=model)
    assert error_of_log_ratios(step, model) < 1e-7
    assert not step.decider.parts.prepared.bent
