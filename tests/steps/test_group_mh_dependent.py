"""Two correlated numbers a group, their covariance unknown: `GroupMH` on all rows against an integral on a grid."""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, moment_z
from scipy.special import log_expit

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import as_dataset, group

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(8)
INDEX = np.repeat(np.arange(3), [4, 9, 14])
X = RNG.normal(size=INDEX.size)
Y = (RNG.random(INDEX.size) < 1 / (1 + np.exp(-np.array([1.0, -0.5, 0.8])[INDEX] * (1 + X)))).astype(int)
ETA = 2.0
#: Middles of the cells of the scales and the correlation, and nodes for standard normal variables.
SCALE, CORRELATION = (np.arange(20) + 0.5) / 5, (np.arange(14) + 0.5) / 7 - 1
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def _expected():
    """Means and standard deviations of the scales, the correlation, and the effects of each group."""
    z = np.stack(np.meshgrid(NODES, NODES, indexing="ij"), -1).reshape(-1, 2)
    node = np.outer(WEIGHTS, WEIGHTS).ravel() / WEIGHTS.sum() ** 2
    first, second, rho = (a.ravel() for a in np.meshgrid(SCALE, SCALE, CORRELATION, indexing="ij"))
    density = np.exp(-0.5 * (first**2 + second**2)) * (1 - rho**2) ** (ETA - 1)
    u = np.stack(
        [np.outer(first, z[:, 0]), second[:, None] * (np.outer(rho, z[:, 0]) + np.outer(np.sqrt(1 - rho**2), z[:, 1]))]
    )
    integrals, powers = [], []
    for g in range(3):
        total = np.zeros(u.shape[1:])
        for x, y in zip(X[g == INDEX], Y[g == INDEX]):
            total += log_expit((2 * y - 1) * (u[0] + x * u[1]))
        likelihood = np.exp(total) * node
        integrals.append(likelihood.sum(axis=1))
        powers += [(likelihood * u[k] ** power).sum(axis=1) / integrals[g] for k in (0, 1) for power in (1, 2)]
    weight = density * np.prod(integrals, axis=0)
    weight /= weight.sum()
    pairs = [(first, first**2), (second, second**2), (rho, rho**2), *zip(powers[::2], powers[1::2])]
    means = np.array([weight @ mean for mean, _ in pairs])
    return means, np.sqrt(np.array([weight @ square for _, square in pairs]) - means**2)


@pytest.fixture(scope="module")
def case():
    """The weight counts the density of the effects once more where it is one."""
    with pm.Model() as model:
        sd = pm.HalfNormal.dist(1, size=2)
        cholesky, _, _ = pm.LKJCholeskyCov("cholesky", n=2, eta=ETA, sd_dist=sd, compute_corr=True)
        effect = pm.MvNormal("effect", np.zeros(2), chol=cholesky, shape=(3, 2))
        again = pm.logp(pm.MvNormal.dist(np.zeros(2), chol=cholesky), effect)
        pm.Potential("again", pm.Data("weight", 0.0) * again)
        pm.Bernoulli("y", logit_p=effect[INDEX, 0] + X * effect[INDEX, 1], observed=Y)
        return model, pma.GroupMH(test=pma.Exact(), rng=1, progressbar=False)


def _largest_z(case, weight):
    model, step = case
    with model:
        pm.set_data({"weight": weight})
        idata = pm.sample(
            5_000, tune=600, step=step, chains=2, cores=1, random_seed=3, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    posterior = as_dataset(group(idata, "posterior"))
    scales, correlation = posterior["cholesky_stds"].to_numpy(), posterior["cholesky_corr"].to_numpy()[..., 0, 1]
    effects = posterior["effect"].to_numpy()
    effects = np.moveaxis(effects.reshape(*effects.shape[:2], 6), -1, 0)
    draws = [scales[..., 0], scales[..., 1], correlation, *effects]
    return max(np.abs(moment_z(x, mean, sd)).max() for x, mean, sd in zip(draws, *_expected()))


def test_draws_have_the_moments_of_the_integral(case):
    assert _largest_z(case, 0.0) < MAX_Z


def test_a_prior_of_the_effects_that_counts_twice_is_seen(case):
    assert _largest_z(case, 1.0) > MAX_Z
