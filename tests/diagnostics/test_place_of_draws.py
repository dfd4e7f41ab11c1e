"""Draws that lie where the posterior is, and draws that do not: judged by the gradient of the log posterior."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats

import pymc_austerity as pma
from pymc_austerity.diagnostics.density_on_rows import DensityOnRows
from pymc_austerity.diagnostics.drawn_states import drawn_states
from pymc_austerity.diagnostics.place_of_draws import drift_of, judge_place, movement, states_of_place
from pymc_austerity.diagnostics.verdicts import DO_NOT_TRUST, TRUST, judge_location, overall
from pymc_austerity.likelihood import read_model

N, D = 1_000, 10
CHAINS, DRAWS = 4, 500
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)) + RNG.normal(size=(N, 1))  # columns are correlated, and so are coefficients
Y = X.sum(axis=1) / 10 + RNG.normal(size=N)


def regression_on(x, y):
    with pm.Model() as model:
        pm.Normal("o", pm.math.dot(x, pm.Normal("b", 0, 1, shape=D)), 1, observed=y)
    return model, read_model(model, model.value_vars, None, None)


@pytest.fixture(scope="module")
def regression():
    return regression_on(X, Y)


def posterior_of(x, y):
    covariance = np.linalg.inv(x.T @ x + np.eye(D))
    return covariance @ x.T @ y, covariance


def drawn(mean, covariance, seed=1):
    return np.random.default_rng(seed).multivariate_normal(mean, covariance, size=(CHAINS, DRAWS))


def verdict(model, data, **draws):
    values = {name: (("chain", "draw", *(f"{name}_{k}" for k in range(v.ndim - 2))), v) for name, v in draws.items()}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values)})
    states = drawn_states(idata, model, data, states_of_place(len(data.rows), data.theta0.size))
    density = DensityOnRows(data, 1.0, states, np.random.default_rng(7))
    found = judge_place(density, states, [str(k) for k in range(data.theta0.size)], None)
    return overall(found) if found else None


MEAN, COVARIANCE = posterior_of(X, Y)
SD = np.sqrt(np.diag(COVARIANCE))
THIRD = np.arange(D) == 3
MANY = 40_000
#: From right draws, their mean, their standard deviations and the rows to draws of another law.
SPOILED = {
    "of other data": lambda right, mean, sd, x, y: drawn(*posterior_of(x, -y)),
    "shifted by one standard deviation": lambda right, mean, sd, x, y: right + sd,
    "shifted in one of ten": lambda right, mean, sd, x, y: right + sd * THIRD,
    "frozen in one of ten": lambda right, mean, sd, x, y: np.where(THIRD, right[0, 0], right),
    "nearly frozen in one of ten": lambda right, mean, *_: np.where(THIRD, mean + 1e-3 * (right - mean), right),
    "stretched in one of ten": lambda right, mean, *_: np.where(THIRD, mean + 1.5 * (right - mean), right),
    "shrunk": lambda right, mean, *_: mean + 0.6 * (right - mean),
}


@pytest.fixture(scope="module")
def many_rows():
    """A regression on so many rows that the gradient is taken from a sample of them."""
    x = RNG.normal(size=(MANY, D)) + RNG.normal(size=(MANY, 1))
    y = x.sum(axis=1) / 10 + RNG.normal(size=MANY)
    return regression_on(x, y), (x, y)


@pytest.fixture(params=["all rows", "a sample of rows"])
def judged_on(request):
    """A model, and the rows that it is on."""
    if request.param == "all rows":
        return request.getfixturevalue("regression"), (X, Y)
    return request.getfixturevalue("many_rows")


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_draws_of_another_law_are_not_trusted(judged_on, spoil):
    read, (x, y) = judged_on
    mean, covariance = posterior_of(x, y)
    draws = spoil(drawn(mean, covariance), mean, np.sqrt(np.diag(covariance)), x, y)
    assert verdict(*read, b=draws) == DO_NOT_TRUST


def test_draws_of_the_posterior_are_trusted(judged_on):
    """Whatever the seed."""
    read, rows = judged_on
    assert [verdict(*read, b=drawn(*posterior_of(*rows), seed)) for seed in range(6)] == [TRUST] * 6


def test_sampled_gradients_are_those_of_all_rows_on_average(many_rows):
    (model, data), (x, y) = many_rows
    draws = drawn(*posterior_of(x, y))[:, ::50]
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset({"b": (("chain", "draw", "k"), draws)})})
    states = drawn_states(idata, model, data, 40)
    density = DensityOnRows(data, 1.0, states, np.random.default_rng(8))
    assert density.sampled
    sd = states.theta.std(axis=0)
    exact = np.array([density.slope(*at) for at in zip(states.theta, states.others)]) * sd
    sampled = np.array([density.sampled_slope(*at) for at in zip(states.theta, states.others)]) * sd
    noise = (sampled - exact).std(axis=0)
    assert (noise < 0.5 * exact.std(axis=0)).all()
    assert (np.abs((sampled - exact).mean(axis=0)) < 4.5 * noise / np.sqrt(40)).all()
    exact = np.array([density.value(theta, states.others[0]) for theta in states.theta])
    found = density.differences(states.theta, states.others[0])
    assert found[0] == 0
    assert np.abs(found - (exact - exact[0])).max() < 0.5 < np.abs(exact - exact[0]).max()
    assert density.passes == 40 + 1 + 40


def test_slow_chains_in_the_right_place_are_trusted(regression):
    walk, rho = np.random.default_rng(5).normal(size=(CHAINS, 2_000, D)), 0.95
    for t in range(1, walk.shape[1]):
        walk[:, t] = rho * walk[:, t - 1] + np.sqrt(1 - rho**2) * walk[:, t]
    draws = MEAN + walk @ np.linalg.cholesky(COVARIANCE).T
    assert verdict(*regression, b=draws) == TRUST
    assert verdict(*regression, b=draws + SD) == DO_NOT_TRUST


def flat(law):
    """A model whose rows say next to nothing, so that its posterior is its prior."""
    with pm.Model() as model:
        pm.Normal("o", law().sum(), 1e6, observed=np.zeros(50))
    return model, read_model(model, model.value_vars, None, None)


LAWS = {
    "no mean": (lambda: pm.Cauchy("b", 0, 1, shape=2), stats.cauchy()),
    "skewed": (lambda: pm.Gamma("b", 0.5, 1, shape=2), stats.gamma(0.5)),
    "bounded": (lambda: pm.Uniform("b", 0, 1, shape=2), stats.uniform()),
}


@pytest.mark.parametrize("law", LAWS)
def test_laws_that_are_not_normal_are_no_reason(law):
    written, of = LAWS[law]
    right = of.rvs(size=(CHAINS, DRAWS, 2), random_state=np.random.default_rng(3))
    model, data = flat(written)
    assert verdict(model, data, b=right) == TRUST
    spoiled = right**2 if law == "bounded" else right * 3
    assert verdict(model, data, b=spoiled) == DO_NOT_TRUST


def test_where_the_gradient_does_not_tell_nothing_is_said():
    x = np.sort(np.random.default_rng(1).uniform(0, 10, 200))
    with pm.Model() as jumps:
        tau = pm.Normal("b", 5, 1)
        pm.Normal("o", pt.switch(x > tau, 1.0, 0.0), 1, observed=(x > 5.0) * 1.0)
    draws = np.random.default_rng(2).normal(5, 0.5, size=(CHAINS, DRAWS))
    assert verdict(jumps, read_model(jumps, jumps.value_vars, None, None), b=draws) is None
    model, data = flat(lambda: pm.Uniform("b", 0, 1, shape=2, default_transform=None))
    assert verdict(model, data, b=np.random.default_rng(2).uniform(size=(CHAINS, DRAWS, 2))) is None


def test_decisions_on_all_rows_lead_back_from_elsewhere():
    """And nowhere from the posterior."""
    rng = np.random.default_rng(4)
    names, relaxation = ["a", "b"], np.full(2, 4.0)

    def shift(draws):
        moves = rng.normal(size=draws.shape)
        log_ratio = (draws**2 - (draws + moves) ** 2).sum(axis=1) / 2
        return drift_of(moves, np.exp(np.minimum(0, log_ratio)), relaxation, names)

    draws = rng.normal(size=(1_000, 2))
    assert judge_location(shift(draws), "decisions").verdict == TRUST
    moved = shift(draws + [0.0, 1.0])
    assert (moved.name, judge_location(moved, "decisions").verdict) == ("b", DO_NOT_TRUST)
    assert moved.value > 0


def test_movement_is_the_change_of_the_log_posterior():
    """Between draws far apart."""
    rows = np.random.default_rng(0).normal(1.0, 1.0, size=1_000)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 10), 1.0, observed=rows)
    decider = pma.ExactMH(proxy=None, model=model, proposal=pma.RandomWalk(scale=0.05), progressbar=False).decider
    first, second = (stats.norm(0, 10).logpdf(mu) + stats.norm(mu, 1).logpdf(rows).sum() for mu in (0.9, 1.2))
    states = [np.array([mu]) for mu in (0.9, 1.1, 1.2)]
    found, passes = movement(decider, states, np.empty(0))
    assert found == pytest.approx(abs(second - first), rel=1e-9)
    assert passes == 1
    assert movement(decider, [states[0]] * 3, np.empty(0)) == (0.0, 0)
