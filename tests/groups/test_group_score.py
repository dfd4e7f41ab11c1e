"""The slope of the marginal of what groups share, against integrals on a grid."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import log_expit, logsumexp
from scipy.stats import norm

from pymc_austerity.groups import Conditional, GroupModel, find_groups
from pymc_austerity.groups.group_preparation import sort_by_group
from pymc_austerity.groups.group_score import quadrature, shift_to_mode
from pymc_austerity.likelihood import read_model

RNG = np.random.default_rng(12)
#: A group without rows, one with a single row, and all rows of one group alike.
INDEX = RNG.permutation(np.repeat(np.arange(5), [0, 1, 6, 12, 15]))
X = RNG.normal(size=INDEX.size)
Y = np.where(INDEX == 3, 1, RNG.integers(0, 2, size=INDEX.size))
#: An odd number of points, so that effects of zero are among them.
GRID = np.linspace(-12, 12, 801)
AT = np.array([0.4, -0.2])


def _one():
    mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
    effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=5)
    pm.Bernoulli("y", logit_p=effect[INDEX], observed=Y)


def _two():
    mean, log_scale = pm.Normal("mean"), pm.Normal("log_scale", -0.3, 0.7)
    effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=(5, 2))
    pm.Bernoulli("y", logit_p=effect[INDEX, 0] + X * effect[INDEX, 1], observed=Y)


MODELS = {1: _one, 2: _two}
SIZES = [1, pytest.param(2, marks=pytest.mark.slow)]


def _log_marginal(size, phi):
    """By a sum over a grid of the effects of each group."""
    points = np.stack(np.meshgrid(*[GRID[:: 4 * size - 3]] * size, indexing="ij"), -1).reshape(-1, size)
    prior = norm.logpdf(points, phi[0], np.exp(phi[1])).sum(axis=1)
    total = norm.logpdf(phi[0]) + norm.logpdf(phi[1], -0.3, 0.7)
    for g in range(5):
        x, sign = X[g == INDEX], 2 * Y[g == INDEX] - 1
        eta = points[:, :1] + (x * points[:, 1:] if size == 2 else 0 * x)
        total += logsumexp(prior + log_expit(sign * eta).sum(axis=1))
    return total


def _slope(size, phi):
    steps = 1e-3 * np.eye(2)
    return np.array([(_log_marginal(size, phi + h) - _log_marginal(size, phi - h)) / 2e-3 for h in steps])


@pytest.fixture(scope="module", params=SIZES)
def case(request):
    with pm.Model() as model:
        MODELS[request.param]()
    data = read_model(model, model.value_vars, None, None)
    groups = find_groups(model, data)
    compiled = GroupModel(data.likelihood, groups, False, None)
    rows, member, _ = sort_by_group(groups, data.rows)
    theta = data.theta0.copy()
    theta[groups.shared] = AT
    e = compiled.group_pass(theta, data.others0, data.fixed, rows, member)
    return request.param, compiled.score, compiled.condition, (data, e, rows, member)


def test_slope_is_that_of_the_integral(case):
    size, score, condition, (data, e, rows, member) = case
    given = Conditional(*condition(e.centre, data.others0, data.fixed, e))
    exact = _slope(size, AT)
    # Seven nodes an axis, and five: hundredths of a posterior standard deviation.
    assert score(e.centre, given, data, e, rows, member) == pytest.approx(exact, abs=0.01 if size == 1 else 0.1)
    other = member._replace(of_rows=np.minimum(member.of_rows + 1, 4))  # the rows of a group for those of the next
    assert np.abs(score(e.centre, given, data, e, rows, other) - exact).max() > 0.2


def test_search_ends_where_the_slope_is_zero(case):
    size, score, condition, (data, e, rows, member) = case
    factor = np.diag([0.5, 0.4])
    found = shift_to_mode(score, condition, AT, factor, data, e, rows, member)
    assert 1 < found.evaluations <= 4
    before, after = (np.linalg.norm(factor @ _slope(size, phi)) for phi in (AT, found.mean))
    assert after < 0.12 < before


@pytest.mark.parametrize("size", range(1, 61))
def test_nodes_have_the_moments_of_normal_variables(size):
    nodes, log_weights = quadrature(size)
    weights = np.exp(log_weights)
    assert weights.sum() == pytest.approx(1)
    assert weights @ nodes == pytest.approx(np.zeros(size), abs=1e-12)
    assert (nodes.T * weights) @ nodes == pytest.approx(np.eye(size), abs=1e-12)
    third = np.einsum("m,mi,mj,mk->ijk", weights, nodes, nodes, nodes)
    assert third == pytest.approx(np.zeros(third.shape), abs=1e-12)
