"""The models of ``benchmarks/choices.py``: data, and a model of all their rows or of a minibatch of them.

Nothing of this is imported by what is timed before it is timed, so PyMC is imported where a model is built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]
#: All rows as they are, or a minibatch of them.
Rows = Callable[..., Any]


def whole(*arrays: np.ndarray) -> Arrays:
    """Return all rows."""
    return arrays


def logistic_rows(n: int, d: int) -> Arrays:
    """Make a table and labels."""
    from kernel import logistic_data

    return logistic_data(n, d, float)


def logistic(arrays: Arrays, rows: Rows) -> Any:
    """Logistic regression."""
    import pymc as pm

    with pm.Model() as model:
        X, y = rows(*arrays)
        eta = pm.math.dot(X, pm.Normal("beta", 0, 1, shape=arrays[0].shape[1]))
        pm.Bernoulli("y", logit_p=eta, observed=y, total_size=_total(arrays, rows))
    return model


def counted_rows(n: int, d: int) -> Arrays:
    """Make a table and counts."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d))
    return X, rng.poisson(np.exp(X @ np.full(d, 0.2)))


def poisson(arrays: Arrays, rows: Rows) -> Any:
    """Poisson regression."""
    import pymc as pm

    with pm.Model() as model:
        X, y = rows(*arrays)
        eta = pm.math.dot(X, pm.Normal("beta", 0, 1, shape=arrays[0].shape[1]))
        pm.Poisson("y", pm.math.exp(eta), observed=y, total_size=_total(arrays, rows))
    return model


def flights_rows() -> Arrays:
    """Read standardised covariates and delays."""
    from problems import flight_rows

    return flight_rows()


def student(arrays: Arrays, rows: Rows) -> Any:
    """Linear regression with Student errors, unknown scale and degrees of freedom."""
    import pymc as pm

    with pm.Model() as model:
        X, y = rows(*arrays)
        beta, sigma = pm.Normal("beta", 0, 1, shape=arrays[0].shape[1]), pm.HalfNormal("sigma", 1)
        law = {"nu": pm.Gamma("nu", 2, 0.1), "mu": pm.math.dot(X, beta), "sigma": sigma}
        pm.StudentT("y", **law, observed=y, total_size=_total(arrays, rows))
    return model


def grouped_rows(n: int, n_groups: int) -> Arrays:
    """Make a table, labels, and the group of every row, of very unequal sizes."""
    rng = np.random.default_rng(17)
    share = rng.lognormal(0, 1, n_groups)
    g = rng.choice(n_groups, n, p=share / share.sum())
    X, effects = rng.normal(size=(n, 5)), rng.normal(-0.5, 0.7, n_groups)
    eta = effects[g] + X @ np.array([0.5, -0.3, 0.2, 0.0, 0.4])
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(np.int8), g


def hierarchical(arrays: Arrays, rows: Rows) -> Any:
    """Logistic regression with an effect for every group, whose mean and scale are unknown."""
    import pymc as pm

    with pm.Model() as model:
        X, y, g = rows(*arrays)
        eta = _effects(int(arrays[2].max()) + 1)[g] + X @ pm.Normal("slopes", 0, 1, shape=arrays[0].shape[1])
        pm.Bernoulli("y", logit_p=eta, observed=y, total_size=_total(arrays, rows))
    return model


def latent_rows(n: int, n_groups: int) -> Arrays:
    """Make a table, counts that vary more than Poisson's, and the group of every row: itself where there are n."""
    rng = np.random.default_rng(19)
    X, g = rng.normal(size=(n, 2)), np.arange(n) % n_groups
    eta = rng.normal(1.0, 0.7, n_groups)[g] + X @ np.array([0.5, -0.3])
    return X, rng.poisson(np.exp(eta)), g


def counts_of_groups(arrays: Arrays, rows: Rows) -> Any:
    """Poisson regression with an effect for every group, whose mean and scale are unknown."""
    import pymc as pm

    with pm.Model() as model:
        X, y, g = rows(*arrays)
        eta = _effects(int(arrays[2].max()) + 1)[g] + X @ pm.Normal("slopes", 0, 1, shape=arrays[0].shape[1])
        pm.Poisson("y", pm.math.exp(eta), observed=y, total_size=_total(arrays, rows))
    return model


def schools_rows() -> Arrays:
    """Return effects of coaching in eight schools, their standard errors, and the numbers of the schools."""
    effects, errors = [28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18]
    return np.array(effects, float), np.array(errors, float), np.arange(8)


def schools(arrays: Arrays, rows: Rows, centred: bool = True) -> Any:
    """Eight schools: a funnel where centred, as one first writes it, and none in the other way."""
    import pymc as pm

    with pm.Model() as model:
        y, error, g = rows(*arrays)
        mean, scale = pm.Normal("mean", 0, 5), pm.HalfCauchy("scale", 5)
        if centred:
            effect = pm.Normal("effect", mean, scale, shape=8)
        else:
            effect = pm.Deterministic("effect", mean + scale * pm.Normal("z", 0, 1, shape=8))
        pm.Normal("y", effect[g], error, observed=y, total_size=_total(arrays, rows))
    return model


def mixed_rows(n: int) -> Arrays:
    """Make draws from two normals."""
    rng = np.random.default_rng(23)
    return (rng.normal(np.where(rng.random(n) < 0.5, -1.0, 1.0)),)


def mixture(arrays: Arrays, rows: Rows) -> Any:
    """Two normals of unknown means in equal shares: whatever the data, a mode and its mirror image."""
    import pymc as pm

    with pm.Model() as model:
        y = rows(*arrays)
        y = y[0] if isinstance(y, tuple) else y
        means = pm.Normal("means", 0, 3, shape=2)
        parts = [pm.Normal.dist(means[k], 1) for k in range(2)]
        pm.Mixture("y", w=np.array([0.5, 0.5]), comp_dists=parts, observed=y, total_size=_total(arrays, rows))
    return model


def _effects(n_groups: int) -> Any:
    """Return the effects of groups."""
    import pymc as pm

    intercept, log_scale = pm.Normal("intercept", 0, 2), pm.Normal("log_scale", 0, 1)
    return pm.Normal("effect", intercept, pm.math.exp(log_scale), shape=n_groups)


def _total(arrays: Arrays, rows: Rows) -> int | None:
    return None if rows is whole else len(arrays[0])
