"""Numbers of groups that no group has are refused before anything is read through them."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from rowwise import evaluated, read
from scipy.stats import norm
from zoo import REAL, N, X, slopes

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


by_vector = of_mean(lambda groups, size: pm.Normal("u", shape=size)[groups])
MODELS = {
    "vector": by_vector,
    "matrix": of_mean(lambda groups, size: pm.Normal("u", shape=(3, size))[np.arange(N) % 3, groups]),
    "row of a matrix": of_mean(lambda groups, size: (X[:, :2] * pm.Normal("u", shape=(size, 2))[groups]).sum(axis=1)),
    "data": of_mean(lambda groups, size: pm.Normal("slope") * pm.Data("u", np.linspace(0, 1, size))[groups]),
}


@pytest.mark.parametrize("build", MODELS.values(), ids=MODELS)
def test_numbers_in_range_are_read_negative_ones_as_well(build):
    rows = rows_of(lambda: build(GROUPS))
    np.testing.assert_allclose(rows_of(lambda: build(GROUPS - 5)), rows)
    assert np.abs(rows_of(lambda: build((GROUPS + 1) % 5)) - rows).max() > 0.01  # numbers that are in range, and wrong


def by_school(classes):
    """An effect of the school of a class."""
    school = pt.constant(np.array([0, 0, 1, 1, 2]))
    pm.Normal("y", pm.Normal("u", shape=3)[school[pm.Data("class_", classes)]], 1.0, observed=REAL)


def of_nothing():
    pm.Normal("y", X @ slopes() + pm.Normal("u", shape=3)[np.zeros(0, int)].sum(), 1.0, observed=REAL)


def drawn(index):
    return lambda: pm.Normal("y", pm.Normal("u", shape=3)[index()], 1.0, observed=REAL)


BEYOND = "has 5 entries .* from {} to {}.*from 0 to 4"
DRAWN = "u has 3 entries .* index it by {0} .*Give {0} a prior .* 0 to 2"


@pytest.mark.parametrize(
    ("define", "said"),
    [
        *((lambda build=build: build(GROUPS + 1), BEYOND.format(1, 5)) for build in MODELS.values()),
        (lambda: by_vector(GROUPS - 6), BEYOND.format(-6, -2)),
        (lambda: by_vector(pm.Data("county", GROUPS) + 1), "^u has 5 entries along axis 0, but .* by county with"),
        (lambda: by_school(GROUPS + 3), "has 5 entries along axis 0, .* by class_ with numbers from 3 to"),
        (lambda: by_school(GROUPS - 9), "has 5 entries along axis 0, .* by class_ with numbers from -9 to"),
        (drawn(lambda: pm.DiscreteUniform("which", 0, 3)), DRAWN.format("which")),
        (drawn(lambda: pm.DiscreteUniform("kind", -5, 2, shape=5)[GROUPS]), DRAWN.format("kind")),
    ],
)
def test_numbers_beyond_the_axis_are_refused_by_name(define, said):
    with pytest.raises(ValueError, match=said):
        read(define)


def test_a_drawn_index_and_one_of_nothing_are_in_range():
    u, beta = np.array([-1.0, 0.0, 2.0]), np.array([0.5, -0.2, 0.1])
    for which in range(3):
        rows = rows_of(drawn(lambda: pm.DiscreteUniform("which", 0, 2)), u=u, which=which)
        np.testing.assert_allclose(rows, norm.logpdf(REAL, u[which]))
    rows = rows_of(of_nothing, u=0 * u, beta=beta)
    np.testing.assert_allclose(rows, norm.logpdf(REAL, X @ beta))


def test_replaced_data_are_compared_again():
    model, data = read(lambda: by_vector(pm.Data("county", GROUPS)))
    pm.set_data({"county": GROUPS[::-1].copy()}, model=model)
    assert data.changed() is not None
    pm.set_data({"county": GROUPS + 3}, model=model)
    with pytest.raises(ValueError, match="u has 5 entries"):
        data.changed()


VECTOR, K = pt.vector("vector"), pt.iscalar("k")


@pytest.mark.parametrize("index", [slice(5, 2, -1), slice(None, None, 3), slice(-2, None), -1])
def test_entries_are_those_that_numpy_takes(index):
    np.testing.assert_array_equal(entries_taken(VECTOR[index].owner, 7), np.atleast_1d(np.arange(7)[index]))
    for said_by_data in (slice(2, K), slice(None, None, K), K):
        assert entries_taken(VECTOR[said_by_data].owner, 7) is None
