"""A model's functions by their addresses: called like any other, and what calls them is compiled for all models."""

import numpy as np
import pymc as pm
import pytest
from numba import njit, types
from numba.core import event
from numba.core.errors import TypingError

import pymc_austerity as pma
from pymc_austerity import compile_cache
from pymc_austerity.likelihood import Links
from pymc_austerity.likelihood.by_address import build_both_sides, build_log_prior, reach_both_sides, reach_log_prior

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


def test_two_models_are_told_apart_by_their_addresses():
    one, two = (reach_log_prior(log_prior(scale), NO_DATA) for scale in (1.0, 3.0))
    call = build_log_prior(NO_DATA)
    theta, others = np.array([1.0, 2.0]), np.empty(0)
    found = [call(Links(log_prior=reached.address), theta, others, ()) for reached in (one, two, one)]
    assert found == [-5.0, -15.0, -5.0]
    assert len(call.signatures) == 1


def test_an_error_comes_through():
    reached, call = reach_log_prior(log_prior(1.0), NO_DATA), build_log_prior(NO_DATA)
    with pytest.raises(ValueError, match="beyond five"):
        call(Links(log_prior=reached.address), np.full(2, 6.0), np.empty(0), ())


def test_arrays_of_another_type_are_refused_and_not_misread():
    call = build_both_sides(types.Tuple(()), types.Tuple((types.float64[:, ::1],)))

    @njit
    def terms(theta_new, theta, others, x):
        return x @ theta_new, x @ theta

    reached = reach_both_sides(terms, types.Tuple(()), types.Tuple((types.float64[:, ::1],)))
    links, theta = Links(both_sides=reached.address), np.array([1.0, -1.0])
    new, old = call(links, 2 * theta, theta, np.empty(0), (), (X,))
    np.testing.assert_array_equal(new, 2 * old)
    np.testing.assert_allclose(old, X @ theta)
    with pytest.raises(TypingError, match="for a function that was compiled for"):
        call(links, theta, theta, np.empty(0), (), (X[:, 0].copy(),))


class CompiledNames(event.Listener):
    """Functions of this package that numba compiles while it listens."""

    def __init__(self):
        self.names = set()

    def on_start(self, happened):
        function = happened.data["dispatcher"].py_func
        if (function.__module__ or "").startswith("pymc_austerity"):
            self.names.add(function.__qualname__.rpartition(".")[2])

    def on_end(self, happened):
        pass


def compiled_by(build):
    listener = CompiledNames()
    event.register("numba:compile", listener)
    try:
        return build(), listener.names
    finally:
        event.unregister("numba:compile", listener)


def step_of(prior, link, x=X):
    with pm.Model():
        beta = prior("beta")
        pm.Bernoulli("y", p=link(pm.Data("x", x) @ beta), observed=Y)
        return pma.PenaltyMH(progressbar=False)


def normal(name):
    return pm.Normal(name, 0, 1, shape=2)


def heavy(name):
    return pm.StudentT(name, 4, mu=0, sigma=2, shape=2)


@pytest.mark.slow
def test_another_model_of_such_data_compiles_its_own_functions_only(tmp_path, monkeypatch):
    if compile_cache.CACHED_SRC_FUNCTIONS is None:
        pytest.skip("this PyTensor keeps no compiled code, so neither does the package")
    monkeypatch.setattr("pytensor.link.numba.cache.NUMBA_CACHE_PATH", tmp_path)
    first, names = compiled_by(lambda: step_of(normal, pm.math.invlogit))
    assert {"transition", "trajectory", "sums", "new_and_old"} <= names
    second, names = compiled_by(lambda: step_of(heavy, pm.math.invprobit))
    assert names == {"value_of", "value_and_slope", "new_and_old", "value_and_gradient", "along", "weight"}
    # Data of another type are other code, and seen to be.
    _, names = compiled_by(lambda: step_of(normal, pm.math.invlogit, (3 * X).astype(np.int64)))
    assert "transition" in names
    # Both decide by their own model, whichever was compiled first.
    for decider in (first.decider, second.decider):
        theta = decider.parts.theta0
        moved = theta + [0.3, -0.2]
        at = decider.surroundings(np.empty(0))
        assert at.links == decider.links
        value = decider.offset_of(at.links, moved, theta, 0.0, at.others, at.fixed, 1.0, at.expansion)[1]
        prior = [decider.density.log_prior(t, at.others, *at.fixed)[0].item() for t in (moved, theta)]
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
    for first, then in ((weights, weights), (by_columns, read_only), (read_only, by_columns)):
        with pm.Model():
            w = pm.Data("w", first)
            beta = pm.Normal("beta", 0, 1, shape=3)
            pm.Normal("y", (pm.Data("x", X) @ w) @ beta, 1, observed=Y)
            step = pma.ExactMH(progressbar=False)
            w.set_value(then, borrow=True)
            idata = pm.sample(
                20, tune=0, chains=1, cores=1, step=step, random_seed=1, progressbar=False,
                compute_convergence_checks=False,
            )  # fmt: skip
        draws.append(idata.posterior["beta"].to_numpy())
    assert len(np.unique(draws[0])) > 3
    assert all(np.array_equal(found, draws[0]) for found in draws)
