"""Derivatives of rows that are multiples of each other are found, and stand for all in the search for a centre."""

import numpy as np
import pymc as pm
import pytest
from grouped import search_of

from pymc_austerity.groups.group_preparation import prepare_groups

N, G = 600, 12
RNG = np.random.default_rng(31)
GROUP, OTHER, X, Y = RNG.integers(0, G, N), RNG.integers(0, G, N), RNG.normal(size=(N, 2)), RNG.integers(0, 2, N)
EXPANDED = ("gradient", "hessian", "cross", "shared_gradient", "shared_hessian", "cell_hessian")


def effects(name="u", n=2):
    return pm.Normal(name, 0, pm.HalfNormal(f"sd_{name}", 1, shape=n), shape=(G, n))


def slopes():
    u = effects()
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=2) + u[GROUP, 0] + 1e9 * u[GROUP, 1] * X[:, 0], observed=Y)


def crossed():
    u, v = effects(), effects("v", 1)
    pm.Poisson("y", pm.math.exp(u[GROUP, 0] + u[GROUP, 1] * X[:, 1] + v[OTHER, 0]), observed=Y)


def ratings():
    rating, order = effects(n=1)[:, 0], pm.Normal("order", 0, 1)
    pm.Bernoulli("y", logit_p=order + rating[GROUP] - rating[(GROUP + 1 + OTHER % (G - 1)) % G], observed=Y)


def with_shape():
    u, shape = effects(), pm.Exponential("shape", 1)
    pm.NegativeBinomial("y", mu=pm.math.exp(u[GROUP, 0] + u[GROUP, 1] * X[:, 0]), alpha=shape, observed=Y)


def scales_of_groups():
    u = effects()
    pm.Normal("y", u[GROUP, 0] + pm.Normal("b", 0, 1) * X[:, 0], pm.math.exp(u[GROUP, 1]), observed=X[:, 1])


def positive_slope():
    u, slope = effects(), pm.HalfNormal("slope", 1)
    pm.Bernoulli("y", logit_p=slope * X[:, 1] + u[GROUP, 0] + u[GROUP, 1] * X[:, 0], observed=Y)


def search_in(write):
    with pm.Model() as model:
        write()
    return search_of(model)


@pytest.mark.parametrize(
    ("write", "n_multiples", "n_pairs"),
    [(slopes, 4, 1), (crossed, 3, 1), (ratings, 3, 1), (with_shape, 2, 3), (positive_slope, 2, 3)],
)
def test_what_one_predictor_reads_is_a_multiple(write, n_multiples, n_pairs):
    search = search_in(write)
    assert (len(search.multiples.times), search.multiples.n_pairs) == (n_multiples, n_pairs)
    theta = search.data.theta0 + 0.2 * RNG.standard_normal(search.data.theta0.size)
    quick, full = search.expand(theta), search.expand(theta, in_full=True)
    for name in EXPANDED:
        scale = np.abs(getattr(full, name)).max(initial=0.0)
        assert getattr(quick, name) == pytest.approx(getattr(full, name), rel=1e-8, abs=1e-10 * scale), name


def test_effects_of_mean_and_scale_are_no_multiples():
    assert set(search_in(scales_of_groups).multiples.times) == {0, 2}  # of the mean, u_0 and b


def test_decisions_rest_on_every_derivative():
    """A wrong multiple leads the search to another centre, and the expansion there is right."""
    search = search_in(slopes)
    times = {i: (1.1 if i == 0 else 1.0) * x for i, x in search.multiples.times.items()}
    search.__dict__["multiples"] = search.multiples._replace(times=times)
    found = prepare_groups(search).expansion
    full, planted = search.expand(found.centre, in_full=True), search.expand(found.centre)
    assert all(np.array_equal(getattr(found, name), getattr(full, name)) for name in EXPANDED)
    assert np.abs(planted.gradient / full.gradient - 1).max() == pytest.approx(0.1)  # the mistake is seen
