"""A slice step along a line: its law, and how long it says the slice is."""

from typing import NamedTuple

import numpy as np
import pytest
from evidence import MAX_Z, moment_z
from numba import njit
from scipy import special

from pymc_austerity.groups.slice_step import build_slice, moved


class Point(NamedTuple):
    theta: np.ndarray
    value: float


@njit
def logistic(here, step, direction, power):
    """A law whose tails are straight lines, to some power."""
    theta = moved(here.theta, step, direction)
    return Point(theta, power * (theta[0] - 2.0 * np.log1p(np.exp(theta[0]))))


@pytest.mark.parametrize(("width", "length"), [(0.3, 3.5), (3.0, 6.0), (300.0, 300.0)])
def test_slices_have_the_law_of_their_density(width, length):
    """From narrow and from wide ones; and of the density squared they have another, which is the planted mistake."""
    along = build_slice(logistic)

    @njit
    def run(rng, n, power):
        here, draws, lengths = Point(np.zeros(1), -2 * power * np.log(2.0)), np.empty(n), np.empty(n)
        for i in range(n):
            here, lengths[i] = along(rng, here, np.full(1, width), power)
            draws[i] = here.theta[0]
        return draws, lengths

    for power in (1.0, 2.0):
        draws, lengths = run(np.random.default_rng(4), 40_000, power)
        uniform = special.expit(draws)  # of draws of the logistic law
        z = [moment_z(of[None], mean, sd) for of, mean, sd in ((uniform, 1 / 2, 12**-0.5), (uniform**2, 1 / 3, 0.2981))]
        assert (np.abs(z).max() < MAX_Z) == (power == 1)
    assert np.median(lengths * width) == pytest.approx(length, rel=0.2)
