"""The correction distribution: how close to logistic it gets."""

import numpy as np
import pytest
from scipy import special, stats

from pymc_austerity.acceptance.correction import correction, sup_error


@pytest.mark.parametrize(("sigma", "limit"), [(0.5, 1e-8), (0.8, 1e-8), (1.0, 1e-7), (1.2, 3e-5), (1.5, 3e-3)])
def test_normal_plus_correction_is_logistic(sigma, limit):
    """The paper reports 6.7e-6 at σ = 0.8 and 9e-4 at σ = 1."""
    found = correction(sigma)
    assert found.error < limit
    probabilities = np.diff(found.cumulative, prepend=0.0)
    y = np.random.default_rng(1).uniform(-25, 25, 500)  # off the grid of the solution
    sums = stats.norm.cdf(y[:, None], found.atoms, sigma) @ probabilities
    assert np.abs(sums - special.expit(y)).max() <= found.error
    assert (probabilities > 0).all()
    assert found.atoms == pytest.approx(-found.atoms[::-1])
    assert (np.diff(found.atoms) >= 0).all()


def test_the_error_tells_a_wrong_distribution():
    found = correction(1.0)
    probabilities = np.diff(found.cumulative, prepend=0.0)
    assert sup_error(1.01 * found.atoms, probabilities, 1.0) > 1e4 * found.error


def test_it_is_computed_once_in_a_process():
    assert correction(0.7) is correction(0.7)
