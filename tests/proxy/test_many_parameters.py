"""Of very many parameters: Cholesky for an eigendecomposition, and products with matrices that are mostly zero."""

import numpy as np
import pytest
from numba import njit
from scipy import linalg
from toy import arrow

from pymc_austerity.proxy import linearisation, mode, scaling, tuning
from pymc_austerity.proxy.full_pass import Sums
from pymc_austerity.proxy.linear_maps import CompressedRows, compressed, dense, product
from pymc_austerity.proxy.scaling import Scaling

SIZE = 60
_rng = np.random.default_rng(4)
_roots = _rng.normal(size=(SIZE, 2 * SIZE))
PRECISION = _roots @ _roots.T / 20 + np.diag(np.linspace(0.2, 5, SIZE))
SLOPE = _rng.normal(size=SIZE)


@pytest.fixture
def either_way(monkeypatch):
    """Return what makes something as of few parameters, and again as of very many."""

    def made(make):
        few = make()
        for module in (mode, scaling, linearisation, tuning):
            monkeypatch.setattr(module, "WIDE", SIZE - 1)
        return few, make()

    return made


def test_the_normal_approximation_is_the_same(either_way):
    (root, shift), (its_root, its_shift) = either_way(lambda: tuning._normal_of(PRECISION, SLOPE, Scaling()))
    assert np.array_equal(its_root, np.triu(its_root))
    np.testing.assert_allclose(its_root @ its_root.T, root @ root.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(its_shift, shift, rtol=1e-9, atol=1e-12)
    assert not np.allclose(its_root.T @ its_root, root @ root.T)  # what a root on the wrong side would give


def test_directions_that_nothing_holds_are_cut_off_as_before(either_way):
    flat = PRECISION - (linalg.eigvalsh(PRECISION)[0] - 1e-4) * np.eye(SIZE)
    (root, _), (its_root, _) = either_way(lambda: tuning._normal_of(flat, SLOPE, Scaling()))
    np.testing.assert_array_equal(its_root, root)
    assert linalg.svdvals(root)[0] == pytest.approx(3.0)


def test_extreme_scales_are_those_of_all(either_way):
    root, _ = tuning._normal_of(PRECISION, SLOPE, Scaling())
    state = tuning.SurrogateState(None, root, linalg.inv(root), *5 * [None], None)
    sd = np.sqrt((root**2).sum(axis=1))
    expected, found = either_way(lambda: tuning._roots_of_precision(state, sd))
    np.testing.assert_allclose(found, expected, rtol=1e-2)
    assert expected[0] > 2 * expected[1]


def test_the_flattest_directions_are_the_same(either_way):
    (values, vectors), (few, its_vectors) = either_way(lambda: mode._flattest(PRECISION))
    assert 1 < few.size < SIZE
    np.testing.assert_allclose(few, values[: few.size], rtol=1e-9)
    np.testing.assert_allclose(np.abs((its_vectors * vectors[:, : few.size]).sum(axis=0)), 1, rtol=1e-6)


@pytest.mark.parametrize("bent", [0.0, 40.0])
def test_a_hessian_is_taken_for_concave_where_it_is(either_way, bent):
    hessian = -PRECISION + bent * np.eye(SIZE)
    at = (np.arange(SIZE), np.zeros(SIZE), Sums(0.0, SLOPE, hessian))
    before, after = either_way(lambda: dense(linearisation.linearise(*at).hessian))
    assert np.array_equal(before, hessian) == (bent == 0)
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("collinear", [False, True])
def test_collinear_columns_are_seen(either_way, collinear):
    curvature = PRECISION.copy()
    if collinear:
        curvature[1], curvature[:, 1] = curvature[0], curvature[:, 0]
        curvature[1, 1] = curvature[0, 0]
    assert either_way(lambda: scaling._is_well_scaled(curvature)) == (not collinear, not collinear)


@njit
def multiplied(matrix, vector):
    return product(matrix, vector)


@njit
def multiplied_transposed(matrix, vector):
    return product(matrix.T, vector)


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
