"""Taylor proxies: the remainder has the right order, the sums are those of all rows, and moves on them are exact."""

import math

import numpy as np
import pymc as pm
import pytensor
import pytest
from evidence import MAX_Z, moment_z
from pytensor.compile.mode import Mode
from scipy import stats
from zoo import SPLIT

import pymc_austerity as pma
from pymc_austerity.likelihood.layout import flatten
from pymc_austerity.likelihood.row_likelihood import row_likelihood
from pymc_austerity.proxy.expansion import row_remainder
from pymc_austerity.proxy.full_pass import FullPass, Sums, read_coordinates, summed
from pymc_austerity.rows.storage import Rows

N_ROWS = 4_000


def evaluate_as_written(inputs, graph):
    """Make a function of a graph by NumPy: to simplify it, or to compile C for a softmax, takes longer than its use."""
    with pytensor.config.change_flags(cxx=""):
        return pm.compile(inputs, graph, mode=Mode(linker="py", optimizer="merge"), on_unused_input="ignore")


def logistic(n_rows=N_ROWS, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    y = rng.random(n_rows) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2]))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=3)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model, X, y


@pytest.mark.parametrize(
    "name", ["negative binomial", "softmax", "ordered logistic", "Hilbert-space Gaussian process in two dimensions"]
)
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


def test_sums_over_all_rows_are_those_of_a_glm():
    model, X, y = logistic()
    likelihood, source, _ = row_likelihood(model)
    centre = np.array([0.9, -0.4, 0.3])
    sums = FullPass(likelihood, read_coordinates(likelihood))(centre, (), Rows(source.row_arrays()))
    p = 1 / (1 + np.exp(-X @ centre))
    np.testing.assert_allclose(sums.gradient, X.T @ (y - p), rtol=1e-9)
    np.testing.assert_allclose(sums.hessian, -(X.T * (p * (1 - p))) @ X, rtol=1e-9)
    np.testing.assert_allclose(sums.value, np.log(np.where(y, p, 1 - p)).sum(), rtol=1e-9)


def parts(values):
    return [Sums(float(v), np.array([v, -v]), np.array([[2 * v]])) for v in values]


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


def test_discrete_rows_have_no_proxy_to_ask_for():
    model = next(case for case in SPLIT if case.name == "a discrete switch").build()
    with model, pytest.raises(ValueError, match=r"\['on'\] is discrete.*leave out proxy="):
        pma.ApproxMH(proxy=pma.Taylor())


def test_parts_that_need_a_proxy_say_so():
    model, _, _ = logistic(100)
    with model:
        with pytest.raises(ValueError, match="moves on a surrogate.*Leave out proxy"):
            pma.ApproxMH(proxy=None, proposal=pma.SurrogateHMC())
        with pytest.raises(ValueError, match="a proxy leaves.*Leave out proxy"):
            pma.ApproxMH(proxy=None, rows=pma.Weighted())


@pytest.mark.slow
def test_on_all_rows_a_proxy_changes_no_decision():
    model, _, _ = logistic(300)
    walk, everything = pma.RandomWalk(scale=0.1), {"batch_size": 300, "rows": pma.Uniform()}

    def draws(step):
        with model:
            idata = pm.sample(
                200, tune=50, step=step(proposal=walk), chains=1, cores=1, random_seed=7, progressbar=False,
                compute_convergence_checks=False, initvals={"beta": np.array([1.0, -0.4, 0.1])},
            )  # fmt: skip
        return idata["posterior"]["beta"].to_numpy()

    exact = draws(lambda **kw: pma.ExactMH(proxy=None, **kw))
    assert len(np.unique(exact)) > 50
    for step in (
        lambda **kw: pma.ExactMH(proxy=pma.Taylor(), **kw),
        lambda **kw: pma.ApproxMH(epsilon=0.2, proxy=pma.Taylor(order=1), **everything, **kw),
        lambda **kw: pma.PenaltyMH(proxy=pma.Taylor(), **everything, **kw),
    ):
        np.testing.assert_array_equal(draws(step), exact)


def moments_of_normal_rows(values):
    """Mean and standard deviation of the mean and of the scale, by quadrature."""
    at, spread = np.linspace(-6, 6, 121), values.std() / np.sqrt(values.size)
    mu, sigma = values.mean() + spread * at, values.std() * np.exp(at / np.sqrt(2 * values.size))
    squares = values.size * (values.var() + (values.mean() - mu[:, None]) ** 2)
    density = stats.norm(0, 10).logpdf(mu)[:, None] + stats.halfnorm(scale=10).logpdf(sigma)
    # The last log is of the grid, which is even in the log of the scale.
    density = density - values.size * np.log(sigma) - squares / (2 * sigma**2) + np.log(sigma)
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    means = [mu @ weight.sum(axis=1), weight.sum(axis=0) @ sigma]
    squares = [(mu - means[0]) ** 2 @ weight.sum(axis=1), weight.sum(axis=0) @ (sigma - means[1]) ** 2]
    return list(zip(means, np.sqrt(squares)))


@pytest.mark.slow
def test_variables_of_other_steps_are_expanded_too():
    values = np.random.default_rng(8).normal(1.0, 2.0, size=3_000)
    with pm.Model():
        mu, sigma = pm.Normal("mu", 0, 10), pm.HalfNormal("sigma", 10)
        pm.Normal("y", mu, sigma, observed=values)
        step = pma.PenaltyMH([mu])
        idata = pm.sample(
            4_000, tune=300, step=[step, pm.Slice([sigma])], chains=2, cores=1, random_seed=9, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert step.decider.expansion.coordinates.tolist() == [0, 1]
    assert float(idata["sample_stats"]["n_rows"].mean()) < 300
    draws = [idata["posterior"][name].to_numpy() for name in ("mu", "sigma")]
    expected = moments_of_normal_rows(values)
    assert max(np.abs(moment_z(x, *of_x)).max() for x, of_x in zip(draws, expected, strict=True)) < MAX_Z
    # Negative control: the posterior of half of the rows.
    without = moments_of_normal_rows(values[:1_500])
    assert max(np.abs(moment_z(x, *of_x)).max() for x, of_x in zip(draws, without, strict=True)) > MAX_Z


def test_given_centre_costs_one_pass():
    model, X, y = logistic(2_000)
    with model:
        step = pma.ExactMH(proxy=pma.Taylor(order=1, centre={"beta": [0.9, -0.4, 0.3]}), rows=pma.Uniform())
    expansion = step.decider.expansion
    p = 1 / (1 + np.exp(-X @ [0.9, -0.4, 0.3]))
    np.testing.assert_array_equal(expansion.centre, [0.9, -0.4, 0.3])
    np.testing.assert_allclose(expansion.gradient, X.T @ (y - p), rtol=1e-9)
    assert not expansion.hessian.any()
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
