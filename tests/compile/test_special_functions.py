"""Compiled derivatives of the log-gamma function against SciPy's, and that no function calls Python for them."""

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy import special

from pymc_austerity.compile.graph_compiler import compile_log_density
from pymc_austerity.compile.special_functions import build_polygamma

#: From the pole at zero to where the series is its first term, and every way into the recurrence.
POSITIVE = np.concatenate([10.0 ** np.linspace(-12, 12, 241), np.linspace(0.05, 60, 1200)])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_it_is_scipys_over_all_positive_numbers(order):
    polygamma = build_polygamma(order)
    found = [polygamma(x) for x in POSITIVE]
    np.testing.assert_allclose(found, special.polygamma(order, POSITIVE), rtol=4e-15)


def test_a_series_one_term_short_or_started_too_early_is_seen(monkeypatch):
    from pymc_austerity.compile import special_functions

    for name, value in [("_BERNOULLI", special_functions._BERNOULLI[:3]), ("_LARGE", 2.0)]:
        with monkeypatch.context() as patch:
            patch.setattr(special_functions, name, value)
            polygamma = build_polygamma(1)
            found = np.array([polygamma(x) for x in POSITIVE])
        assert np.abs(found / special.polygamma(1, POSITIVE) - 1).max() > 4e-15, name


@pytest.mark.parametrize("order", [1, 2])
def test_between_poles_at_them_and_at_the_ends(order):
    polygamma = build_polygamma(order)
    between = np.array([-0.5, -1.25, -7.75])
    steps = special.factorial(order) / np.add.outer(between, np.arange(10)) ** (order + 1)
    recurrence = special.polygamma(order, between + 10) - (-1) ** order * steps.sum(axis=1)
    np.testing.assert_allclose([polygamma(x) for x in between], recurrence, rtol=1e-12)
    assert [abs(polygamma(x)) for x in (0.0, -3.0, np.inf)] == [np.inf, np.inf, 0.0]
    assert np.isnan([polygamma(np.nan), polygamma(-1e300)]).all()


def test_derivatives_by_a_shape_stay_in_compiled_code(recwarn):
    shape = pt.dvector("shape")
    log_density = pt.gammaln(shape) - pt.gammaln(2 * shape)
    derivatives = [log_density]
    for _ in range(3):
        derivatives.append(pt.grad(derivatives[-1].sum(), shape))
    at = np.array([0.3, 2.0, 50.0])
    found = compile_log_density([shape], derivatives[1:], mode="NUMBA")(at)
    expected = [
        special.psi(at) - 2 * special.psi(2 * at),
        special.polygamma(1, at) - 4 * special.polygamma(1, 2 * at),
        special.polygamma(2, at) - 8 * special.polygamma(2, 2 * at),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert not [w for w in recwarn if "object mode" in str(w.message)]
