"""Models with effects of groups: made-up rows, radon by county, and crossed factors of flights, ratings and claims."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import problems
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


def with_slopes(n_rows: int, n_groups: int) -> pm.Model:
    """Logistic regression with an intercept and a slope for each group, the sizes of the groups log-normal."""
    rng, g = sizes(n_rows, n_groups, 18)
    g, x = g.astype(np.int32), rng.normal(size=n_rows)
    eta = rng.normal(-0.5, 0.7, n_groups)[g] + rng.normal(0.3, 0.4, n_groups)[g] * x
    y = rng.random(n_rows) < 1 / (1 + np.exp(-eta))
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 2, shape=2), pm.HalfNormal("scale", 1, shape=2)
        intercept = pm.Normal("intercept", mean[0], scale[0], shape=n_groups)
        slope = pm.Normal("slope", mean[1], scale[1], shape=n_groups)
        pm.Bernoulli("y", logit_p=intercept[g] + slope[g] * x, observed=y.astype(np.int8))
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


def radon(noncentred: bool = False) -> pm.Model:
    """Radon in 386 counties: intercepts and slopes by county, all scales unknown.

    The slopes, of which few houses in a county tell, suit NUTS better as multiples of their scale.
    """
    data = problems.load("radon_all")
    county, floor = data["X"][:, 0].astype(int) - 1, (data["X"][:, 1] > 0).astype(float)
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 1, shape=2), pm.HalfNormal("scale", 1, shape=2)
        intercept = pm.Normal("intercept", mean[0], scale[0], shape=386)
        if noncentred:
            slope = pm.Deterministic("slope", mean[1] + scale[1] * pm.Normal("z", 0, 1, shape=386))
        else:
            slope = pm.Normal("slope", mean[1], scale[1], shape=386)
        uranium, sigma = pm.Normal("uranium", 0, 1), pm.HalfNormal("sigma", 1)
        eta = intercept[county] + slope[county] * floor + uranium * data["X"][:, 2].astype(float)
        pm.Normal("y", eta, sigma, observed=data["y"].astype(float))
    return model


def hundred_groups() -> pm.Model:
    """Hierarchical logistic regression: 200,000 rows, 100 groups of 0 to about 15,000 rows, ten slopes."""
    rng = np.random.default_rng(6)
    n, groups = 200_000, 100
    shares = np.sort(rng.dirichlet(np.full(groups, 0.7)))
    shares[0] = 0.0
    group = rng.choice(groups, n, p=shares / shares.sum())
    X, beta = rng.normal(size=(n, 10)), rng.normal(size=10) / 3
    effect = rng.normal(-0.5, 0.7, groups)
    y = rng.random(n) < 1 / (1 + np.exp(-(effect[group] + X @ beta)))
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 1), pm.HalfNormal("scale", 1)
        intercept, slopes = pm.Normal("intercept", mean, scale, shape=groups), pm.Normal("slopes", 0, 1, shape=10)
        pm.Bernoulli("y", logit_p=intercept[group] + pm.math.dot(X, slopes), observed=y.astype(int))
    return model


def effects(name: str, numbers: np.ndarray, noncentred: bool) -> Any:
    """Add effects of a factor with an unknown scale, and return that of every row."""
    scale, size = pm.HalfNormal(f"{name}_scale", 1), int(numbers.max()) + 1
    if noncentred:
        return pm.Deterministic(name, scale * pm.Normal(f"{name}_raw", 0, 1, shape=size))[numbers]
    return pm.Normal(name, 0, scale, shape=size)[numbers]


class NormalTable(NamedTuple):
    """Rows with normal errors, shape (N,), their covariates (N, C), and the groups of each factor, the finest first.

    Slopes are standard normal a priori; the intercept has a mean and the standard deviation 1, σ a half-normal's scale.
    """

    y: np.ndarray
    slopes: np.ndarray
    factors: dict[str, np.ndarray]
    intercept: float
    sigma: float


def insteval_table() -> NormalTable:
    """Return ratings of 1,128 lecturers by 2,972 students: 73,421 rows."""
    data = problems.load("insteval")
    factors = {name: data[name].astype(int) for name in ("student", "lecturer")}
    return NormalTable(data["rating"].astype(float), np.empty((len(data["rating"]), 0)), factors, 3.0, 2.0)


def delays_table() -> NormalTable:
    """Return minutes of delay by 4,037 aircraft, 104 destinations and 16 carriers: 327,346 rows."""
    data, groups = problems.load("nycflights13"), problems.load("nycflights13_groups")
    columns = dict(zip(map(str, data["feature_names"]), data["X"].T))
    minutes = problems.standardise(columns["sched_dep_min"].astype(float)[:, None])[:, -1]
    factors = {"tail": groups["tail"], "dest": columns["dest"], "carrier": columns["carrier"]}
    factors = {name: of.astype(int) for name, of in factors.items()}
    return NormalTable(data["y"] / data["y"].std(), np.column_stack([minutes, minutes**2]), factors, 0.0, 1.0)


#: Crossed factors with normal errors, whose posterior linear algebra has too.
NORMAL = {"delays": delays_table, "insteval": insteval_table}


def normal(name: str, noncentred: bool = False) -> pm.Model:
    """Return the model of ratings, as lme4 fits them, or of delays."""
    table = NORMAL[name]()
    with pm.Model() as model:
        mean, sigma = pm.Normal("intercept", table.intercept, 1), pm.HalfNormal("sigma", table.sigma)
        if table.slopes.size:
            slopes = pm.Normal("slopes", 0, 1, shape=table.slopes.shape[1])
            mean = mean + sum(slopes[j] * column for j, column in enumerate(table.slopes.T))
        for factor, numbers in table.factors.items():
            mean = mean + effects(factor, numbers, noncentred)
        pm.Normal("y", mean, sigma, observed=table.y)
    return model


def insteval_ordinal(noncentred: bool = False) -> pm.Model:
    """Take the ratings for the five ordered categories that they are."""
    data, ordered = problems.load("insteval"), pm.distributions.transforms.ordered
    with pm.Model() as model:
        cutpoints = pm.Normal("cutpoints", np.array([-2.0, -1.0, 0.0, 1.5]), 2, transform=ordered)
        student, lecturer = (effects(name, data[name].astype(int), noncentred) for name in ("student", "lecturer"))
        rating = data["rating"].astype(int) - 1
        pm.OrderedLogistic("y", eta=student + lecturer, cutpoints=cutpoints, observed=rating)
    return model


def flights(noncentred: bool = False) -> pm.Model:
    """Arrival more than 15 minutes late by 4,037 aircraft and 104 destinations: 327,346 rows, four covariates."""
    data, groups = problems.load("nycflights13"), problems.load("nycflights13_groups")
    columns = dict(zip(map(str, data["feature_names"]), data["X"].T.astype(float)))
    minutes, origin = columns["sched_dep_min"], columns["origin"]
    covariates = problems.standardise(np.column_stack([minutes, minutes**2, origin == 1, origin == 2]))[:, 1:]
    with pm.Model() as model:
        eta = pm.Normal("intercept", 0, 2) + covariates @ pm.Normal("slopes", 0, 1, shape=4)
        eta = eta + effects("tail", groups["tail"].astype(int), noncentred)
        eta = eta + effects("dest", columns["dest"].astype(int), noncentred)
        pm.Bernoulli("y", logit_p=eta, observed=(data["y"] > 15).astype(np.int8))
    return model


def claims(noncentred: bool = False) -> pm.Model:
    """Insurance claims by 22 regions and 11 brands: 678,013 policies with their exposure, six covariates."""
    data = problems.load("fremtpl2freq")
    X, exposure = data["X"], np.minimum(data["exposure"], 1.0).astype(float)
    numbers = problems.standardise(np.column_stack([X[:, :4], np.log(X[:, 4]), X[:, 7]]))[:, 1:]
    with pm.Model() as model:
        eta = pm.Normal("intercept", -2, 2) + numbers @ pm.Normal("slopes", 0, 1, shape=6)
        eta = (
            eta + effects("brand", X[:, 6].astype(int), noncentred) + effects("region", X[:, 8].astype(int), noncentred)
        )
        pm.Poisson("y", exposure * pm.math.exp(eta), observed=np.minimum(data["y"], 4).astype(int))
    return model


def groups(n_rows: int, n_groups: int) -> Problem:
    """Return a logistic regression with five slopes and groups of very unequal size."""
    return Problem(partial(grouped_rows, n_rows, n_groups), hierarchical)
