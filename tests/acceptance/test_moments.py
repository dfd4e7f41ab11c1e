"""Higher moments of the rows read: the sums of batches add up to them, or to a little more."""

import numpy as np
import pytest

from pymc_austerity.acceptance.moments import NO_SHAPE, absolute_moments, add_shape, third_central_moment


def test_sums_over_batches_give_the_third_moment_and_bound_the_absolute_ones():
    x = np.random.default_rng(8).exponential(size=400)
    first, second = x[:100], x[100:]
    shape = add_shape(NO_SHAPE, 0, first.mean(), first, np.zeros(100))
    shape = add_shape(shape, 100, second.mean(), second, np.zeros(300))
    centred = x - x.mean()
    assert third_central_moment(shape, 400, x.mean(), x.std(ddof=1)) == pytest.approx((centred**3).mean())
    exact = np.array([np.abs(centred).mean(), (np.abs(centred) ** 3).mean()])
    bounds = np.array(absolute_moments(shape, 400, x.mean()))
    assert (bounds >= exact).all()
    assert (bounds < 1.15 * exact).all()
