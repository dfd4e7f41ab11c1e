"""Two dependent numbers a group: `GroupMH` on all rows against draws of the prior, weighted by the likelihood.

Scales that few rows inform leave tails in which second moments converge slowly, so what is compared is bounded.
"""

import numpy as np
import pymc as pm
import pytest
from evidence import MAX_Z, mean_z
from scipy.special import log_expit

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import as_dataset, group

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(8)
INDEX = np.repeat(np.arange(3), [4, 9, 14])
X = RNG.normal(size=INDEX.size)
Y = (RNG.random(INDEX.size) < 1 / (1 + np.exp(-np.array([1.0, -0.5, 0.8])[INDEX] * (1 + X)))).astype(int)
DESIGN = np.column_stack([np.ones(INDEX.size), X])
WEIGHTED_DRAWS, PARTS = 500_000, 4


def quantities(first, second, coefficient, slope, level):
    """Bounded functions of the parameters, which between them see location, scale and dependence."""
    signed = [coefficient, *np.moveaxis(slope, -1, 0), *np.moveaxis(level, -1, 0)]
    together = [np.tanh(a) * np.tanh(b) for a, b in zip(np.moveaxis(slope, -1, 0), np.moveaxis(level, -1, 0))]
    spreads = [np.exp(-first), np.exp(-second), *(np.tanh(x) ** 2 for x in signed)]
    return [*map(np.tanh, signed), *spreads, *together]


def expected():
    """Their means by importance sampling from the prior, with Monte Carlo errors from several parts."""
    means = []
    for part in range(PARTS):
        rng = np.random.default_rng([8, part])
        first, second = np.abs(rng.normal(size=(2, WEIGHTED_DRAWS)))
        coefficient = rng.normal(size=WEIGHTED_DRAWS)
        slope = first[:, None] * rng.normal(size=(WEIGHTED_DRAWS, 3))
        level = coefficient[:, None] * slope + second[:, None] * rng.normal(size=(WEIGHTED_DRAWS, 3))
        log_weight = np.zeros(WEIGHTED_DRAWS)
        for x, y, g in zip(X, Y, INDEX):
            log_weight += log_expit((2 * y - 1) * (slope[:, g] + x * level[:, g]))
        weight = np.exp(log_weight - log_weight.max())
        means.append([weight @ f / weight.sum() for f in quantities(first, second, coefficient, slope, level)])
    return np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / np.sqrt(PARTS)


@pytest.fixture(scope="module")
def case():
    """A model whose weight, where it is one, counts the prior of one of the two numbers once more."""
    with pm.Model() as model:
        first, second = pm.HalfNormal("first", 1), pm.HalfNormal("second", 1)
        coefficient = pm.Normal("coefficient")
        slope = pm.Normal("slope", 0, first, shape=3)
        level = pm.Normal("level", coefficient * slope, second, shape=3)
        again = pm.logp(pm.Normal.dist(0, first), slope)
        pm.Potential("again", pm.Data("weight", 0.0) * again)
        design = pm.Data("design", DESIGN)
        logit_p = design[:, 0] * slope[INDEX] + design[:, 1] * level[INDEX]
        pm.Bernoulli("y", logit_p=logit_p, observed=pm.Data("labels", Y.astype(float)))
        return model, pma.GroupMH(test=pma.Exact(), rng=1, progressbar=False), expected()


def largest_z(case, weight):
    model, step, (means, errors) = case
    with model:
        pm.set_data({"weight": weight})
        idata = pm.sample(
            5_000, tune=600, step=step, chains=2, cores=1, random_seed=3, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    posterior = as_dataset(group(idata, "posterior"))
    draws = quantities(*(posterior[name].to_numpy() for name in ("first", "second", "coefficient", "slope", "level")))
    return max(abs(mean_z(x, mean, error)) for x, mean, error in zip(draws, means, errors, strict=True))


def test_draws_have_the_law_of_the_posterior(case):
    assert largest_z(case, 0.0) < MAX_Z


def test_a_prior_that_counts_twice_is_seen(case):
    # A quarter of it: counted twice in full, the law of the scale has no integral at zero.
    assert largest_z(case, 0.25) > MAX_Z
