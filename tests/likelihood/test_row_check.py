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


def model_of(n_rows, build=linear):
    with pm.Model() as model:
        build(X[:n_rows], REAL[:n_rows])
    data = read_model(model, model.value_vars, None, None)
    return model, data, Density(None, interpret_rows(data.likelihood))


@pytest.fixture(scope="module")
def parts():
    return model_of(N)


def check(parts, both_sides=None):
    model, data, density = parts
    density = density if both_sides is None else Density(density.log_prior, both_sides)
    row_check.check_rows(model, data, density)


def scaled_by_the_batch(parts):
    def both_sides(theta_new, theta, others, *batch):
        scale = len(parts[1].rows) / len(batch[0])
        return tuple(scale * side for side in parts[2].both_sides(theta_new, theta, others, *batch))

    return both_sides


def centred_in_the_batch(parts):
    def both_sides(theta_new, theta, others, *batch):
        centred = [b - b.mean(axis=0) for b in batch]
        return parts[2].both_sides(theta_new, theta, others, *centred)

    return both_sides


@pytest.mark.parametrize("n_rows", [2, 31, 32])
def test_a_dependence_on_the_number_of_rows_is_seen_in_few_rows(n_rows):
    small = model_of(n_rows)
    check(small)
    with pytest.raises(NotRowWiseError, match="depends on the other rows"):
        check(small, scaled_by_the_batch(small))


def test_a_dependence_hidden_by_a_whole_number_is_seen():
    def build(X, y):
        pm.Normal("y", X @ slopes() + pm.Poisson("count", 3, initval=0), 1.0, observed=y)

    parts = model_of(20, build)
    _, data, density = parts
    start = next(b.start for b in data.likelihood.blocks if b.name == "count")

    def depends_through_the_count(theta_new, theta, others, *batch):
        sides = density.both_sides(theta_new, theta, others, *batch)
        return tuple(side + theta[start] * len(batch[0]) for side in sides)

    check(parts)
    with pytest.raises(NotRowWiseError, match="depends on the other rows"):
        check(parts, depends_through_the_count)


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
    for planted in (scaled_by_the_batch(parts), centred_in_the_batch(parts)):
        with pytest.raises(NotRowWiseError, match="depends on the other rows"):
            check(parts, planted)


def test_a_wrong_row_wise_likelihood_is_found(parts):
    def both_sides(theta_new, theta, others, *batch):
        return tuple(1.001 * side for side in parts[2].both_sides(theta_new, theta, others, *batch))

    with pytest.raises(NotRowWiseError, match=r"\['y'\] at row"):
        check(parts, both_sides)


def test_a_density_that_underflows_far_out_is_checked_nearer(parts):
    """−∞ in a batch, where PyMC's graph has a finite number, says nothing of other rows: the next point is nearer."""
    model, data, density = parts
    start = flatten(model.initial_point(), data.likelihood.blocks)
    underflown = []

    def both_sides(theta_new, *at):
        underflown.append(np.abs(theta_new - start).max() > 0.1)
        return tuple(np.where(underflown[-1], -np.inf, side) for side in density.both_sides(theta_new, *at))

    check(parts, both_sides)
    assert underflown[0]
    assert not underflown[-1]


def huge_counts(X, y):
    n = np.full(len(y), 1e12)
    pm.Binomial("y", n=n, p=pm.math.sigmoid(1e-6 * X[:, 0] * pm.Normal("b")), observed=np.round(5e11 + 7e5 * y))


def test_rounding_is_no_dependence_between_rows():
    """Terms of 1e13 cancel in these rows, so that their fourth decimal is a matter of how they are computed."""
    counts = model_of(N, huge_counts)

    def rounded_otherwise(theta_new, theta, others, *batch):
        found = counts[2].both_sides(theta_new, theta, others, *batch)
        return tuple(side + 1e-4 * np.cos(1e3 * batch[0].ravel()[: len(side)]) for side in found)

    check(counts)
    check(counts, rounded_otherwise)
    with pytest.raises(NotRowWiseError, match="depends on the other rows"):
        check(counts, scaled_by_the_batch(counts))
