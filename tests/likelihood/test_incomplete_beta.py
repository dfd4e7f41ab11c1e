"""The incomplete beta function in closed form."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import apply_ancestors
from rowwise import read, taylor_terms
from scipy import special

from pymc_austerity.likelihood.incomplete_beta import in_closed_form


@pytest.mark.parametrize("first", [True, False])
def test_with_one_parameter_of_one_it_has_the_values_and_derivatives_of_scipy(first):
    c, x = pt.dvector("c"), pt.dvector("x")
    one = pt.floor(pt.constant(0)) + 1
    graph = in_closed_form(pt.betainc(one, c, x) if first else pt.betainc(c, one, x))

    def by_scipy(c, x):
        return special.betainc(1.0, c, x) if first else special.betainc(c, 1.0, x)

    assert not any(node.op == pt.betainc for node in apply_ancestors([graph]))
    slopes = pytensor.grad(graph.sum(), [c, x])
    bends = [pytensor.grad(slope.sum(), of) for slope, of in zip(slopes, [c, x])]
    at = np.array([0.3, 1.0, 4.2]), np.array([0.15, 0.5, 0.9])
    value, *derivatives = pytensor.function([c, x], [graph, *slopes, *bends])(*at)
    np.testing.assert_allclose(value, by_scipy(*at), rtol=1e-12)
    for k, step in enumerate(1e-4 * np.eye(2)):
        up, down = by_scipy(at[0] + step[0], at[1] + step[1]), by_scipy(at[0] - step[0], at[1] - step[1])
        np.testing.assert_allclose(derivatives[k], (up - down) / 2e-4, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(derivatives[2 + k], (up - 2 * value + down) / 1e-8, rtol=1e-4, atol=1e-5)


def test_of_other_parameters_it_stays():
    c, x = pt.dvector("c"), pt.dvector("x")
    graph = pt.betainc(c, 2.0, x)
    assert any(node.op == pt.betainc for node in apply_ancestors([in_closed_form(graph)]))
    assert in_closed_form(pt.exp(x)).owner.op == pt.exp


def test_a_hurdle_of_a_negative_binomial_can_be_expanded():
    """PyTensor differentiates the probability of a zero once; a proxy needs the third derivative."""
    rng = np.random.default_rng(20)
    x, y = rng.normal(size=50), rng.negative_binomial(3, 0.5, 50)

    def define():
        mu = pm.math.exp(pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * x)
        pm.HurdleNegativeBinomial("y", pm.Beta("psi", 2, 2), mu=mu, alpha=pm.Exponential("alpha", 1), observed=y)

    _, data = read(define)
    with pytensor.config.change_flags(on_opt_error="raise"):
        rows, terms = taylor_terms(data.likelihood, 3)
    along, arrays, h = np.array([0.3, -0.2, 0.5, 1.0]), (*data.fixed, *data.rows.arrays), 1e-3
    _, *found = terms(data.theta0, along, *arrays)
    at = [rows(data.theta0 + k * h * along, *arrays) for k in (-2, -1, 0, 1, 2)]
    np.testing.assert_allclose(found[0], (at[3] - at[1]) / (2 * h), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], (at[3] - 2 * at[2] + at[1]) / h**2, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found[2], (at[4] - 2 * at[3] + 2 * at[1] - at[0]) / (2 * h**3), rtol=1e-2, atol=1e-3)
