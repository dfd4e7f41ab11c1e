"""Numbers of groups that no group has are refused before anything is read through them."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from rowwise import evaluated, read
from scipy.stats import norm
from zoo import REAL, N, X, slopes

import pymc_austerity as pma
from pymc_austerity.likelihood.model_graph import entries_taken

GROUPS = np.arange(N) % 5


def rows_of(build, **values):
    """Return the log-likelihood of every row, at a point where the entries of a variable differ."""
    _, data = read(build)
    likelihood = data.likelihood
    theta = data.theta0 + np.linspace(0.1, 0.9, data.theta0.size)
    for block in likelihood.blocks:
        if block.name in values:
            theta[block.start : block.stop] = np.ravel(values[block.name])
    return evaluated(likelihood)(theta, np.empty(0), *data.fixed, *data.rows.arrays)


def of_mean(mean):
    """Return what writes a model whose rows read an array of some size by their groups."""
    return lambda groups, size=5: pm.Normal("y", mean(groups, size), 1.0, observed=REAL)


def deterministic(size):
    return pm.Deterministic("u", pm.Normal("z", shape=size) * pm.HalfNormal("tau"))


by_vector = of_mean(lambda groups, size: pm.Normal("u", shape=size)[groups])
MODELS = {
    "vector": by_vector,
    "matrix": of_mean(lambda groups, size: pm.Normal("u", shape=(3, size))[np.arange(N) % 3, groups]),
    "row of a matrix": of_mean(lambda groups, size: (X[:, :2] * pm.Normal("u", shape=(size, 2))[groups]).sum(axis=1)),
    "deterministic": of_mean(lambda groups, size: deterministic(size)[groups]),
    "data": of_mean(lambda groups, size: pm.Normal("slope") * pm.Data("u", np.linspace(0, 1, size))[groups]),
}


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_numbers_in_range_are_read_negative_ones_as_well(build):
    rows = rows_of(lambda: build(GROUPS))
    np.testing.assert_allclose(rows_of(lambda: build(GROUPS - 5)), rows)
    assert np.abs(rows_of(lambda: build((GROUPS + 1) % 5)) - rows).max() > 0.01  # numbers that are in range, and wrong


@pytest.mark.parametrize(("build", "shift"), [*((build, 1) for build in MODELS.values()), (by_vector, -6)])
def test_numbers_beyond_the_axis_are_refused_by_name(build, shift):
    with pytest.raises(ValueError, match=rf"has 5 entries .* from {shift} to {4 + shift}.*from 0 to 4"):
        read(lambda: build(GROUPS + shift))


def test_the_message_names_the_variable_and_the_data():
    def build():
        by_vector(pm.Data("county", GROUPS) + 1)

    with pytest.raises(ValueError, match="^u has 5 entries along axis 0, but the rows index it by county with"):
        read(build)


@pytest.mark.parametrize("shift", [3, -9])
def test_numbers_beyond_an_array_of_numbers_are_refused(shift):
    """As an effect of the school of a class, ``u[school[class_]]``."""
    school = pt.constant(np.array([0, 0, 1, 1, 2]))

    def build():
        pm.Normal("y", pm.Normal("u", shape=3)[school[pm.Data("class_", GROUPS + shift)]], 1.0, observed=REAL)

    with pytest.raises(ValueError, match=f"has 5 entries along axis 0, .* by class_ with numbers from {shift} to"):
        read(build)


def test_replaced_data_are_compared_again():
    with pm.Model():
        by_vector(pm.Data("county", GROUPS))
        step = pma.ExactMH(proposal=pma.RandomWalk(scale=0.1), proxy=None)
        pm.set_data({"county": GROUPS[::-1].copy()})
        pm.sample(2, tune=2, chains=1, step=step, progressbar=False, compute_convergence_checks=False)
        pm.set_data({"county": GROUPS + 3})
        with pytest.raises(ValueError, match="u has 5 entries"):
            pm.sample(2, tune=2, chains=1, step=step, progressbar=False, compute_convergence_checks=False)


def test_an_index_of_nothing_is_in_range():
    def build():
        table = pm.Normal("u", shape=3)
        pm.Normal("y", X @ slopes() + table[np.zeros(0, int)].sum(), 1.0, observed=REAL)

    u, beta = np.zeros(3), np.array([0.5, -0.2, 0.1])
    np.testing.assert_allclose(rows_of(build, u=u, beta=beta), norm.logpdf(REAL, X @ beta))


def test_an_index_that_the_model_draws_is_left_to_its_support():
    def build():
        which = pm.DiscreteUniform("which", 0, 2)
        pm.Normal("y", pm.Normal("u", shape=3)[which], 1.0, observed=REAL)

    u = np.array([-1.0, 0.0, 2.0])
    for which in range(3):
        np.testing.assert_allclose(rows_of(build, u=u, which=which), norm.logpdf(REAL, u[which]))


@pytest.mark.parametrize(
    ("build", "by"),
    [
        (lambda u: u[pm.DiscreteUniform("which", 0, 3)], "which"),
        (lambda u: u[pm.DiscreteUniform("kind", -5, 2, shape=5)[GROUPS]], "kind"),
    ],
)
def test_a_drawn_index_whose_prior_reaches_beyond_is_refused(build, by):
    def beyond():
        pm.Normal("y", build(pm.Normal("u", shape=3)), 1.0, observed=REAL)

    with pytest.raises(ValueError, match=f"u has 3 entries .* index it by {by} .*Give {by} a prior .* 0 to 2"):
        read(beyond)


VECTOR, K = pt.vector("vector"), pt.iscalar("k")


@pytest.mark.parametrize("index", [slice(5, 2, -1), slice(None, None, 3), slice(-2, None), 3, -1])
def test_entries_are_those_that_numpy_takes(index):
    np.testing.assert_array_equal(entries_taken(VECTOR[index].owner, 7), np.atleast_1d(np.arange(7)[index]))


@pytest.mark.parametrize("index", [slice(2, K), slice(None, None, K), K])
def test_what_only_data_say_is_not_known(index):
    assert entries_taken(VECTOR[index].owner, 7) is None
