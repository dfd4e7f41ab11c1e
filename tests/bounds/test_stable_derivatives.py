"""Derivatives of a row are finite wherever its log density is, at predictors of several hundred as well."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.gradient import NullTypeGradError, grad
from pytensor.graph.traversal import apply_ancestors
from pytensor.graph.utils import MethodNotDefined
from rowwise import read, taylor_terms
from scipy import special

import pymc_austerity as pma
from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import (
    BY_NUMPY,
    compile_log_density,
    interpret_log_density,
    stabilised,
)
from pymc_austerity.compile.second_derivatives import twice_differentiable
from pymc_austerity.likelihood.row_likelihood import row_likelihood

IS_6 = int(pm.__version__.split(".")[0]) >= 6
ETA = np.array([-650.0, -400.0, -40.0, -1.0, 0.0, 2.0, 40.0, 400.0, 650.0])


def variance(eta):
    """p(1 − p), without 1 − p."""
    return special.expit(eta) * special.expit(-eta)


#: First and second derivative of a logistic row by η.
LOGISTIC = (lambda eta, y: (y > 0) - special.expit(eta), lambda eta, y: -variance(eta))
#: Likelihood of η and y, and its first and second derivative by η.
FAMILIES = {
    "bernoulli": (lambda eta, y: pm.Bernoulli("y", logit_p=eta, observed=y > 0), *LOGISTIC),
    "bernoulli of a probability": (lambda eta, y: pm.Bernoulli("y", p=pm.math.sigmoid(eta), observed=y > 0), *LOGISTIC),
    "categorical": (
        lambda eta, y: pm.Categorical("y", logit_p=pt.stack([0 * eta, eta], axis=1), observed=(y > 0) + 0),
        *LOGISTIC,
    ),
    "binomial": (
        lambda eta, y: pm.Binomial("y", n=5, logit_p=eta, observed=y),
        lambda eta, y: y - 5 * special.expit(eta),
        lambda eta, y: -5 * variance(eta),
    ),
    "poisson": (
        lambda eta, y: pm.Poisson("y", mu=pt.exp(eta), observed=y),
        lambda eta, y: y - np.exp(eta),
        lambda eta, y: -np.exp(eta),
    ),
    "negative binomial": (
        lambda eta, y: pm.NegativeBinomial("y", mu=pt.exp(eta), alpha=2.0, observed=y),
        lambda eta, y: y - (y + 2.0) * special.expit(eta - np.log(2.0)),
        lambda eta, y: -(y + 2.0) * variance(eta - np.log(2.0)),
    ),
}


def derivatives_of(likelihood, compiled):
    """Return a function of a row and its first and second derivative by the only parameter."""
    row = likelihood.row_log_likelihood
    first = grad(row.sum(), likelihood.theta)
    second = pushforward(first, likelihood.theta, pt.ones_like(likelihood.theta))
    inputs, outputs = [likelihood.theta, *likelihood.batches], [row, first, second]
    return compile_log_density(inputs, outputs, mode="NUMBA") if compiled else interpret_log_density(inputs, outputs)


@pytest.mark.parametrize("family", FAMILIES)
def test_derivatives_at_extreme_predictors(family):
    build, first, second = FAMILIES[family]
    # PyTensor 2 squares the mean of a negative binomial in its second derivative.
    eta = np.tile(np.clip(ETA, -300, 300) if family == "negative binomial" and not IS_6 else ETA, 2)
    y = np.repeat([0, 3], ETA.size)
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        build(slope * pt.as_tensor(eta), y)
    likelihood, data, _ = row_likelihood(model)
    evaluate = derivatives_of(likelihood, compiled=family in ("bernoulli", "negative binomial"))
    at = [evaluate(np.ones(1), *(a[i : i + 1] for a in data.row_arrays())) for i in range(eta.size)]
    row, *derivatives = np.array([[float(np.squeeze(part)) for part in parts] for parts in at]).T
    # PyMC 5 takes 1 − p for zero before its logarithm, so that such rows are impossible.
    finite = np.isfinite(row)
    assert all(finite[y == value].sum() >= (ETA.size if IS_6 else 5) for value in (0, 3))
    expected = [first(eta, y) * eta, second(eta, y) * eta**2]
    np.testing.assert_allclose(np.array(derivatives)[:, finite], np.array(expected)[:, finite], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("written", [lambda x: pt.log(1 + pt.erf(x)), lambda x: pt.log1p(-pt.erf(-1.0 * x))])
def test_tails_of_the_error_function_are_kept(written):
    """They are those of a skew normal row far out, and of what users write for a normal distribution function."""
    x, at = pt.dvector("x"), np.array([-20.0, -8.0, -3.0, 0.0, 8.0])
    tail = stabilised(written(x))
    value, slope = pytensor.function([x], [tail, grad(tail.sum(), x)], mode=BY_NUMPY)(at)
    expected = np.log(2) + special.log_ndtr(np.sqrt(2) * at)
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(slope, 2 / np.sqrt(np.pi) * np.exp(-(at**2) - expected), rtol=1e-9, atol=1e-15)


def test_a_derivative_of_what_was_not_stabilised_is_not_finite():
    eta, y = pt.dvector("eta"), pt.lvector("y")
    unstable = pm.logp(pm.Bernoulli.dist(logit_p=eta), y)
    second = pushforward(grad(unstable.sum(), eta), eta, pt.ones_like(eta))
    found = compile_log_density([eta, y], [second], mode="NUMBA")(ETA, np.zeros(ETA.size, np.int64))[0]
    assert np.isnan(found[-2:]).all()


@pytest.mark.slow
def test_rare_columns_of_extreme_values_keep_the_proxy():
    # Standardised indicators of a few rows among thousands, as in tables of network connections.
    rng = np.random.default_rng(7)
    n = 4_000
    X = np.column_stack([rng.normal(size=(n, 2)), np.arange(n) < 1, np.arange(n) < 3])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (rng.random(n) < special.expit(3 * X[:, 0] + X[:, 1])).astype(int)
    with pm.Model():
        beta = pm.Normal("beta", 0, 10, shape=4)
        pm.Bernoulli("y", logit_p=pt.dot(X, beta), observed=y)
        step = pma.PenaltyMH(progressbar=False)
    assert np.abs(X).max() > 60
    assert step.decider.parts.prepared is not None


def test_a_product_along_an_axis_is_differentiated_twice():
    """As of the length scales of `pm.gp.HSGP`, whose number PyTensor does not know."""
    x = pt.dvector("x")
    second = pytensor.gradient.hessian(twice_differentiable(pt.prod(x)), x)
    found = pytensor.function([x], second, mode=BY_NUMPY)([2.0, 3.0, 4.0])
    np.testing.assert_allclose(found, [[0, 4, 3], [4, 0, 2], [3, 2, 0]], atol=1e-12)
    with pytest.raises(NullTypeGradError):
        pytensor.gradient.hessian(pt.prod(x), x)


def test_a_bessel_function_is_differentiated_twice():
    """As of the concentration of `pm.VonMises`: log I₀ has the derivatives r = I₁ / I₀ and 1 − r / κ − r²."""
    kappa = np.array([0.1, 2.0, 50.0, 200.0])
    x, r = pt.dvector("x"), special.ive(1, kappa) / special.ive(0, kappa)
    row = pm.logp(pm.VonMises.dist(0.3, x), 0.3)
    first = grad(twice_differentiable(row).sum(), x)
    found = pytensor.function([x], [row, first, grad(first.sum(), x)], mode=BY_NUMPY)(kappa)
    np.testing.assert_allclose(found[0], -np.log(2 * np.pi * special.ive(0, kappa)), rtol=1e-12)
    np.testing.assert_allclose(found[1], 1 - r, rtol=1e-9)
    np.testing.assert_allclose(found[2], r / kappa + r * r - 1, rtol=1e-7)
    if IS_6:  # PyMC 5 writes it by a function that PyTensor differentiates
        with pytest.raises((NotImplementedError, MethodNotDefined)):
            grad(grad(row.sum(), x).sum(), x)


@pytest.mark.parametrize("first", [True, False])
def test_a_beta_function_of_one_is_that_of_scipy(first):
    c, x = pt.dvector("c"), pt.dvector("x")
    one = pt.floor(pt.constant(0)) + 1  # the incomplete beta function has a closed form where a parameter is one
    graph = twice_differentiable(pt.betainc(one, c, x) if first else pt.betainc(c, one, x))

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


def test_a_beta_function_of_other_parameters_stays():
    c, x = pt.dvector("c"), pt.dvector("x")
    graph = pt.betainc(c, 2.0, x)
    assert any(node.op == pt.betainc for node in apply_ancestors([twice_differentiable(graph)]))
    assert twice_differentiable(pt.exp(x)).owner.op == pt.exp


@pytest.mark.slow
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
