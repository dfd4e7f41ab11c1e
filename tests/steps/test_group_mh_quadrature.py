"""A funnel and correlated effects: `GroupMH` on all rows against quadrature."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, mean_z
from numpy.polynomial.legendre import leggauss
from scipy import stats
from scipy.special import expit

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import as_dataset, group

pytestmark = pytest.mark.slow

# The rows are of the types of those in other files about groups, and the moves compiled for one serve the other.


def draws_of(model, step, names, **data):
    """Return the posterior of some variables in a run that decides on all rows."""
    with model:
        pm.set_data(data)
        idata = pm.sample(
            6_000, tune=600, step=step, chains=2, cores=1, var_names=names, random_seed=4, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    return as_dataset(group(idata, "posterior"))


def exact(model):
    with model:
        return pma.GroupMH(test=pma.Exact(), rng=1, progressbar=False)


# A funnel: the log scale is known to within a factor of five, and three of the five groups have two rows each.

LABELS = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
WIDTH, T = 1.5, np.linspace(-8, 7, 301)
#: Close together: far up the funnel the rows are steps in z.
Z = np.linspace(-7, 7, 4_001)
Z_WEIGHT = stats.norm.pdf(Z) / stats.norm.pdf(Z).sum()


def funnel_quantities(t, effects):
    """Functions of the log scale and of effects, the last of which stands for the groups without rows."""
    return [t, t**2, *(np.tanh(e) for e in effects), *(np.tanh(e) ** 2 for e in effects)]


@cache
def funnel_expected():
    effect = np.exp(T)[:, None] * Z
    of_row = {0: expit(-effect), 1: expit(effect)}
    likelihoods = [np.prod([of_row[y] for y in labels], axis=0) for labels in LABELS] + [np.ones_like(effect)]
    weight = stats.norm.pdf(T, 0, WIDTH) * np.prod([of @ Z_WEIGHT for of in likelihoods], axis=0)
    weight /= weight.sum()
    found = [weight @ T, weight @ T**2]
    for power in (1, 2):
        found += [weight @ (((of * np.tanh(effect) ** power) @ Z_WEIGHT) / (of @ Z_WEIGHT)) for of in likelihoods]
    return found


@pytest.fixture(scope="module")
def funnel():
    """Its model, in which a weight, where it is one, counts the prior of the effects once more."""
    with pm.Model() as model:
        t = pm.Normal("t", 0, WIDTH)
        effect = pm.Normal("effect", 0, pm.math.exp(t), shape=5)
        pm.Potential("again", pm.Data("weight", 0.0) * pm.logp(pm.Normal.dist(0, pm.math.exp(t)), effect))
        pm.Bernoulli(
            "y", logit_p=effect[np.repeat(np.arange(3), 2)], observed=pm.Data("labels", LABELS.ravel().astype(float))
        )
    return model, exact(model)


def funnel_z(case, weight):
    posterior = draws_of(*case, ["t", "effect"], weight=weight)
    effects = np.moveaxis(posterior["effect"].to_numpy(), -1, 0)[:4]
    found = funnel_quantities(posterior["t"].to_numpy(), effects)
    return max(abs(mean_z(x, mean, 0.0)) for x, mean in zip(found, funnel_expected(), strict=True))


def test_a_funnel_is_sampled_to_its_end(funnel):
    assert funnel_z(funnel, 0.0) < MAX_Z


def test_a_prior_that_counts_more_than_once_is_seen_in_a_funnel(funnel):
    assert funnel_z(funnel, 0.25) > MAX_Z


# Intercepts and slopes of eight groups with an LKJ prior, and rows with known noise: only scales and their correlation
# are left to integrate over.

RNG = np.random.default_rng(12)
INDEX = np.repeat(np.arange(8), np.arange(4, 12))
X = np.column_stack([np.ones(INDEX.size), RNG.normal(size=INDEX.size)])
EFFECTS = RNG.multivariate_normal([0, 0], [[1.0, 0.8], [0.8, 1.5]], size=8)
Y = (X * EFFECTS[INDEX]).sum(axis=1) + RNG.normal(size=INDEX.size)


def correlated_quantities(first, second, correlation):
    return [np.exp(-first), np.exp(-second), correlation, correlation**2, np.exp(-first) * correlation]


@cache
def correlated_expected():
    """By Gauss-Legendre in the scales, mapped to the unit interval by their exponential prior, and the correlation."""
    u, w = leggauss(24)  # seven digits
    p, w_p = (u + 1) / 2, w / 2
    scale = -np.log1p(-p)  # a unit exponential
    first, second, correlation = (a.ravel() for a in np.meshgrid(scale, scale, u, indexing="ij"))
    weight = np.einsum("i,j,k->ijk", w_p, w_p, w * (1 - u**2)).ravel()  # LKJ of two with eta = 2
    covariance = np.empty((first.size, 2, 2))
    covariance[:, 0, 0], covariance[:, 1, 1] = first**2, second**2
    covariance[:, 0, 1] = covariance[:, 1, 0] = first * second * correlation
    for g in range(8):
        own, y = X[g == INDEX], Y[g == INDEX]
        of_rows = np.eye(len(y)) + own @ covariance @ own.T
        solved = np.linalg.solve(of_rows, np.broadcast_to(y, (first.size, len(y)))[..., None])[..., 0]
        weight = weight * np.exp(-0.5 * (np.linalg.slogdet(of_rows)[1] + solved @ y))
    weight /= weight.sum()
    return [weight @ f for f in correlated_quantities(first, second, correlation)]


@pytest.fixture(scope="module")
def correlated():
    """Their model; the weight counts the prior of the correlation more often."""
    with pm.Model() as model:
        scales, start = pm.Exponential.dist(1.0, shape=2), np.array([1.0, 0.0, 1.0])  # PyMC's, without a Scan in C
        cholesky, _, _ = pm.LKJCholeskyCov("cov", n=2, eta=2, sd_dist=scales, initval=start)
        effect = pm.MvNormal("effect", np.zeros(2), chol=cholesky, shape=(8, 2))
        apart = cholesky[1, 1] ** 2 / (cholesky[1, 0] ** 2 + cholesky[1, 1] ** 2)  # one less the squared correlation
        pm.Potential("again", pm.Data("weight", 0.0) * pm.math.log(apart))
        pm.Normal("y", (X * effect[INDEX]).sum(axis=1), 1, observed=pm.Data("outcome", Y))
    return model, exact(model)


def correlated_z(case, weight):
    posterior = draws_of(*case, ["cov"], weight=weight, outcome=Y)
    first, below, beside = np.moveaxis(posterior["cov"].to_numpy(), -1, 0)  # the rows of the Cholesky factor
    second = np.hypot(below, beside)
    found = correlated_quantities(first, second, below / second)
    return max(abs(mean_z(x, mean, 0.0)) for x, mean in zip(found, correlated_expected(), strict=True))


def test_correlated_effects_have_the_law_of_the_posterior(correlated):
    assert correlated_z(correlated, 0.0) < MAX_Z


def test_a_prior_of_the_correlation_that_counts_twice_is_seen(correlated):
    assert correlated_z(correlated, 4.0) > MAX_Z


def test_a_chain_starts_where_there_is_density(correlated):
    model, step = correlated
    with model:
        pm.set_data({"outcome": 0.1 * Y, "weight": 0.0})
    step.start_chain(np.random.default_rng(0))  # learns from these
    assert np.sqrt(np.diag(step.decider.prepared.factor @ step.decider.prepared.factor.T)).max() > 2
    log_prior = step.decider.model.density.log_prior
    for seed in range(30):
        theta = step.decider.start(np.random.default_rng(seed))
        assert np.isfinite(log_prior(theta, step.decider.others, *step.decider.fixed)[0])
