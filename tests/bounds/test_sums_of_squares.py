"""Few rows that have the sums of squares and products of all, and which likelihoods they determine."""

from fractions import Fraction
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


def solved(matrix, right):
    """Solve a positive definite system of fractions."""
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for i, row in enumerate(rows):
        rows[i] = row = [value / row[i] for value in row]
        for j in range(len(rows)):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], row)]
    return [row[-1] for row in rows]


def least_squares(columns, counts):
    """Return coefficients of the last columns for the first, their sds times √n, and the variance, without rounding."""
    n = sum(map(Fraction, counts.tolist()))
    ys, *xs = ([Fraction(value) for value in column.tolist()] for column in columns)
    xs = [[Fraction(1)] * len(ys), *xs]
    weights = [Fraction(count) / n for count in counts.tolist()]

    def mean_product(a, b):
        return sum(w * p * q for w, p, q in zip(weights, a, b))

    products, along_y = [[mean_product(a, b) for a in xs] for b in xs], [mean_product(a, ys) for a in xs]
    b = solved(products, along_y)
    variance = mean_product(ys, ys) - sum(p * q for p, q in zip(b, along_y))
    inverse = [solved(products, [Fraction(int(i == k)) for i in range(len(xs))])[k] for k in range(len(xs))]
    return b, [float(variance * v) ** 0.5 for v in inverse], variance


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
        few, _ = moment_rows(Rows(arrays))
        found, counts = few.arrays, np.ones(len(arrays[0]))
    else:
        few, _ = moment_rows(Rows((*arrays, counts), np.arange(len(counts))))
        found = few.values
    back = [found[order.index(k)] for k in range(len(columns))]
    b, sds, variance = least_squares(columns, counts)
    of_few, _, variance_of_few = least_squares(back, np.ones(len(few)))
    apart = max(abs(float(p - q)) / sd for p, q, sd in zip(b, of_few, sds))
    return max(apart, abs(float(variance_of_few / variance) - 1))


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


def test_moment_rows_by_eigenvalues_are_caught(monkeypatch):
    monkeypatch.setattr(sums_of_squares.np.linalg, "qr", root_by_eigenvalues)
    assert max(largest_error(different_units(1e12, 1.0, 0), order) for order in permutations(range(3))) > 0.1


def test_moment_rows_of_dates_in_nanoseconds():
    y, x, z = different_units(1.0, 1e-3, 0)
    dates = 1.7e18 + 3e15 * x  # over a year
    assert max(largest_error((y, dates, z), order) for order in permutations(range(3))) < 1e-6


def test_moment_rows_in_chunks_and_with_counts(monkeypatch):
    monkeypatch.setattr(sums_of_squares, "_CHUNK", 7)
    columns, counts = different_units(1e5, 1e-3, 100.0), RNG.integers(1, 5, 50).astype(float)
    assert largest_error(columns, (0, 1, 2)) < 1e-8
    assert largest_error(columns, (2, 0, 1), counts) < 1e-8
