"""What an expansion leaves of a row, against sixty digits, from the size of a posterior down to rounding."""

from decimal import Decimal, localcontext
from math import factorial

import numpy as np
import pymc as pm
import pytest

from pymc_austerity.likelihood import compile_density
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy import compile_remainder_density, compile_resolved_density
from pymc_austerity.proxy.resolved_remainder import _rule

OPTIONS = {"mode": "NUMBA"}
CENTRE = 0.7
X = np.array([0.3, 1.0, -2.0, 1.7])
LABELS = np.array([1, 0, 1, 1])


def exact_remainder(x, y, theta):
    """ℓ(θ) − q(θ) of one row of a logistic regression."""
    with localcontext() as context:
        context.prec = 60
        centre, eta = Decimal(float(x)) * Decimal(CENTRE), Decimal(float(x)) * Decimal(float(theta))
        p, h = 1 / (1 + (-centre).exp()), eta - centre
        grown = (1 + eta.exp()).ln() - (1 + centre.exp()).ln()
        return float(-grown + p * h + p * (1 - p) * h**2 / 2)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_rule_is_exact_for_polynomials_of_degree_five(order):
    nodes, weights = _rule(order)
    # ∫₀¹ (1 − s)^k/k! · s^m ds
    for m in range(6):
        assert weights @ nodes**m == pytest.approx(factorial(m) / factorial(order + m + 1), rel=1e-12)
    assert weights @ nodes**6 != pytest.approx(factorial(6) / factorial(order + 7), rel=1e-6)


@pytest.fixture(scope="module")
def densities():
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 1)
        pm.Bernoulli("y", logit_p=theta * X, observed=LABELS)
    likelihood = row_likelihood(model)[0]
    density = compile_density(likelihood)
    return likelihood, [
        build(density, likelihood, 2, **OPTIONS) for build in (compile_resolved_density, compile_remainder_density)
    ]


def relative_errors(likelihood, density, step, times=1.0):
    theta, centre, none = np.array([CENTRE + step]), np.array([CENTRE]), np.zeros(0)
    batch = [X if b.type.dtype.startswith("float") else LABELS.astype(b.type.dtype) for b in likelihood.batches]
    new, old = density.both_sides(theta, centre, none, centre, *batch)
    exact = np.array([exact_remainder(x, y, theta[0]) for x, y in zip(X, LABELS)])
    return np.abs((new - old) / (times * exact) - 1)


@pytest.mark.slow
@pytest.mark.parametrize("step", [3.0, 0.1, 1e-3, -1e-5])
def test_remainders_are_precise_relative_to_themselves(densities, step):
    likelihood, (resolved, difference) = densities
    assert relative_errors(likelihood, resolved, step).max() < 1e-8
    if abs(step) < 1e-4:
        assert relative_errors(likelihood, difference, step).max() > 0.1


@pytest.mark.slow
def test_the_two_forms_are_compared_in_the_units_of_the_rows():
    """Rows that count for a million each: the rounding of their difference is a million times as large."""
    with pm.Model() as model:
        eta = pm.Normal("theta", 0, 1) * pm.Data("X", X)
        log_likelihood = pm.logp(pm.Bernoulli.dist(logit_p=eta), pm.Data("labels", LABELS))
        pm.Potential("rows", 1e6 * log_likelihood)
    likelihood = row_likelihood(model)[0]
    resolved = compile_resolved_density(compile_density(likelihood), likelihood, 2, **OPTIONS)
    assert relative_errors(likelihood, resolved, 1e-3, times=1e6).max() < 1e-8
