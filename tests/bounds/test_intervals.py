"""Each interval rule against dense evaluation, by Hypothesis."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytensor import scalar
from scipy import special

from pymc_austerity.bounds import elementary, slow_ratios
from pymc_austerity.bounds import intervals as iv
from pymc_austerity.bounds.elementary import RULES, power
from pymc_austerity.bounds.interval_series import affine, known_series, rearranged
from pymc_austerity.bounds.intervals import Interval

#: Each function with the interval of arguments on which it is tried.
FUNCTIONS = {
    **{kind.__name__: (rule, (-20, 20)) for kind, rule in RULES.items()},
    "Log": (elementary.log, (1e-3, 50)),
    "Log1p": (RULES[scalar.Log1p], (-0.99, 50)),
    "Sqrt": (RULES[scalar.Sqrt], (1e-3, 50)),
    "Log1mexp": (elementary.log1mexp, (-30, -1e-2)),
    "GammaLn": (RULES[scalar.math.GammaLn], (0.05, 60)),
    "Psi": (RULES[scalar.math.Psi], (0.05, 60)),
    "TriGamma": (RULES[scalar.math.TriGamma], (0.05, 60)),
    "Erf": (RULES[scalar.math.Erf], (-5, 5)),
    "Erfc": (RULES[scalar.math.Erfc], (-5, 5)),
    "log1p_square": (elementary.log1p_square, (-20, 20)),
    "log_ndtr": (elementary.log_ndtr, (-60, 8)),
    "log1p_ratio": (slow_ratios.log1p_ratio, (-20, 30)),
    "log1p_square_ratio": (slow_ratios.log1p_square_ratio, (-20, 20)),
    "half_ratio": (slow_ratios.half_ratio, (-12, 12)),
    "cube": (power(3.0), (-3, 3)),
    "fourth power": (power(4.0), (-3, 3)),
    "power 1.7": (power(1.7), (0.01, 9)),
    "reciprocal": (power(-1.0), (0.01, 9)),
}
numbers = st.floats(-50, 50)
shares = st.floats(0, 1)


@st.composite
def intervals(draw):
    ends = sorted((draw(numbers), draw(numbers)))
    return Interval(np.array(ends[0]), np.array(ends[1]))


def inside(interval, share):
    return np.clip(interval.lo + share * (interval.hi - interval.lo), interval.lo, interval.hi)


def holds(interval, value):
    return bool(np.all((interval.lo <= value) & (value <= interval.hi)))


def holds_exactly(interval, number):
    return Fraction(float(interval.lo)) <= number <= Fraction(float(interval.hi))


@given(intervals(), intervals(), shares, shares)
def test_arithmetic_holds_every_result(a, b, s, t):
    x, y = inside(a, s), inside(b, t)
    exact_x, exact_y = Fraction(float(x)), Fraction(float(y))
    assert holds_exactly(iv.add(a, b), exact_x + exact_y)
    assert holds_exactly(iv.add(a, -b), exact_x - exact_y)
    assert holds_exactly(iv.multiply(a, b), exact_x * exact_y)
    assert holds_exactly(iv.multiply(iv.point(x), b), exact_x * exact_y)
    assert holds_exactly(iv.square(a), exact_x * exact_x)
    assert iv.square(a).lo >= 0
    assert holds_exactly(-a, -exact_x)
    assert holds_exactly(iv.hull(a, b), exact_x)


def test_rounding_is_outwards():
    a, b = Fraction(0.1), Fraction(0.2)
    assert holds_exactly(iv.add(iv.point(0.1), iv.point(0.2)), a + b)
    assert not holds_exactly(iv.point(0.1 + 0.2), a + b)  # without rounding it would be missed
    nothing = iv.multiply(iv.point(0.0), Interval(np.array(-np.inf), np.array(np.inf)))
    assert nothing.magnitude() < 1e-300


def test_sums_and_products_beyond_floats_are_infinite():
    """Without a warning, which would be shown to a user whose bounds do not matter then."""
    largest = iv.point(np.array([np.finfo(float).max]))
    for found in (iv.add(largest, largest), iv.multiply(largest, largest), iv.square(largest), iv.outwards(*largest)):
        assert found.hi == np.inf
        assert found.lo >= 1e308


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=40)
@given(s=shares, width=st.floats(0, 0.5))
def test_ranges_of_derivatives_are_exact(name, s, width):
    f, (first, last) = FUNCTIONS[name]
    lo = first + s * (last - first)
    hi = min(lo + width * (last - first), last)
    x = np.linspace(lo, hi, 2001)
    for order in range(elementary.HIGHEST + 1):
        found, values = f.range(order, Interval(np.array(lo), np.array(hi))), f.derivatives[order](x)
        assert holds(found, values)
        # Not wider than what a grid finds, but for what lies between its points and the rounding that is granted.
        between = np.abs(np.diff(values)).max() + 1e-14
        slack = between + 2 * f.relative[order] * np.abs(values).max() + 2 * f.absolute
        assert found.lo >= values.min() - slack
        assert found.hi <= values.max() + slack


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_the_function(name):
    f, (first, last) = FUNCTIONS[name]
    x = np.linspace(first, last, 40)[1:-1]
    h = 1e-4 * np.minimum(1.0, np.minimum(x - first, last - x)) ** 1.0
    for order in range(elementary.HIGHEST):
        g, slope = f.derivatives[order], f.derivatives[order + 1](x)
        numeric = (g(x - 2 * h) - 8 * g(x - h) + 8 * g(x + h) - g(x + 2 * h)) / (12 * h)
        rounding = 1e-15 * np.abs(g(x)) / h
        np.testing.assert_allclose(numeric, slope, rtol=2e-5, atol=1e-7 + 10 * rounding.max())


def test_the_constants_of_the_literature_are_met():
    everywhere = Interval(np.array(-np.inf), np.array(np.inf))
    np.testing.assert_allclose(elementary.softplus.range(3, everywhere).hi, np.sqrt(3) / 18, rtol=1e-9)
    np.testing.assert_allclose(elementary.softplus.range(4, everywhere).lo, -1 / 8, rtol=1e-9)
    wide = Interval(np.array(-1e8), np.array(1e8))
    assert 0.295 < elementary.log_ndtr.range(3, wide).hi < 0.3
    np.testing.assert_allclose(elementary.log1p_square.range(3, wide).hi, 2.914, rtol=1e-3)


def test_outside_its_domain_nothing_is_known():
    found = elementary.log.range(3, Interval(np.array([-1.0, 1.0]), np.array([1.0, 2.0])))
    assert np.isinf(found.magnitude()).tolist() == [True, False]


def test_a_missing_turning_point_would_be_seen():
    forgetful = elementary.Elementary(elementary.softplus.derivatives)
    assert not holds(forgetful.range(2, Interval(np.array(-1.0), np.array(1.0))), 0.25)


def taylor_coefficient(f, powers, at, h=1e-2):
    """∂^α f/α! of a function of two numbers, by central differences."""
    total = 0.0
    a, b = powers
    for i in range(a + 1):
        for j in range(b + 1):
            sign = (-1) ** (i + j) * special.comb(a, i) * special.comb(b, j)
            total += sign * f(at[0] + (a / 2 - i) * h, at[1] + (b / 2 - j) * h)
    return total / h ** (a + b) / special.factorial(a) / special.factorial(b)


@settings(max_examples=30)
@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(0, 0.5), shares, shares)
def test_series_hold_the_derivatives_of_compositions(x, y, radius, s, t):
    u, v = affine(np.array(x), {0: np.array(1.0)}, radius), affine(np.array(y), {1: np.array(0.5)}, radius)
    series = (u * v.through(elementary.exp) + u.squared() - v).through(elementary.softplus) * known_series(
        np.array(3.0), radius
    )

    def f(a, b):
        w = y + 0.5 * b
        return 3 * np.logaddexp(0, (x + a) * np.exp(w) + (x + a) ** 2 - w)

    at = radius * (2 * s - 1), radius * (2 * t - 1)
    assert holds(series.value, f(*at))
    assert holds(series.centre, f(0, 0))
    for powers in [(1, 0), (0, 1), (1, 1), (2, 1), (0, 3), (3, 0)]:
        key = tuple((k, e) for k, e in enumerate(powers) if e)
        found = series.terms(sum(powers))[key]
        value = taylor_coefficient(f, powers, at)
        assert found.lo - 2e-2 - 1e-2 * abs(value) <= value <= found.hi + 2e-2 + 1e-2 * abs(value)


def test_entries_added_up_keep_their_own_variables():
    x = affine(np.zeros(2), {0: np.array([1.0, 0.0]), 1: np.array([0.0, 2.0])}, 1.0)
    total = rearranged(lambda parts: parts[0].sum(keepdims=True), [x.through(elementary.exp)])
    assert total.shape == (1,)
    assert set(total.terms(1)) == {((0, 1),), ((1, 1),)}
    assert holds(total.terms(1)[((1, 1),)], 2 * np.exp(2 * 0.9))


def test_ratios_are_those_of_the_functions():
    """On both sides of the places where one formula gives way to another."""
    t = np.linspace(-6, 8, 2_001)
    u, x = np.exp(t), t / 2
    gammas = special.gammaln(u + 0.5) - special.gammaln(u)
    np.testing.assert_allclose(slow_ratios.half_ratio.derivatives[0](t), gammas, rtol=0, atol=1e-10)
    np.testing.assert_allclose(slow_ratios.log1p_ratio.derivatives[0](t), np.log1p(u) / u, rtol=1e-12)
    np.testing.assert_allclose(
        slow_ratios.log1p_square_ratio.derivatives[0](x[x != 0]), np.log1p(x[x != 0] ** 2) / x[x != 0] ** 2, rtol=1e-9
    )
