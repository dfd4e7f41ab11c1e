"""Sums that an expansion knows, and the check of its order, number for number against NumPy."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from pymc_austerity.proxy.expansion import (
    CubicExpansion,
    Expansion,
    Taylor,
    check_order,
    expanded_cubic_sum,
    expanded_sum,
    known_sum,
)

RNG = np.random.default_rng(4)
#: Three of five entries of ψ = (θ, others), of which the first three are θ.
COORDINATES, CENTRE = np.array([0, 2, 3]), RNG.normal(size=5)
THETA, OTHERS = RNG.normal(size=3), RNG.normal(size=2)
SHIFT = (np.append(THETA, OTHERS) - CENTRE)[COORDINATES]
GRADIENT, CUBIC = RNG.normal(size=3), RNG.normal(size=10)
HESSIAN = RNG.normal(size=(3, 3))
HESSIAN = HESSIAN + HESSIAN.T
EXPANSION = Expansion(CENTRE, COORDINATES, GRADIENT, HESSIAN)
#: A step of posterior size, and data that the remainders are asked with.
SPREAD, FIXED, BATCH = np.array([1.0, 0.5, -0.5, 0.3, 2.0]), (np.array([7.0]),), (np.arange(1.0, 5.0),)


def test_the_known_sum_is_the_polynomial():
    quadratic = GRADIENT @ SHIFT + SHIFT @ HESSIAN @ SHIFT / 2
    cubic = sum(c * SHIFT[list(at)].prod() for c, at in zip(CUBIC, combinations_with_replacement(range(3), 3)))
    assert expanded_sum(THETA, OTHERS, EXPANSION) == pytest.approx(quadratic, rel=1e-12)
    third_order = CubicExpansion(*EXPANSION, CUBIC)
    assert expanded_cubic_sum(THETA, OTHERS, third_order) == pytest.approx(quadratic + cubic, rel=1e-12)
    assert [known_sum(order) for order in (1, 2, 3)] == [expanded_sum, expanded_sum, expanded_cubic_sum]


def test_orders_are_one_to_three():
    for order in (0, 4):
        with pytest.raises(ValueError, match="must be 1, 2 or 3"):
            Taylor(order)


def said_of(size, order=2, offset=100.0):
    """What is said of remainders that are `size` of the distance from the centre, in steps of posterior size."""

    def both_sides(theta_new, theta, others, centre, *data):
        assert (theta_new == CENTRE[:3]).all()
        assert (centre == CENTRE).all()
        assert [part.tolist() for part in data] == [[7.0], [1.0, 2.0, 3.0, 4.0]]
        steps = (np.append(theta, others) - CENTRE) / SPREAD
        np.testing.assert_allclose(steps, steps[0], atol=1e-12)  # along the line of the spread
        return np.full(4, np.nan), offset + size(steps[0]) * np.array([1.0, -1.0, 1.0, -1.0])

    return check_order(both_sides, EXPANSION, order, SPREAD, FIXED, BATCH, 3)


def test_remainders_of_the_order_are_in_order():
    for order in (1, 2, 3):
        assert said_of(lambda s, order=order: 0.1 * s ** (order + 1), order) is None
        # Three quarters of what is due are enough, and no less.
        for share, right in ((0.76, True), (0.74, False)):
            power = np.log2(share * 2 ** (order + 1))
            assert (said_of(lambda s, power=power: s**power, order) is None) == right


def test_remainders_of_a_lower_order_are_named():
    assert said_of(lambda s: 0.1 * s**2) == (
        "the remainder of an expansion of order 2 shrank by 4.00 when the step halved, where 2^3 was due"
    )


def test_a_wide_posterior_is_looked_at_closer_to_the_centre():
    for step in (1.0, 0.25, 0.0625):
        # Beyond the step the remainder grows no more.
        assert said_of(lambda s, step=step: min(s, step) ** 3) is None
    # Where a sixteenth is within rounding a quarter tells.
    assert said_of(lambda s: 1e-4 * min(s, 0.25) ** 3) is None
    # Closer than a sixteenth of a standard deviation nobody looks.
    assert "shrank by 1.00" in said_of(lambda s: min(s, 0.0625 / 2) ** 3)


@pytest.mark.parametrize(("times", "wrong"), [(0.9, False), (1.1, True)])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_remainders_within_rounding_are_none(times, wrong, offset):
    # A billionth of one and of the log-likelihood of a row.
    found = said_of(lambda s: times * 1e-9 * (1 + offset) * (s > 0), offset=offset)
    assert (found is not None) == wrong


def test_a_remainder_that_vanishes_at_half_the_step_is_in_order():
    assert said_of(lambda s: float(s == 1)) is None


@pytest.mark.parametrize("at", [1.0, 0.5])
def test_derivatives_that_are_no_numbers_are_told(at):
    assert said_of(lambda s: np.nan if s == at else s) == "the derivatives of the log-likelihood are not finite"
