"""Bounds by cones of like directions: no row leaves more, decisions are exact, and fewer rows are read."""

import numpy as np
import pymc as pm
import pytest
from evidence import LEVEL, MAX_Z, moment_z, multinomial_p
from numba import njit
from scipy.special import expit, log_expit
from toy import sampled

import pymc_austerity as pma
from pymc_austerity.bounds import RemainderBounds, bound_cones
from pymc_austerity.bounds.bound_cones import distances_of_cones, rows_in_cones
from pymc_austerity.bounds.whitened_bound import Whitened, typical_span
from pymc_austerity.compile.addresses import NOWHERE
from pymc_austerity.diagnostics.spot_check import evaluate_pair
from pymc_austerity.likelihood import Links, Place, read_model
from pymc_austerity.rows.by_cones import RowsByCones, cone_table

N, SIZE, RADIUS = 600, 8, 7.0
RNG = np.random.default_rng(11)
# Rows of indicators: each is near to few others, which is where one bound for all directions loses most.
X = (RNG.random((N, SIZE)) < 0.25) + 0.05 * RNG.normal(size=(N, SIZE))
LABELS = (RNG.random(N) < expit(X[:, 0] - X[:, 1])).astype(int)


@pytest.fixture(autouse=True)
def _whatever_it_costs(monkeypatch):
    monkeypatch.setattr(bound_cones, "_LEAST_SAVED", -N)


def logistic():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=SIZE)
        pm.Bernoulli("y", logit_p=X @ beta, observed=LABELS)
    return model


class Expanded:
    """Remainders of the rows about a centre, by their formula, and cones for them."""

    def __init__(self, order):
        model = logistic()
        data = read_model(model, model.value_vars, None, None)
        self.order, self.centre = order, 0.3 * np.random.default_rng(1).normal(size=SIZE)
        p = expit(X @ self.centre)
        self.factor = np.linalg.cholesky(np.linalg.inv((X * (p * (1 - p))[:, None]).T @ X + np.eye(SIZE)))
        find = RemainderBounds(data.likelihood, order)
        self.bounds = find(self.centre, self.factor, RADIUS, data.fixed, data.rows)
        whitened = Whitened(np.arange(SIZE), np.linalg.inv(self.factor), RADIUS, order + 1, 1 + 1e-9)
        found = rows_in_cones(
            self.bounds,
            lambda rows: find.directions(self.centre, self.factor, data.fixed, rows),
            data.rows,
            whitened,
            typical_span(SIZE, order),
        )
        self.whitened, self.table = found

    def remainders(self, z):
        eta, h = X @ self.centre, X @ self.factor @ z
        p = expit(eta)
        v = p * (1 - p)
        q = h * (LABELS - p) - h**2 / 2 * v - (h**3 / 6 * v * (1 - 2 * p) if self.order == 3 else 0.0)
        change = np.where(LABELS == 1, log_expit(eta + h) - log_expit(eta), log_expit(-eta - h) - log_expit(-eta))
        return q - change

    def limits(self, z_new, z, whitened=None):
        theta_new, theta = self.centre + self.factor @ z_new, self.centre + self.factor @ z
        at = Place(Links(), theta_new, theta, np.empty(0), self.centre, NOWHERE, NOWHERE)
        spans, read = distances_of_cones((whitened or self.whitened,), at)
        assert read == 0
        everything = np.arange(N)
        return RowsByCones(self.table).limits(self.table, spans, everything), spans


@pytest.fixture(params=[2, 3])
def expanded(request):
    return Expanded(request.param)


def pairs(n=200):
    """Pairs of points within the radius, and such as lie along a row, where its bound is closest."""
    rng = np.random.default_rng(2)
    z = rng.normal(size=(n, 2, SIZE))
    z[::4] *= 6.0 / np.linalg.norm(z[::4], axis=-1, keepdims=True)
    return z


def test_bounds_by_cones_hold_and_are_closer(expanded):
    drawn, power = expanded.table.size > 0, expanded.order + 1
    wrong = expanded.whitened._replace(off=0 * expanded.whitened.off)  # planted: without the distances in a cone
    limits, plain, broken = [], [], 0
    for new, old in pairs():
        delta = np.abs(expanded.remainders(new) - expanded.remainders(old))[drawn]
        limit = expanded.limits(new, old)[0][drawn]
        assert (delta <= limit + 1e-14).all()
        broken += (delta > expanded.limits(new, old, wrong)[0][drawn] + 1e-14).sum()
        limits.append(limit.sum())
        span = np.linalg.norm(new) ** power + np.linalg.norm(old) ** power
        plain.append((expanded.bounds * span)[drawn].sum())
    assert np.mean(limits) < 0.5 * np.mean(plain)
    assert broken > 0
    np.testing.assert_array_equal(expanded.limits(new, old)[1], expanded.limits(old, new)[1])
    outside = old * 1.01 * RADIUS / np.linalg.norm(old)
    for z in ((outside, new), (new, outside)):
        spans = expanded.limits(*z)[1]
        assert np.isinf(spans).all()
        assert np.isinf(RowsByCones(expanded.table).rate(expanded.table, spans))


@njit
def chosen(choose, rng, table, spans, n):
    return choose(rng, table, spans, 0, n)


def test_rows_come_in_proportion_to_their_bounds():
    rng = np.random.default_rng(3)
    bounds, cone, spans = rng.gamma(0.5, size=30), np.repeat([2, 0, 1], 10), np.array([1.0, 0.0, 3.0])
    always = np.array([4, 12])
    table = cone_table(bounds, cone, always)
    source = RowsByCones(table)
    limits = source.limits(table, spans, np.arange(30))
    assert source.rate(table, spans) == pytest.approx(limits.sum(), rel=1e-9)
    assert (limits >= np.where(np.isin(np.arange(30), always), 0.0, bounds * spans[cone]) * (1 - 1e-15)).all()
    assert limits[always].tolist() == [0.0, 0.0]
    counts = np.bincount(chosen(source.choose, np.random.default_rng(4), table, spans, 100_000), minlength=30)
    possible = limits > 0
    assert not counts[~possible].any()
    assert multinomial_p(counts[possible], limits[possible] / limits.sum()) > LEVEL
    wrong = bounds[possible] / bounds[possible].sum()  # planted mistake: cones all alike
    assert multinomial_p(counts[possible], wrong) < LEVEL


def moments():
    """Means and standard deviations of the posterior, by importance sampling from a wider normal law at its mode."""
    centre = np.zeros(SIZE)
    for _ in range(20):
        p = expit(X @ centre)
        precision = (X * (p * (1 - p))[:, None]).T @ X + np.eye(SIZE)
        centre += np.linalg.solve(precision, X.T @ (LABELS - p) - centre)
    z = np.random.default_rng(7).standard_normal((40_000, SIZE))
    draws = centre + 1.15 * z @ np.linalg.inv(np.linalg.cholesky(precision))
    log_density = log_expit(np.where(LABELS == 1, 1, -1) * (draws @ X.T)).sum(axis=1) - (draws**2).sum(axis=1) / 2
    weight = np.exp(log_density + (z**2).sum(axis=1) / 2 - log_density.max())
    weight /= weight.sum()
    mean = weight @ draws
    return mean, np.sqrt(weight @ (draws - mean) ** 2)


@pytest.mark.slow
def test_a_chain_by_cones_has_its_posterior():
    model = logistic()
    step = pma.MHSS(order=2, model=model)
    idata = sampled(model, step, 4_000, tune=100, seed=5, chains=1, quiet=True)
    table = step.decider.bound_constants[1]
    assert isinstance(table.source(), RowsByCones)
    read = idata.sample_stats["n_rows"].to_numpy()
    assert abs(read.mean() / step.predicted_rows - 1) < 0.15
    for k, (mean, sd) in enumerate(zip(*moments(), strict=True)):
        assert np.abs(moment_z(idata.posterior["beta"].to_numpy()[..., k], mean, sd)).max() < MAX_Z
    decider, rng = step.decider, np.random.default_rng(6)
    for theta in idata.posterior["beta"].to_numpy()[0, ::50]:
        pair = evaluate_pair(decider, decider.propose(theta, np.empty(0), step.chain.state, rng))
        limits = table.source().limits(table, pair.bound, np.arange(N))
        drawn = table.size > 0
        assert (np.abs(pair.terms)[drawn] <= limits[drawn]).all()
