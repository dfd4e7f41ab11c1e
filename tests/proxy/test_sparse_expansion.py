"""An expansion whose Hessian is stored by its entries gives the sum, and its slope, that a dense one gives."""

import numpy as np
import pytest
from numba import njit

from pymc_austerity.proposals.gradients import add_expanded_gradient
from pymc_austerity.proxy.expansion import Expansion, expanded_sum
from pymc_austerity.proxy.linear_maps import CompressedRows, compressed

SIZE = 40


@njit
def both(theta, others, expansion):
    slope = np.zeros(theta.size)
    add_expanded_gradient(slope, theta, others, expansion)
    return expanded_sum(theta, others, expansion), slope


def test_entries_give_what_the_matrix_gives():
    rng = np.random.default_rng(5)
    hessian = np.diag(-rng.uniform(1, 2, SIZE))
    hessian[3, 20] = hessian[20, 3] = 0.7
    dense = Expansion(rng.normal(size=SIZE + 1), np.arange(SIZE), rng.normal(size=SIZE), hessian)
    by_entries = dense._replace(hessian=compressed(hessian))
    assert isinstance(by_entries.hessian, CompressedRows)
    theta, others = rng.normal(size=SIZE), np.zeros(1)
    value, slope = both(theta, others, by_entries)
    expected, its_slope = both(theta, others, dense)
    assert value == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(slope, its_slope, rtol=1e-12)
    # Planted: an entry that is lost.
    lost = dense._replace(hessian=compressed(np.diag(np.diag(hessian))))
    assert both(theta, others, lost)[0] != pytest.approx(expected, rel=1e-6)
