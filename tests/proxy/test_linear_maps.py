"""Linear maps that know which of their entries are zero: their products are those of the matrix."""

import numpy as np
import pytest
from numba import njit
from toy import arrow

from pymc_austerity.proposals.gradients import add_expanded_gradient
from pymc_austerity.proxy.expansion import Expansion, expanded_sum
from pymc_austerity.proxy.linear_maps import CompressedRows, compressed, dense, product, transposed_product


@njit
def multiplied(matrix, vector):
    return product(matrix, vector)


@njit
def multiplied_transposed(matrix, vector):
    return transposed_product(matrix, vector)


@pytest.mark.parametrize("kind", ["diagonal", "sparse", "dense"])
def test_products_are_those_of_the_matrix(kind):
    rng = np.random.default_rng(2)
    stored = {"diagonal": rng.random(40), "sparse": compressed(arrow()), "dense": rng.standard_normal((40, 40))}[kind]
    assert isinstance(stored, CompressedRows) == (kind == "sparse")
    vector = rng.standard_normal(40)
    np.testing.assert_allclose(multiplied(stored, vector), dense(stored) @ vector, rtol=1e-12)
    if kind == "sparse":
        np.testing.assert_array_equal(dense(stored), arrow())
    else:
        np.testing.assert_allclose(multiplied_transposed(stored, vector), dense(stored).T @ vector, rtol=1e-12)


def test_a_matrix_that_is_mostly_filled_stays_an_array():
    matrix = np.ones((5, 5))
    assert compressed(matrix) is matrix


@njit
def both(theta, others, expansion):
    slope = np.zeros(theta.size)
    add_expanded_gradient(slope, theta, others, expansion)
    return expanded_sum(theta, others, expansion), slope


def test_an_expansion_by_entries_is_that_of_the_matrix():
    """The sum, and its slope."""
    rng = np.random.default_rng(5)
    hessian = np.diag(-rng.uniform(1, 2, 40))
    hessian[3, 20] = hessian[20, 3] = 0.7
    by_matrix = Expansion(rng.normal(size=40 + 1), np.arange(40), rng.normal(size=40), hessian)
    by_entries = by_matrix._replace(hessian=compressed(hessian))
    assert isinstance(by_entries.hessian, CompressedRows)
    theta, others = rng.normal(size=40), np.zeros(1)
    value, slope = both(theta, others, by_entries)
    expected, its_slope = both(theta, others, by_matrix)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slope, its_slope, rtol=1e-12)
    # Planted: an entry that is lost.
    lost = by_matrix._replace(hessian=compressed(np.diag(np.diag(hessian))))
    assert both(theta, others, lost)[0] != pytest.approx(expected, rel=1e-6)
