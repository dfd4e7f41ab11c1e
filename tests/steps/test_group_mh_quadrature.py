"""Correlated effects: `GroupMH` on all rows against quadrature."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, mean_z
from numpy.polynomial.legendre import leggauss
from toy import sampled

import pymc_austerity as pma

pytestmark = pytest.mark.slow

# The rows are of the types of those in other files about groups, and the moves compiled for one serve the other.


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
    return model, pma.GroupMH(test=pma.Exact(), model=model, rng=1, progressbar=False)


def correlated_z(case, weight):
    pm.set_data({"weight": weight, "outcome": Y}, model=case[0])
    posterior = sampled(*case, 6_000, tune=600).posterior
    first, below, beside = np.moveaxis(posterior["cov"].to_numpy(), -1, 0)  # the rows of the Cholesky factor
    second = np.hypot(below, beside)
    found = correlated_quantities(first, second, below / second)
    return max(abs(mean_z(x, mean, 0.0)) for x, mean in zip(found, correlated_expected(), strict=True))


def test_correlated_effects_have_the_law_of_the_posterior(correlated):
    assert correlated_z(correlated, 0.0) < MAX_Z


def test_a_prior_of_the_correlation_that_counts_twice_is_seen(correlated):
    assert correlated_z(correlated, 4.0) > MAX_Z
