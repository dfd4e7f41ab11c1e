"""The numerical check finds what the structural proof would have let through."""

import numpy as np
import pymc as pm
import pytest
from compilations import compilations
from zoo import REAL, N, X, slopes

from pymc_austerity.likelihood import row_check
from pymc_austerity.likelihood.axis import NotRowWiseError
from pymc_austerity.likelihood.density import Density, interpret_rows
from pymc_austerity.likelihood.layout import flatten
from pymc_austerity.likelihood.model_data import read_model


def linear(X, y):
    pm.Normal("y", X @ slopes(), 1.0, observed=y)


def counted(X, y):
    pm.Normal("y", X @ slopes() + pm.Poisson("count", 3, initval=0), 1.0, observed=y)


def huge_counts(X, y):
    """Terms of 1e13 cancel in these rows: their fourth decimal is a matter of how they are computed."""
    n = np.full(len(y), 1e12)
    pm.Binomial("y", n=n, p=pm.math.sigmoid(1e-6 * X[:, 0] * pm.Normal("b")), observed=np.round(5e11 + 7e5 * y))


def model_of(n_rows, build=linear):
    with pm.Model() as model:
        build(X[:n_rows], REAL[:n_rows])
    data = read_model(model, model.value_vars, None, None)
    return model, data, Density(None, interpret_rows(data.likelihood))


def check(parts, side=lambda side, theta, batch: side, of_batch=lambda array: array):
    """Check rows of which each side and the arrays of a batch are changed."""
    model, data, density = parts

    def both_sides(theta_new, theta, others, *batch):
        sides = density.both_sides(theta_new, theta, others, *map(of_batch, batch))
        return tuple(side(s, theta, batch) for s in sides)

    row_check.check_rows(model, data, Density(density.log_prior, both_sides))


DEPENDS = "depends on the other rows"


@pytest.fixture(scope="module")
def parts():
    return model_of(N)


@pytest.mark.parametrize("n_rows", [2, 31, 32])
def test_a_dependence_on_the_number_of_rows_is_seen_in_few_rows(n_rows):
    small = model_of(n_rows)
    check(small)
    with pytest.raises(NotRowWiseError, match=DEPENDS):
        check(small, lambda side, theta, batch: side * n_rows / len(batch[0]))


def test_a_dependence_hidden_by_a_whole_number_is_seen():
    parts = model_of(20, counted)
    start = next(b.start for b in parts[1].likelihood.blocks if b.name == "count")
    check(parts)
    with pytest.raises(NotRowWiseError, match=DEPENDS):
        check(parts, lambda side, theta, batch: side + theta[start] * len(batch[0]))


@pytest.mark.usefixtures("nothing_on_disk")
def test_few_rows_are_evaluated_without_compiling(monkeypatch):
    model, data, density = model_of(40)
    arguments = (np.zeros(3), np.zeros(3), np.empty(0), *data.fixed, *data.rows.arrays)
    density.both_sides(*arguments)
    with compilations() as names:
        row_check.check_rows(model, data, density)
    assert names == []
    monkeypatch.setattr(row_check, "_FEW", 0)  # as for many rows
    with compilations() as names:
        row_check.check_rows(model, data, density)
    assert names != []


@pytest.mark.parametrize("limit", [2**29, 0], ids=["against the full graph", "against blocks of rows"])
def test_a_planted_dependence_between_rows_is_found(parts, monkeypatch, limit):
    monkeypatch.setattr(row_check, "_FULL_CHECK_BYTES", limit)
    check(parts)
    with pytest.raises(NotRowWiseError, match=DEPENDS):
        check(parts, lambda side, theta, batch: side * N / len(batch[0]))
    with pytest.raises(NotRowWiseError, match=DEPENDS):
        check(parts, of_batch=lambda array: array - array.mean(axis=0))
    if limit:  # of rows that are all wrong alike
        with pytest.raises(NotRowWiseError, match=r"\['y'\] at row"):
            check(parts, lambda side, theta, batch: 1.001 * side)


def test_a_density_that_underflows_far_out_is_checked_nearer(parts):
    """−∞ in a batch, where PyMC's graph has a finite number, says nothing of other rows: the next point is nearer."""
    start = flatten(parts[0].initial_point(), parts[1].likelihood.blocks)
    underflown = []

    def side(side, theta, batch):
        underflown.append(np.abs(theta - start).max() > 0.1)
        return np.where(underflown[-1], -np.inf, side)

    check(parts, side)
    assert underflown[0]
    assert not underflown[-1]


@pytest.mark.slow
def test_rounding_is_no_dependence_between_rows():
    counts = model_of(N, huge_counts)
    check(counts)
    check(counts, lambda side, theta, batch: side + 1e-4 * np.cos(1e3 * batch[0].ravel()[: len(side)]))
    with pytest.raises(NotRowWiseError, match=DEPENDS):
        check(counts, lambda side, theta, batch: side * N / len(batch[0]))
