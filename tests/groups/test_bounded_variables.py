"""Bounded variables in which rows are nearly quadratic are moved in coordinates of their own."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from evidence import MAX_Z
from grouped import search_of
from scipy import stats
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.groups import bounded_variables, group_search, read_groups
from pymc_austerity.groups.bounded_variables import changes_of_bounded_variables
from pymc_austerity.likelihood import read_model, with_blocks

RNG = np.random.default_rng(43)
G, N = 12, 240
GROUP, X = np.arange(N) % G, RNG.gamma(2.0, 0.25, N)
B = np.where(np.arange(G) < 5, 0.0, np.abs(RNG.normal(0, 1, G)))
LEVEL = RNG.integers(0, 5, N)
Y = B[GROUP] * X + RNG.normal(0, 0.4, N)


def slopes_of_groups():
    b = pm.HalfNormal("b", pm.HalfNormal("tau", 1), shape=G)
    pm.Normal("y", b[GROUP] * X, pm.HalfNormal("sigma", 1), observed=Y)


def logistic_slopes():
    eta = pm.math.dot(np.column_stack([X, GROUP]), pm.Exponential("b", 1, shape=2)) - 1
    pm.Bernoulli("y", logit_p=eta, observed=(Y > 0.3).astype(int))


def rates_of_groups():
    pm.Poisson("y", pm.Gamma("b", pm.Exponential("tau", 1), 1.0, shape=G)[GROUP], observed=np.round(X * 4))


def few_zeros():
    """Zeros beyond those of the counts, of which there are none."""
    psi = pm.Uniform("b", 0, 1)
    mean = pm.math.exp(pm.Normal("u", 1.5, pm.HalfNormal("sd", 1), shape=G)[GROUP])
    pm.ZeroInflatedPoisson("y", psi=1 - psi, mu=mean, observed=RNG.poisson(np.exp(1.5), N))


def monotonic():
    """An ordered predictor whose steps are shares."""
    steps = pt.concatenate([[0.0], pt.cumsum(pm.Dirichlet("b", np.ones(4)))])
    u = pm.Normal("u", 0, pm.HalfNormal("tau", 1), shape=G)
    pm.Normal("y", u[GROUP] + pm.Normal("slope", 0, 1) * steps[LEVEL], 0.4, observed=Y)


def scale_of_rows():
    pm.Normal("y", pm.Normal("mu", 0, 1), pm.HalfNormal("b", 1), observed=Y)


def slopes_without_bounds():
    pm.Normal("y", pm.Normal("b", 0, 1, shape=G)[GROUP] * X, 1.0, observed=Y)


def changed_in(write):
    with pm.Model() as model:
        write()
    return changes_of_bounded_variables(model, read_model(model, model.value_vars, None, None))


@pytest.mark.parametrize(
    ("write", "names"),
    [
        (slopes_of_groups, {"b"}), (logistic_slopes, {"b"}), (rates_of_groups, set()), (scale_of_rows, set()),
        (slopes_without_bounds, set()), (few_zeros, {"b"}), (monotonic, {"b"}),
    ],
)  # fmt: skip
def test_variables_in_which_rows_are_quadratic_are_changed(write, names):
    assert {rv.name for rv in changed_in(write)} == names


def test_rows_without_a_slope_are_left_as_they_are(monkeypatch):
    """What they lack is said where they are expanded."""

    def no_slope(*_):
        raise NotImplementedError

    monkeypatch.setattr("pytensor.grad", no_slope)
    assert changed_in(slopes_of_groups) == {}


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_widths_are_half_of_what_rows_leave(unit, monkeypatch):
    """Wherever the scale of the errors starts, and in any unit of the covariate."""
    found = []

    def kept(of, width, model):
        found.append(width)
        return change(of, width, model)

    change = bounded_variables._change
    monkeypatch.setattr(bounded_variables, "_change", kept)
    with pm.Model() as model:
        b = pm.HalfNormal("b", 10 / unit, shape=G)
        mean = pm.Normal("mu", 0, 10) + b[GROUP] * (unit * X)
        pm.Normal("y", mean, pm.HalfNormal("sigma", 10), observed=3 + Y)
    changes_of_bounded_variables(model, read_model(model, model.value_vars, None, None))
    known = 0.4 / (unit * np.sqrt(np.bincount(GROUP, X**2)))
    ratio = found[0] / known
    assert (ratio > 0.25).all()
    assert (ratio < 1.0).all()


@pytest.mark.parametrize(
    ("write", "name"), [(slopes_of_groups, "b_log__"), (few_zeros, "b_interval__"), (monotonic, "b_simplex__")]
)
def test_densities_differ_by_the_jacobian_of_the_map(write, name):
    with pm.Model() as model:
        write()
    found, rng = read_groups(model), np.random.default_rng(1)
    point = {name: 0.5 * rng.standard_normal(np.shape(v)) for name, v in model.initial_point().items()}
    coordinates, blocks = found.data.coordinates, found.data.likelihood.blocks
    own = next(slice(block.start, block.stop) for block in blocks if block.name == name)
    theta, step = coordinates.theta(point), 1e-6
    np.testing.assert_allclose(coordinates.point(point, theta)[name], point[name], rtol=1e-9)
    steps = step * np.eye(point[name].size).reshape(-1, *np.shape(point[name]))
    ends = [[coordinates.theta(point | {name: point[name] + side * h})[own] for h in steps] for side in (1, -1)]
    jacobian = (np.array(ends[0]) - ends[1]) / (2 * step)
    moved = with_blocks(point, theta, blocks)
    known = model.compile_logp(mode="FAST_COMPILE")(point) - np.linalg.slogdet(jacobian)[1]
    assert found.model.compile_logp(mode="FAST_COMPILE")(moved) == pytest.approx(known, rel=1e-7)


@pytest.mark.parametrize("looks_below", [True, False])
def test_rows_do_not_stay_multiples_below_zero(looks_below, monkeypatch):
    """Far above zero the slope of a row by s is a multiple of that by an effect, as was found there, and below not."""
    if not looks_below:
        monkeypatch.setattr(group_search, "is_transformed_name", lambda name: False)
    monkeypatch.setattr(bounded_variables, "_PART", 1e-3)
    with pm.Model() as model:
        u = pm.Normal("u", 0, pm.HalfNormal("sd", 1), shape=(G, 2))
        eta = u[GROUP, 0] + u[GROUP, 1] * X + pm.HalfNormal("b", 1) * np.sin(np.arange(N))
        pm.Bernoulli("y", logit_p=eta, observed=(Y > 0.3).astype(int))
    search = search_of(model)
    (slope,) = [b.start for b in search.data.likelihood.blocks if b.name == "b_log__"]
    (along,) = [i for i, move in enumerate(search.model.group_pass.moves()[1]) if move[slope]]
    assert (along in search.multiples.times) == (not looks_below)


def truncated_law(sigma=0.4, tau=1.0):
    """Means and standard deviations of slopes with a known scale and known errors: truncated normal laws."""
    precision = np.bincount(GROUP, X**2) / sigma**2 + 1 / tau**2
    mean = np.bincount(GROUP, X * Y) / sigma**2 / precision
    law = stats.truncnorm(-mean * np.sqrt(precision), np.inf, mean, 1 / np.sqrt(precision))
    return law.mean(), law.std()


@pytest.mark.slow
@pytest.mark.parametrize("right", [True, False])
def test_slopes_about_zero_have_their_law(right, monkeypatch):
    """The Jacobian of the map left out is the planted mistake."""
    if not right:
        change = bounded_variables._change

        def without_jacobian(of, width, model):
            found = change(of, width, model)
            return replace(found, log_prior=found.log_prior + pt.softplus(-found.new / width))

        monkeypatch.setattr(bounded_variables, "_change", without_jacobian)
    with pm.Model() as model:
        b = pm.HalfNormal("b", 1.0, shape=G)
        pm.Normal("y", b[GROUP] * X + 0 * pm.Normal("spare", 0, 1), 0.4, observed=Y)
    step = pma.GroupMH(model=model, rng=1, progressbar=False)
    draws = sampled(model, step, 4_000, tune=600).posterior["b"].to_numpy().reshape(-1, G)
    mean, sd = truncated_law()
    z = (draws.mean(axis=0) - mean) / sd * np.sqrt(len(draws) / 4)  # a fourth of the draws or more are effective
    assert (np.abs(z).max() < MAX_Z) == right
