"""A model's functions by their addresses: called like any other, and what calls them is compiled for all models."""

import weakref

import numpy as np
import pymc as pm
import pytest
from numba import from_dtype, njit, types
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.compile.addresses import NOWHERE, addresses, arrays_at, n_rows_at
from pymc_austerity.compile.code_key import code_key
from pymc_austerity.likelihood import Links
from pymc_austerity.likelihood.linked_functions import (
    PAIR,
    both_sides_at,
    log_prior_at,
    reach_both_sides,
    reach_log_prior,
    reach_reading,
)

NO_DATA = types.Tuple(())
N = 300
rng = np.random.default_rng(11)
X = rng.normal(size=(N, 2))
Y = (rng.random(N) < 0.4).astype(np.int64)


def log_prior(scale):
    @njit
    def value(theta, others):
        if theta[0] > 5:
            raise ValueError("beyond five")
        return (np.array(-scale * np.dot(theta, theta)),)

    return value


def test_functions_are_told_apart_by_their_addresses():
    reached = [reach_log_prior(log_prior(scale), NO_DATA) for scale in (1.0, 3.0)]
    one, two = (Links(log_prior=of.address) for of in reached)

    def prior_at(theta, *links):
        return [log_prior_at(of, np.array(theta), np.empty(0), NOWHERE) for of in links]

    assert prior_at([1.0, 2.0], one, two, one) == [-5.0, -15.0, -5.0]
    assert len(log_prior_at.signatures) == 1
    with pytest.raises(ValueError, match="beyond five"):
        prior_at([6.0, 6.0], one)
    with pytest.raises(RuntimeError, match="nobody has linked"):
        prior_at([0.0, 0.0], Links())


def test_arrays_are_found_again_whatever_their_types():
    matrix, flags, cube = np.arange(6.0).reshape(3, 2), np.array([True, False, True]), np.arange(24, dtype=np.int8)
    arrays = matrix, flags, cube.reshape(3, 4, 2), np.array(2.5, np.float32), np.empty((0, 3))
    given = types.Tuple([types.Array(from_dtype(a.dtype), a.ndim, "C") for a in arrays])

    @njit
    def copies(at):
        first, second, third, fourth, fifth = arrays_at(at, given)
        return first.copy(), second.copy(), third.copy(), fourth.item(), fifth.shape

    at = addresses(arrays, given)
    *found, number, shape = copies(at)
    for array, expected in zip(found, arrays):
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected)
    assert (number, shape, n_rows_at(at)) == (2.5, (0, 3), 3)


def test_arrays_live_as_long_as_their_addresses_are_in_use():
    class Seen(np.ndarray):
        pass

    array = np.arange(5.0).view(Seen)
    seen, at = weakref.ref(array), addresses((array,), types.Tuple((types.float64[::1],)))
    del array
    assert seen() is not None
    del at
    assert seen() is None


def test_arrays_of_another_type_are_refused_and_not_misread():
    rows = types.Tuple((types.float64[:, ::1],))

    @njit
    def terms(theta_new, theta, others, x):
        return x @ theta_new, x @ theta

    reached, reading = reach_both_sides(terms, NO_DATA, rows), reach_reading(PAIR, 3, NO_DATA, rows, False)
    links, theta = Links(both_sides=reached.address, reading=reading.address), np.array([1.0, -1.0])
    at, some, none = addresses((X,), rows), np.array([7, 0, 7]), np.empty(0)
    new, old = both_sides_at(links, 2 * theta, theta, none, none, NOWHERE, at, some)
    np.testing.assert_array_equal(new, 2 * old)
    np.testing.assert_allclose(old, X[some] @ theta)
    for wrong in (X[:, 0].copy(), X.astype(np.float32), X.T, X[:, ::-1]):
        with pytest.raises(TypeError, match="are expected"):
            addresses((wrong,), rows)


def step_of(prior, link):
    with pm.Model():
        pm.Bernoulli("y", p=link(pm.Data("x", X) @ prior("beta", 0, 1, shape=2)), observed=Y)
        return pma.PenaltyMH(progressbar=False)


def keys_of(decider):
    """What finds the code that serves all models on disk."""
    sums = decider.compiled.derivatives[0].sums
    return [code_key(function) for function in (decider.transition, decider.compiled.surrogate.trajectory, sums)]


@pytest.mark.slow
def test_another_model_shares_the_code_for_all_models():
    first, second = step_of(pm.Normal, pm.math.invlogit), step_of(pm.Logistic, pm.math.invprobit)
    assert keys_of(second.decider) == keys_of(first.decider)
    # Planted: a function of the model is another code for each.
    assert len({code_key(of.decider.density.log_prior) for of in (first, second)}) == 2
    # Both decide by their own model, whichever was compiled first.
    for decider in (first.decider, second.decider):
        theta, at = decider.parts.theta0, decider.surroundings(np.empty(0))
        moved = theta + [0.3, -0.2]
        assert at.links == decider.links
        value = decider.offset_of(moved, theta, 0.0, at)[1]
        prior = [decider.density.log_prior(t, at.others)[0].item() for t in (moved, theta)]
        known = [decider.density.known_sum(t, at.others, at.expansion) for t in (moved, theta)]
        assert value == prior[0] - prior[1] + (known[0] - known[1])
    assert first.decider.links != second.decider.links


@pytest.mark.slow
def test_fixed_data_may_lie_in_memory_in_any_way():
    """Values by columns, or read-only ones, when the step is built and when they are replaced."""
    weights = np.array([[1.0, 0.5, -1.0], [0.0, 2.0, 1.0]])
    by_columns, read_only = np.asfortranarray(weights), weights.copy()
    read_only.setflags(write=False)
    draws = []
    for first, *others in ((by_columns, read_only), (read_only, by_columns, weights)):
        with pm.Model() as model:
            w = pm.Data("w", first)
            beta = pm.Normal("beta", 0, 1, shape=3)
            pm.Normal("y", (pm.Data("x", X) @ w) @ beta, 1, observed=Y)
            step = pma.ExactMH(progressbar=False)
            for then in others:
                w.set_value(then, borrow=True)
                draws.append(sampled(model, step, 20, tune=0, seed=1, chains=1).posterior["beta"].to_numpy())
    assert len(draws) == 3
    assert len(np.unique(draws[0])) > 3
    assert all(np.array_equal(found, draws[0]) for found in draws)
