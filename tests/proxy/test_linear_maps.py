"""Linear maps that know which of their entries are zero: their products are those of the matrix."""

import numpy as np
import pytest
from numba import njit
from toy import arrow

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
        lost = compressed(np.diag(np.diag(arrow())))  # planted: entries that are lost
        assert not np.allclose(multiplied(lost, vector), arrow() @ vector, rtol=1e-6)
    else:
        np.testing.assert_allclose(multiplied_transposed(stored, vector), dense(stored).T @ vector, rtol=1e-12)


def test_a_matrix_that_is_mostly_filled_stays_an_array():
    matrix = np.ones((5, 5))
    assert compressed(matrix) is matrix
