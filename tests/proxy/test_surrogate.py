"""The surrogate and its Hamiltonian transitions, number for number against NumPy."""

import numpy as np
import pytest
from numba import njit, types
from toy import FACTOR, surrogate_state

from pymc_austerity.compile.addresses import NOWHERE, addresses, arrays_at
from pymc_austerity.likelihood import Surroundings
from pymc_austerity.proxy.linearisation import Linearisation
from pymc_austerity.proxy.scaling import Scaling
from pymc_austerity.proxy.surrogate import (
    QUARTER_PERIOD,
    adapt_step_size,
    build_evaluation,
    build_trajectory,
    path_search,
)

D = 3
#: The rows read two entries of θ and the first of the others.
CENTRE, COORDINATES = np.array([0.2, 0.0, -0.5, 0.7, 0.0]), np.array([0, 2, 3])
GRADIENT = np.array([0.4, -1.0, 2.0])
HESSIAN = -np.array([[2.0, 0.5, 0.3], [0.5, 1.0, -0.2], [0.3, -0.2, 3.0]])
STEERING = Linearisation(CENTRE, COORDINATES, GRADIENT, HESSIAN)
FIXED = types.Tuple((types.float64[::1],))
OTHERS, TEMPERATURE = np.array([1.5, 0.9]), 2.0
NO_WALL, START = np.inf, np.array([0.3, -0.6, 0.1])


@njit
def _prior_slope(links, theta, others, fixed):
    """A normal prior with a mean that depends on the others, and nothing beyond a wall, or no slope beyond another."""
    slope = -(theta - others[0])
    value = -0.5 * np.dot(slope, slope)
    wall, no_slope = arrays_at(fixed, FIXED)[0]
    if theta[0] > wall:
        value = -np.inf
    if theta[0] > no_slope:
        slope = slope * np.nan
    return value, slope


@pytest.fixture(scope="module")
def compiled():
    evaluate = build_evaluation(_prior_slope)
    return evaluate, build_trajectory(evaluate)


def around(wall=NO_WALL, no_slope=NO_WALL):
    return Surroundings(OTHERS, addresses((np.array([wall, no_slope]),), FIXED), NOWHERE, TEMPERATURE, ())


def state(step=0.3, path=1.5):
    search = path_search([(9.0, 1), (path, 1)], D)._replace(choice=np.array([1]))
    return surrogate_state(np.log(step), search, STEERING)


def log_surrogate(theta, wall=NO_WALL):
    h = (np.append(theta, OTHERS) - CENTRE)[COORDINATES]
    prior = -0.5 * ((theta - OTHERS[0]) ** 2).sum() if theta[0] <= wall else -np.inf
    return prior + (GRADIENT @ h + h @ HESSIAN @ h / 2) / TEMPERATURE


def slope_of(theta, step=1e-6):
    return np.array([(log_surrogate(theta + e) - log_surrogate(theta - e)) / (2 * step) for e in step * np.eye(D)])


def by_hand(seed, step, path, wall=NO_WALL, no_slope=NO_WALL):
    """A trajectory in coordinates x with θ = centre + factor·x, kick, drift, kick; and its acceptance probability."""
    rng, longest = np.random.default_rng(seed), min(64, max(1, int(np.ceil(path / step))))
    n = rng.integers(max(1, 3 * longest // 4), longest + longest // 4 + 2)
    momentum, log_uniform = rng.standard_normal(D), np.log1p(-rng.random())
    theta, start = START, log_surrogate(START, wall)
    energy = start - momentum @ momentum / 2
    for _ in range(n):
        momentum = momentum + step / 2 * FACTOR.T @ slope_of(theta)
        theta = theta + step * FACTOR @ momentum
        if theta[0] > wall:
            return START, start, start, 0.0
        momentum = momentum + step / 2 * FACTOR.T @ (slope_of(theta) if theta[0] <= no_slope else np.full(D, np.nan))
    ratio = log_surrogate(theta, wall) - momentum @ momentum / 2 - energy
    if np.isnan(ratio):
        return START, start, start, 0.0
    if log_uniform >= ratio:
        return START, start, start, np.exp(ratio)
    return theta, start, log_surrogate(theta, wall), min(1.0, np.exp(ratio))


@pytest.mark.parametrize(
    ("step", "path", "ends", "kept"),
    [
        pytest.param(0.3, 1.5, {}, "none", id="careful"),
        pytest.param(0.9, 1.5, {}, "some", id="bold"),
        pytest.param(2.0, 1.5, {}, "all", id="one step"),
        pytest.param(0.01, 1.5, {}, "none", id="as many as there may be"),
        pytest.param(0.3, 1.5, {"wall": 1.0}, "some", id="out of the posterior"),
        pytest.param(0.5, 0.4, {"no_slope": 0.4}, "some", id="no energy"),
    ],
)
def test_a_trajectory_is_leapfrog_in_whitened_coordinates(compiled, step, path, ends, kept):
    stayed = 0
    for seed in range(12):
        found = compiled[1](np.random.default_rng(seed), START, state(step, path), around(**ends))
        for ours, expected in zip(found, by_hand(seed, step, path, **ends)):
            assert ours == pytest.approx(expected, rel=1e-5, abs=1e-7)
        stayed += bool((found[0] == START).all())
    assert ("none", "some", "all")[(stayed > 0) + (stayed == 12)] == kept


def test_the_step_size_follows_its_target_and_stays_stable():
    at = state(0.6)
    adapt_step_size(at, 0.8)
    assert (at.t[0], at.log_scale[0]) == (1, pytest.approx(np.log(0.6) + 0.3))
    adapt_step_size(at, 0.1)
    assert (at.t[0], at.log_scale[0]) == (2, pytest.approx(np.log(0.6) + 0.3 - 0.4 / 2**0.6))
    for _ in range(50):
        adapt_step_size(at, 1.0)
    assert at.log_scale[0] == 0.4


def test_quarter_period_forgets_its_start(compiled):
    normal = STEERING._replace(gradient=np.zeros(3), hessian=np.zeros((3, 3)))
    at = state(0.1)._replace(factor=np.eye(D), linearisation=normal, search=path_search([(QUARTER_PERIOD, 1)], D))
    rng, theta, draws = np.random.default_rng(5), OTHERS[0] + np.zeros(D), []
    for _ in range(300):
        theta = compiled[1](rng, theta, at, around())[0]
        draws.append(theta - OTHERS[0])
    x = np.array(draws)
    # A third of a period, or a half, leaves a correlation of a half and more.
    assert abs((x[1:] * x[:-1]).mean() / (x**2).mean()) < 0.25


@pytest.mark.parametrize("kind", ["diagonal", "dense", "scaled"])
def test_new_factor_comes_with_its_inverse(kind):
    at, matrix = state(), np.diag([2.0, 5.0, 0.1]) @ np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2)[0]
    adapt_step_size(at, 0.8)
    if kind == "diagonal":
        found = at.with_factor(np.array([0.5, 2.0, 4.0]), 0.7)
        assert found.whiten == pytest.approx([2.0, 0.5, 0.25])
    else:
        scaling = Scaling(matrix, np.linalg.inv(matrix)) if kind == "scaled" else Scaling()
        found = at.with_factor(FACTOR, 0.7, scaling)
        np.testing.assert_allclose(found.factor, matrix @ FACTOR if kind == "scaled" else FACTOR)
        np.testing.assert_allclose(found.whiten @ found.factor, np.eye(D), atol=1e-12)
    assert (found.t.tolist(), found.log_scale.tolist()) == ([0], [np.log(0.7)])


def test_a_chain_changes_its_own_copy():
    at = state()
    own = at.at_start(START, np.zeros(D, bool), 100)
    adapt_step_size(own, 0.8)
    own.search.jumps[0] = own.search.costs[0] = own.search.last[0] = 1.0
    assert (at.t[0], at.log_scale[0], at.search.jumps[0], at.search.costs[0]) == (0, np.log(0.3), 0.0, 0.0)
    assert np.isnan(at.search.last).all()
