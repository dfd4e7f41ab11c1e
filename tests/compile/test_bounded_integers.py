"""A whole number below a limit is NumPy's own, and so is every one that the generator gives after it."""

import numpy as np
import pytest
from numba import njit

from pymc_austerity.compile import bounded_integers
from pymc_austerity.compile.bounded_integers import integer_below

# Far beyond these, numbers of numba are not those of NumPy.
LIMITS = (1, 2, 3, 10, 1_000, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**40 + 1)


def drawing(below):
    @njit
    def draw(rng, limits, numbers):
        for k in range(limits.size):
            numbers[k] = below(rng, limits[k])

    return draw


@njit
def _modulo(rng, limit):
    """Planted mistake: what is left of a division, which is as uniform to the eye."""
    return integer_below(rng, 2**32) % limit


def _drawn(below, generator, limits):
    rng, numbers = np.random.Generator(generator(7)), np.empty(limits.size, np.int64)
    drawing(below)(rng, limits, numbers)
    return numbers.tolist(), rng.bit_generator.state


def _by_numpy(generator, limits):
    rng = np.random.Generator(generator(7))
    return [int(rng.integers(0, n)) for n in limits], rng.bit_generator.state


@pytest.fixture(scope="module")
def limits():
    """Limits of all kinds in any order: numbers of 32 bits come two at a time, and one waits while others are drawn."""
    return np.random.default_rng(3).permutation(np.repeat(np.array(LIMITS), 200))


@pytest.mark.parametrize("generator", [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.SFC64])
def test_numbers_and_generator_are_those_of_numpy(generator, limits):
    np.testing.assert_equal(_drawn(integer_below, generator, limits), _by_numpy(generator, limits))


def test_a_division_is_told_from_it(limits):
    few = limits[(limits > 1) & (limits < 2**32)]
    assert _drawn(_modulo, np.random.PCG64, few)[0] != _by_numpy(np.random.PCG64, few)[0]


def test_numbers_are_drawn_directly():
    """Where numba has moved what this is made of, steps are right and slow."""
    assert bounded_integers._DIRECTLY


def test_without_numbas_parts_it_asks_numba(limits, monkeypatch):
    monkeypatch.setattr(bounded_integers, "_DIRECTLY", False)
    below = njit(integer_below.py_func)
    np.testing.assert_equal(_drawn(below, np.random.PCG64, limits), _by_numpy(np.random.PCG64, limits))
