"""Taylor proxies: the remainder has the right order, the sums are those of all rows, and moves on them are exact."""

import math

import numpy as np
import pymc as pm
import pytest
from known_sums import error_of_log_ratios, evaluate_as_written
from scipy import stats
from zoo import SPLIT

import pymc_austerity as pma
from pymc_austerity.likelihood.layout import flatten
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy.expansion import row_remainder
from pymc_austerity.proxy.full_pass import Sums, summed


def logistic(n_rows):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, 3))
    y = rng.random(n_rows) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2]))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=3)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model, X, y


@pytest.mark.parametrize("name", ["negative binomial", "softmax"])
def test_the_remainder_shrinks_with_the_order_of_the_expansion(name):
    model = next(case for case in SPLIT if case.name == name).build()
    likelihood, source, _ = row_likelihood(model)
    rng = np.random.default_rng(2)
    centre = flatten(model.initial_point(), likelihood.blocks)
    centre = centre + 0.1 * rng.standard_normal(centre.size)
    step = 0.02 * rng.standard_normal(centre.size)
    for order in (1, 2, 3):
        remainder, at = row_remainder(likelihood, order)
        inputs = [likelihood.theta, at, likelihood.others, *likelihood.batches]
        evaluate = evaluate_as_written(inputs, remainder)
        base, half, full = (evaluate(centre + s * step, centre, np.empty(0), *source.row_arrays()) for s in (0, 0.5, 1))
        shrunk = np.abs(full - base).mean() / np.abs(half - base).mean()
        assert abs(shrunk - 2 ** (order + 1)) < 0.15 * 2 ** (order + 1)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_remainder_of_a_row_by_hand(order):
    y = np.linspace(-2.0, 3.0, 7)
    with pm.Model() as model:
        mu, log_sigma = pm.Normal("mu"), pm.Normal("log_sigma")
        pm.Normal("y", mu, pm.math.exp(log_sigma), observed=y)
    likelihood, source, _ = row_likelihood(model, [model.rvs_to_values[mu]])
    remainder, at = row_remainder(likelihood, order)
    inputs = [likelihood.theta, likelihood.others, at, *likelihood.batches]
    evaluate = evaluate_as_written(inputs, remainder)
    centre, psi = np.array([0.4, -0.3]), np.array([0.9, 0.2])
    r, w, (h, k) = y - centre[0], np.exp(-2 * centre[1]), psi - centre
    terms = [
        r * w * h + (r**2 * w - 1) * k,
        -w * h**2 / 2 - 2 * r * w * h * k - r**2 * w * k**2,
        w * h**2 * k + 2 * r * w * h * k**2 + 2 / 3 * r**2 * w * k**3,
    ]
    expected = stats.norm.logpdf(y, psi[0], np.exp(psi[1])) - sum(terms[:order])
    found = evaluate(psi[:1], psi[1:], centre, *source.row_arrays())
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def parts(values):
    return [Sums(float(v), np.array([v, -v]), np.array([[2 * v]])) for v in values]


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_the_error_does_not_grow_with_the_number_of_pieces(order):
    values = np.concatenate([[1e15], np.random.default_rng(1).normal(1, 1, 20_000), [-1e15]])[::order]
    exact, total = math.fsum(values), summed(parts(values))
    assert total.value == pytest.approx(exact, rel=1e-14)
    np.testing.assert_allclose(total.gradient, [exact, -exact], rtol=1e-14)
    np.testing.assert_allclose(total.hessian, [[2 * exact]], rtol=1e-14)
    plain = sum(parts(values)[1:], start=parts(values)[0]).value
    assert abs(plain - exact) > 1e-5 * abs(exact)  # what it would be without


def test_a_sum_that_is_not_finite_stays_so():
    assert summed(parts([-np.inf])).value == -np.inf
    assert summed(parts([1.0, -np.inf, 2.0])).value == -np.inf
    assert np.isnan(summed(parts([1.0, np.nan])).value)


def test_parts_that_need_a_proxy_say_so():
    discrete = next(case for case in SPLIT if case.name == "a discrete switch").build()
    for model, arguments, told in (
        (discrete, {"proxy": pma.Taylor()}, r"\['on'\] is discrete.*leave out proxy="),
        (logistic(100)[0], {"proxy": None, "proposal": pma.SurrogateHMC()}, "moves on a surrogate.*Leave out proxy"),
        (logistic(100)[0], {"proxy": None, "rows": pma.Weighted()}, "a proxy leaves.*Leave out proxy"),
    ):
        with model, pytest.raises(ValueError, match=told):
            pma.ApproxMH(**arguments)


@pytest.mark.slow
def test_on_all_rows_log_ratios_are_those_of_the_model():
    """Where the rows read a variable that another step moves, too."""
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 10), pm.HalfNormal("sigma", 10)
        pm.Normal("y", mu, sigma, observed=np.random.default_rng(8).normal(1.0, 2.0, size=300))
        step = pma.PenaltyMH([mu], batch_size=300, rows=pma.Uniform(), proposal=pma.CrankNicolson())
    assert step.decider.expansion.coordinates.tolist() == [0, 1]
    assert error_of_log_ratios(step, model) < 1e-7
    step.decider.expansion.hessian[0, 1] += 1.0  # planted
    assert error_of_log_ratios(step, model) > 1e-4


@pytest.mark.parametrize("order", [1, 2])
def test_sums_at_a_given_centre_are_those_of_a_glm(order):
    model, X, y = logistic(2_000)
    with model:
        step = pma.ExactMH(proxy=pma.Taylor(order, {"beta": [0.9, -0.4, 0.3]}), rows=pma.Uniform())
    expansion = step.decider.expansion
    p = 1 / (1 + np.exp(-X @ [0.9, -0.4, 0.3]))
    np.testing.assert_array_equal(expansion.centre, [0.9, -0.4, 0.3])
    np.testing.assert_allclose(expansion.gradient, X.T @ (y - p), rtol=1e-9)
    np.testing.assert_allclose(expansion.hessian, -(X.T * (p * (1 - p))) @ X * (order == 2), rtol=1e-9)
    assert step.decider.parts.prepared.passes == 1.0


@pytest.mark.slow
def test_a_glm_is_prepared_in_at_most_eight_passes():
    model, X, y = logistic(100_000)
    step = pma.PenaltyMH(model=model)
    assert step.decider.parts.prepared.passes <= 8
    # The centre is the mode to within a tenth of a posterior standard deviation.
    p = 1 / (1 + np.exp(-X @ step.decider.expansion.centre))
    gradient = X.T @ (y - p) - step.decider.expansion.centre
    curvature = (X.T * (p * (1 - p))) @ X + np.eye(3)
    assert gradient @ np.linalg.solve(curvature, gradient) < 0.1**2
