"""Sums over pieces are added in compensated arithmetic."""

import math

import numpy as np
import pytest

from pymc_austerity.proxy.full_pass import Sums, summed


def parts(values):
    return [Sums(float(v), np.array([v, -v]), np.array([[2 * v]])) for v in values]


@pytest.mark.parametrize("order", [1, -1])
def test_the_error_does_not_grow_with_the_number_of_pieces(order):
    rng = np.random.default_rng(1)
    values = np.concatenate([[1e15], rng.normal(1, 1, 20_000), [-1e15]])[::order]
    exact = math.fsum(values)
    total = summed(parts(values))
    assert total.value == pytest.approx(exact, rel=1e-14)
    np.testing.assert_allclose(total.gradient, [exact, -exact], rtol=1e-14)
    np.testing.assert_allclose(total.hessian, [[2 * exact]], rtol=1e-14)
    plain = sum(parts(values)[1:], start=parts(values)[0]).value
    assert abs(plain - exact) > 1e-5 * abs(exact)  # what it would be without


def test_one_piece_is_itself():
    (one,) = parts([-np.inf])
    assert summed([one]).value == -np.inf


def test_a_sum_that_is_not_finite_stays_so():
    assert summed(parts([1.0, -np.inf, 2.0])).value == -np.inf
    assert np.isnan(summed(parts([1.0, np.nan])).value)
