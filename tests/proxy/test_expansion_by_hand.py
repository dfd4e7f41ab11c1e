"""Sums that an expansion knows, and the check of its order, number for number against NumPy."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from pymc_austerity.proxy.expansion import (
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
    third_order = EXPANSION._replace(cubic=CUBIC)
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


#: How large remainders are at a step s of posterior size, and what is said of that.
REMAINDERS = {
    "of first order": (lambda s: 0.1 * s**2, {"order": 1}, None),
    "of second order": (lambda s: 0.1 * s**3, {}, None),
    "of third order": (lambda s: 0.1 * s**4, {"order": 3}, None),
    "of a lower order": (lambda s: 0.1 * s**2, {}, "the remainder of an expansion of order 2 shrank by 4.00 when"),
    "three quarters of what is due": (lambda s: s ** np.log2(0.76 * 8), {}, None),
    "less": (lambda s: s ** np.log2(0.74 * 8), {}, "shrank by 5.92 when the step halved, where 2^3 was due"),
    "constant beyond a quarter": (lambda s: min(s, 0.25) ** 3, {}, None),
    "constant beyond a sixteenth": (lambda s: min(s, 0.0625) ** 3, {}, None),
    "and a sixteenth within rounding": (lambda s: 1e-4 * min(s, 0.25) ** 3, {}, None),
    "constant where nobody looks": (lambda s: min(s, 0.0625 / 2) ** 3, {}, "shrank by 1.00"),
    # A billionth of one and of the log-likelihood of a row.
    "rounding": (lambda s: 0.9e-9 * (s > 0), {"offset": 0.0}, None),
    "more than rounding": (lambda s: 1.1e-9 * (s > 0), {"offset": 0.0}, "shrank by 1.00"),
    "rounding of 100": (lambda s: 0.9e-9 * 101 * (s > 0), {}, None),
    "more than rounding of 100": (lambda s: 1.1e-9 * 101 * (s > 0), {}, "shrank by 1.00"),
    # A wide posterior: the leading term alone is there from a quarter on, and is not to be told from rounding.
    "rounding from a quarter on": (lambda s: 3e-7 * s**2.2, {}, None),
    "less, and no rounding": (lambda s: 3e-4 * s**2.2, {}, "shrank by 4.59"),
    "none at half the step": (lambda s: float(s == 1), {}, None),
    "no number": (lambda s: np.nan if s == 1 else s, {}, "the derivatives of the log-likelihood are not finite"),
    "no number at half the step": (lambda s: np.nan if s == 0.5 else s, {}, "log-likelihood are not finite"),
}


@pytest.mark.parametrize("name", REMAINDERS)
def test_remainders_of_another_order_are_named(name):
    size, options, told = REMAINDERS[name]
    found = said_of(size, **options)
    assert found is None if told is None else told in found
