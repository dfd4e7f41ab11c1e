"""Few rows that have the sums of squares and products of all, and which likelihoods they determine."""

import math
from itertools import permutations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from pymc_austerity.bounds import is_quadratic_in_data, moment_rows, sums_of_squares
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.rows import Rows

RNG = np.random.default_rng(9)
X = RNG.normal(size=(300, 3)) @ RNG.normal(size=(3, 3)) + 1
Y = X @ [1.0, 2.0, -1.0] + RNG.normal(size=300)


def normal(mean, scale=lambda: pm.HalfNormal("s", 1)):
    return lambda: pm.Normal("y", mean(), scale(), observed=Y)


def slopes(name="b"):
    return X @ pm.Normal(name, 0, 1, shape=3)


def line(x):
    return pm.Normal("a") + pm.Normal("b") * x


SHOWN = {
    "unknown scale": normal(slopes),
    "one column": normal(lambda: line(X[:, 0]), lambda: pt.exp(pm.Normal("log_s"))),
}
OTHERS = {
    "Student": lambda: pm.StudentT("y", nu=4, mu=slopes(), sigma=pm.HalfNormal("s", 1), observed=Y),
    "scale with a predictor": normal(slopes, lambda: pt.exp(slopes("c"))),
    "cubic": normal(lambda: pm.Normal("b") * pt.as_tensor(X[:, 0]) ** 2),
    "rounded": normal(lambda: line(pt.cast(pm.Data("x", X[:, 0]), "int64"))),
    "logistic": lambda: pm.Bernoulli("y", logit_p=slopes(), observed=(Y > 0).astype(int)),
}


def of(build):
    with pm.Model() as model:
        build()
    return row_likelihood(model)[:2]


@pytest.mark.parametrize("build", SHOWN.values(), ids=SHOWN)
def test_moment_rows_stand_for_all_rows(build):
    likelihood, source = of(build)
    assert is_quadratic_in_data(likelihood)
    rows = Rows(source.row_arrays())
    few, weight = moment_rows(rows)
    assert len(few) * weight == len(rows)
    assert len(few) < 10
    inputs = [likelihood.theta, *likelihood.fixed, *likelihood.batches]
    total = pytensor.function(inputs, likelihood.row_log_likelihood.sum(), mode=Mode("py", "fast_compile"))
    for theta in RNG.normal(size=(20, likelihood.theta_size)):
        exact = total(theta, *source.fixed_arrays(), *rows.arrays)
        np.testing.assert_allclose(weight * total(theta, *source.fixed_arrays(), *few.arrays), exact, rtol=1e-11)


@pytest.mark.parametrize("build", OTHERS.values(), ids=OTHERS)
def test_other_likelihoods_are_not_taken_for_sums_of_squares(build):
    assert not is_quadratic_in_data(of(build)[0])


def least_squares(columns, counts=1.0):
    """Coefficients of the last columns for the first, their sds times √n, and the variance, of centred columns."""
    weights = counts * np.ones(len(columns[0]))
    weights /= math.fsum(weights)
    centred = []
    for column in columns:
        near = column - column[0]  # without rounding, or nearly so
        centred.append((near - math.fsum(weights * near)) * np.sqrt(weights))
    units = [np.linalg.norm(column) for column in centred]
    y, *xs = (column / unit for column, unit in zip(centred, units))
    table, in_units = np.column_stack(xs), units[0] / np.array(units[1:])
    b = np.linalg.lstsq(table, y)[0]
    variance, spread = ((y - table @ b) ** 2).sum(), np.linalg.pinv(table.T @ table).diagonal()
    return b * in_units, np.sqrt(variance * spread) * in_units, variance


def different_units(unit, noise, far, n=50):
    """Return an outcome, a covariate and another in other units, all of them `far` standard deviations from zero."""
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=(2, n))
    z += 0.5 * x
    y = x + z + noise * rng.normal(size=n)
    return y + far, x + far, (z + far) * unit


def largest_error(columns, order, counts=None):
    """Return how far least squares of a few rows is off, in sds of one row and as a share of the variance."""
    arrays = tuple(columns[k] for k in order)
    if counts is None:
        found = moment_rows(Rows(arrays))[0].arrays
    else:
        found = moment_rows(Rows((*arrays, counts), np.arange(len(counts))))[0].values
    (b, sds, variance), (of_few, _, variance_of_few) = (
        least_squares(columns, 1.0 if counts is None else counts),
        least_squares([found[order.index(k)] for k in range(len(columns))]),
    )
    return max(np.max(np.abs(b - of_few) / sds), abs(variance_of_few / variance - 1))


def root_by_eigenvalues(table, mode, qr=np.linalg.qr):
    """Return a root of the products of columns: right but for a rounding of the largest of them."""
    values, vectors = np.linalg.eigh(table.T @ table)
    return qr((vectors * np.sqrt(np.maximum(values, 0))).T, mode=mode)


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize(("noise", "far", "tol"), [(1.0, 0, 1e-12), (1e-6, 0, 1e-7), (1.0, 1e4, 1e-10)])
def test_moment_rows_in_any_units_and_order_of_columns(unit, noise, far, tol):
    """Where the noise is a millionth of what the columns explain, R² is 1 − 1e-12."""
    columns = different_units(unit, noise, far)
    assert max(largest_error(columns, order) for order in permutations(range(3))) < tol


def test_moment_rows_of_dates_in_nanoseconds():
    y, x, z = different_units(1.0, 1e-3, 0)
    dates = 1.7e18 + 3e15 * x  # over a year
    assert max(largest_error((y, dates, z), order) for order in permutations(range(3))) < 1e-6


def test_moment_rows_by_eigenvalues_are_caught(monkeypatch):
    monkeypatch.setattr(sums_of_squares.np.linalg, "qr", root_by_eigenvalues)
    assert max(largest_error(different_units(1e12, 1.0, 0), order) for order in permutations(range(3))) > 0.1


def test_moment_rows_in_chunks_and_with_counts(monkeypatch):
    monkeypatch.setattr(sums_of_squares, "_CHUNK", 7)
    columns, counts = different_units(1e5, 1e-3, 100.0), RNG.integers(1, 5, 50).astype(float)
    assert largest_error(columns, (0, 1, 2)) < 1e-8
    assert largest_error(columns, (2, 0, 1), counts) < 1e-8
