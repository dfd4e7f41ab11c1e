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


def test_sums_are_of_differences_and_the_bound_is_the_formula_about_another_centre():
    new, old = np.random.default_rng(5).normal(size=(2, 30))
    differences = new - old
    shape = add_shape(NO_SHAPE, 0, differences[:4].mean(), new[:4], old[:4])
    shape = add_shape(shape, 4, differences[4:].mean(), new[4:], old[4:])
    centre = differences[:4].mean()
    x, d = differences - centre, differences.mean() - centre
    sums = [np.abs(x), x * np.abs(x), x**3, np.abs(x) ** 3]
    assert shape == pytest.approx((centre, *np.sum(sums, axis=1)), rel=1e-12)
    first, third = absolute_moments(shape, 30, differences.mean())
    assert first == pytest.approx(np.abs(x).mean() + abs(d), rel=1e-12)
    expected = (np.abs(x) ** 3 - 3 * d * x * np.abs(x) + 3 * d**2 * np.abs(x)).mean() + 3 * abs(d) ** 3
    assert abs(d) > 0.05
    assert third == pytest.approx(expected, rel=1e-12)
