"""The centre of groups: the mode of what they share, in any unit of the outcome and at any scale of the rows."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from cases import cases
from grouped import search_of
from scipy.optimize import minimize

from pymc_austerity.groups.group_mode import find_group_centre, limited_step
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.likelihood import read_model

RNG = np.random.default_rng(0)
INDEX = np.repeat(np.arange(60), 20)
EFFECTS = RNG.normal(size=60)
Y = EFFECTS[INDEX] + RNG.normal(size=INDEX.size) / 3


@pytest.mark.slow
@pytest.mark.parametrize("apart", [1e-2, 1e-6])
def test_the_covariance_of_columns_that_are_nearly_one(apart):
    """R² of 1 − 10⁻⁴ and more had sds of a twentieth and less, and an effective sample size of 3."""
    x, other = RNG.normal(size=(2, INDEX.size))
    X = np.column_stack([np.ones(INDEX.size), x, x + apart * other])
    with pm.Model() as model:
        coefficients = pm.Normal("coefficients", 0, 1e6, shape=3)
        effect = pm.Normal("effect", 0, 0.5, shape=60)
        pm.Normal("rows", X @ coefficients + effect[INDEX], 1, observed=Y)
    found = find_group_centre(search_of(model))
    design = np.vstack([np.column_stack([X, np.eye(60)[INDEX] / 2]), np.eye(63)[3:], np.eye(63)[:3] / 1e6])
    r = np.linalg.qr(design, mode="r")
    expected = np.sqrt((np.linalg.inv(r)[:3] ** 2).sum(axis=1))
    np.testing.assert_allclose(np.sqrt((found.factor**2).sum(axis=1)), expected, rtol=0.05)


@pytest.fixture(scope="module")
def centre_of():
    """Return the search for the centre, compiled once: the outcome and its unit are data."""
    with pm.Model() as model:
        y, unit = pm.Data("y", Y), pm.Data("unit", 1.0)
        mean, scale = pm.Normal("mean", 0, 10 * unit), pm.HalfNormal("scale", 3 * unit)
        effect = pm.Normal("effect", mean, scale, shape=60)
        pm.StudentT("rows", nu=4, mu=effect[INDEX], sigma=pm.HalfNormal("s", unit), observed=y)
    compiled = search_of(model).model

    def run(unit):
        pm.set_data({"y": Y * unit, "unit": unit}, model=model)
        now = read_model(model, model.value_vars, None, None)
        found = find_group_centre(GroupSearch.of(replace(now, likelihood=compiled.likelihood), compiled))
        return found.mean, found.factor

    return run


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-9, 300.0])
def test_the_centre_of_groups_is_the_same_in_any_unit(centre_of, unit):
    """At 300 the search stopped where it began, and chains started at scales of 1e39."""
    (mean, factor), (expected, expected_factor) = centre_of(unit), centre_of(1.0)
    moved, scales = np.array([0, np.log(unit), np.log(unit)]), np.array([unit, 1, 1])
    sds = np.sqrt((expected_factor**2).sum(axis=1))
    np.testing.assert_allclose(np.sqrt((factor**2).sum(axis=1)) / scales, sds, rtol=0.02)
    assert np.abs((mean - moved) / scales - expected).max() < 0.2 * sds.max()
    assert abs(expected[1] - np.log(EFFECTS.std())) < 4 * sds[1]


def censored(mean, scale, observed):
    end = np.quantile(observed, 0.9)
    pm.Censored("rows", pm.Normal.dist(mean, scale), lower=None, upper=end, observed=np.minimum(observed, end))


ROWS = {"normal": lambda mean, scale, observed: pm.Normal("rows", mean, scale, observed=observed), "censored": censored}


@pytest.mark.parametrize("name", cases(ROWS, ["normal"]))
def test_a_level_far_from_the_start_is_found(name):
    """Effects that were kept within a standard deviation of where they were did not follow their level, in 40 steps."""
    unit, rng = 1e3, np.random.default_rng(10)
    index, x, effects = rng.integers(0, 80, 8_000), rng.normal(size=8_000), rng.normal(0, 0.5, 80)
    y = unit * (3 + 0.4 * x + effects[index] + rng.normal(size=8_000))
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, pm.HalfNormal("scale", unit), shape=80)
        mean = pm.Normal("level", 0, 10 * unit) + pm.Normal("slope", 0, unit) * x + effect[index]
        ROWS[name](mean, pm.HalfNormal("s", 10 * unit), y)
    search = search_of(model)
    found, (at,) = find_group_centre(search), [b.start for b in search.data.likelihood.blocks if b.name == "level"]
    assert abs(found.mean[search.model.groups.shared == at] / unit - 3 - effects.mean()) < 0.3


@pytest.mark.slow
def test_groups_with_a_level_and_a_scale_each_are_expanded():
    """A group's log-likelihood curves upwards where its scale is far off; every group finds its place all the same."""
    rng = np.random.default_rng(10)
    index = rng.integers(0, 30, 4_000)
    scale = np.exp(0.3 * rng.normal(size=30))
    y = 0.5 * rng.normal(size=30)[index] + scale[index] * rng.normal(size=index.size)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu"), pm.HalfNormal("tau")
        level = pm.Normal("level", mu, tau, shape=30)
        log_scale = pm.Normal("log_scale", pm.Normal("mean"), pm.HalfNormal("spread"), shape=30)
        pm.Normal("rows", level[index], pm.math.exp(log_scale)[index], observed=y)
    found = find_group_centre(search_of(model))
    of_groups = found.expansion.centre[found.expansion.own]
    apart = [y[index == g] for g in range(30)]
    np.testing.assert_allclose(of_groups[:, 0], [r.mean() for r in apart], atol=0.2)
    np.testing.assert_allclose(of_groups[:, 1], [np.log(r.std()) for r in apart], atol=0.2)
    assert found.passes < 20


#: Two rows a group, so that the scale changes the determinants of the groups by as much as the rows.
TWO = np.random.default_rng(4).normal(0.7, 0.4, 600).repeat(2) + np.random.default_rng(5).normal(0, 0.3, 1200)


@cache
def search_of_two(expands):
    with pm.Model() as model:
        effect = pm.Normal("effect", pm.Normal("mean", 0, 2), pm.HalfNormal("scale", 1), shape=600)
        pm.Normal("rows", effect[np.arange(600).repeat(2)], pm.HalfNormal("s", 1), observed=TWO)
    return search_of(model, expands)


@pytest.mark.slow
@pytest.mark.parametrize("expands", [True, False])
def test_the_scale_of_normal_rows_goes_to_its_mode_at_once(expands):
    """Where the search knew the rows at one scale only it took 40 passes, and ended elsewhere."""
    found = find_group_centre(search_of_two(expands))
    sums, squares = TWO.reshape(600, 2).sum(axis=1), ((TWO[::2] - TWO[1::2]) ** 2).sum() / 2

    def minus_log_density(phi):
        """Of a group's sum and difference, which are independent."""
        mean, of_groups, of_rows = phi[0], np.exp(2 * phi[1]), np.exp(2 * phi[2])
        variance = 4 * of_groups + 2 * of_rows
        likelihood = 600 * np.log(variance) / 2 + ((sums - 2 * mean) ** 2).sum() / (2 * variance)
        likelihood += 600 * phi[2] + squares / (2 * of_rows)
        return likelihood + mean**2 / 8 + of_groups / 2 + of_rows / 2 - phi[1] - phi[2]

    mode = minimize(minus_log_density, [0.0, 0.0, 0.0], method="BFGS").x
    sds = np.sqrt((found.factor**2).sum(axis=1))
    np.testing.assert_allclose(found.mean, mode, atol=0.05 * sds.min())
    assert found.passes < 8


@pytest.mark.slow
def test_a_scale_below_what_numbers_hold_is_impossible():
    """There effects could not be told from their mean: rounding gave a scale of e⁻⁵⁰ a density above all others."""
    search = search_of_two(True)
    expansion = search.expand(search.data.theta0)

    def marginal(log_scale):
        return search.surrogate.marginal(np.array([-0.4, log_scale, 0.0]), expansion)[0]

    assert marginal(-20.0) - marginal(-28.0) == pytest.approx(8.0, abs=1e-3)
    assert [marginal(low) for low in (-40.0, -60.0, -120.0, -300.0)] == [-np.inf] * 4


def test_a_long_step_of_a_group_keeps_its_direction():
    """Entry by entry the step of nearly collinear coefficients was turned, and a search took twice as many passes."""
    wanted, factor = np.array([[9.0, -6.0], [0.2, 0.1]]), np.array([np.eye(2)] * 2)
    none = SimpleNamespace(at=np.zeros(0, np.int64))
    expansion = SimpleNamespace(first=np.array([0, 2]), ties=none, precision=factor)
    step, length, _ = limited_step(wanted, factor, expansion, 3.0, 100)
    np.testing.assert_allclose(step, [[3.0, -2.0], [0.2, 0.1]])
    assert length == 3.0
