"""Models with effects of groups: made-up rows, and eight schools."""

from __future__ import annotations

from functools import partial

import numpy as np
import pymc as pm
from problems import Arrays, Problem, Rows, total, whole

_SLOPES = np.array([0.5, -0.3, 0.2, 0.0, 0.4])


def sizes(n: int, n_groups: int, seed: int) -> tuple[np.random.Generator, np.ndarray]:
    """Return a generator and the group of every row, the sizes of the groups log-normal."""
    rng = np.random.default_rng(seed)
    share = rng.lognormal(0, 1, n_groups)
    return rng, rng.choice(n_groups, n, p=share / share.sum())


def grouped_rows(n: int, n_groups: int) -> Arrays:
    """Draw covariates, labels, and the group of every row."""
    rng, g = sizes(n, n_groups, 17)
    X, effects = rng.normal(size=(n, 5)), rng.normal(-0.5, 0.7, n_groups)
    return X, (rng.random(n) < 1 / (1 + np.exp(-(effects[g] + X @ _SLOPES)))).astype(np.int8), g


def latent_rows(n: int, n_groups: int) -> Arrays:
    """Draw covariates, counts that vary more than Poisson's, and the group of every row: itself where there are n."""
    rng = np.random.default_rng(19)
    X, g = rng.normal(size=(n, 2)), np.arange(n) % n_groups
    eta = rng.normal(1.0, 0.7, n_groups)[g] + X @ np.array([0.5, -0.3])
    return X, rng.poisson(np.exp(eta)), g


def hierarchical(arrays: Arrays, rows: Rows = whole, counts: bool = False) -> pm.Model:
    """Logistic or Poisson regression with an effect for every group, whose mean and scale are unknown."""
    with pm.Model() as model:
        X, y, g = rows(*arrays)
        intercept, log_scale = pm.Normal("intercept", 0, 2), pm.Normal("log_scale", 0, 1)
        slopes = pm.Normal("slopes", 0, 1, shape=arrays[0].shape[1])
        effect = pm.Normal("effect", intercept, pm.math.exp(log_scale), shape=int(arrays[2].max()) + 1)
        eta = effect[g] + pm.math.dot(X, slopes)
        law = {"observed": y, "total_size": total(arrays, rows)}
        if counts:
            pm.Poisson("y", pm.math.exp(eta), **law)
        else:
            pm.Bernoulli("y", logit_p=eta, **law)
    return model


def schools_rows() -> Arrays:
    """Return effects of coaching in eight schools, their standard errors, and the numbers of the schools."""
    effects, errors = [28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18]
    return np.array(effects, float), np.array(errors, float), np.arange(8)


def schools(arrays: Arrays, rows: Rows = whole, centred: bool = True) -> pm.Model:
    """Eight schools: a funnel where centred, as one first writes it, and none in the other way."""
    with pm.Model() as model:
        y, error, g = rows(*arrays)
        mean, scale = pm.Normal("mean", 0, 5), pm.HalfCauchy("scale", 5)
        if centred:
            effect = pm.Normal("effect", mean, scale, shape=8)
        else:
            effect = pm.Deterministic("effect", mean + scale * pm.Normal("z", 0, 1, shape=8))
        pm.Normal("y", effect[g], error, observed=y, total_size=total(arrays, rows))
    return model


def groups(n_rows: int, n_groups: int) -> Problem:
    """Return a logistic regression with five slopes and groups of very unequal size."""
    return Problem(partial(grouped_rows, n_rows, n_groups), hierarchical)
