"""Properties of looks and moments that hold for every number of rows and every way to cut them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pymc_austerity.acceptance.acceptance_test import growing_sizes
from pymc_austerity.acceptance.by_looks import merge_batch
from pymc_austerity.acceptance.moments import NO_SHAPE, absolute_moments, add_shape, third_central_moment


@given(st.integers(2, 5_000), st.floats(1.01, 4.0), st.integers(2, 10**7))
def test_looks_grow_and_end_at_all_rows(first, ratio, n_rows):
    sizes = growing_sizes(first, ratio, n_rows)
    assert (np.diff(sizes) > 0).all()
    assert sizes[-1] == n_rows
    assert sizes[0] == min(first, n_rows)


values = arrays(float, st.integers(2, 80), elements=st.floats(-1e3, 1e3, allow_subnormal=False))


def cut(differences, cuts):
    """Merge the moments of the parts between the cuts, in order."""
    n, mean, m2, shape = 0, 0.0, 0.0, NO_SHAPE
    for part in np.split(differences, sorted({c for c in cuts if 0 < c < differences.size})):
        none = np.zeros(part.size)
        shape = add_shape(shape, n, part.mean(), part, none)
        mean, m2 = merge_batch(n, mean, m2, part.mean(), part, none)
        n += part.size
    return n, mean, m2, shape


@given(values, st.lists(st.integers(1, 79), max_size=6))
def test_moments_agree_however_the_rows_are_cut(differences, cuts):
    n, mean, m2, shape = cut(differences, cuts)
    centred, scale = differences - differences.mean(), 1 + np.abs(differences).max()
    assert n == differences.size
    assert np.isclose(mean, differences.mean(), rtol=0, atol=1e-12 * scale)
    assert np.isclose(m2, (centred**2).sum(), rtol=1e-9, atol=1e-9 * scale**2)
    third = third_central_moment(shape, n, mean, np.sqrt(m2 / (n - 1)))
    assert np.isclose(third, (centred**3).mean(), rtol=0, atol=1e-9 * scale**3)
    first, third = absolute_moments(shape, n, mean)
    assert first >= np.abs(centred).mean() - 1e-9 * scale
    assert third >= (np.abs(centred) ** 3).mean() - 1e-9 * scale**3


def test_means_that_are_added_in_place_of_merged_would_be_seen():
    differences = np.arange(10.0)
    parts = np.split(differences, [3])
    assert not np.isclose(np.mean([p.mean() for p in parts]), cut(differences, [3])[1])


def test_absolute_moments_about_another_centre():
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
