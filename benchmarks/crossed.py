"""Models with crossed random effects on real data: late flights, delays, ratings of lecturers, insurance claims."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import problems
import pymc as pm


def _effects(name: str, size: int, noncentred: bool) -> pm.Deterministic:
    scale = pm.HalfNormal(f"{name}_scale", 1)
    if noncentred:
        return pm.Deterministic(name, scale * pm.Normal(f"{name}_raw", 0, 1, shape=size))
    return pm.Normal(name, 0, scale, shape=size)


class NormalTable(NamedTuple):
    """Rows with normal errors, an intercept and slopes, and the groups of each factor, the finest first.

    Attributes
    ----------
    y : numpy.ndarray, shape (N,)
    X : numpy.ndarray, shape (N, C)
        Ones first.
    coefficients : tuple of str
        Variables of the model that are its coefficients.
    factors : dict of str to numpy.ndarray of int, shape (N,)
    prior_mean, prior_precision : numpy.ndarray, shape (C,)
    widths : numpy.ndarray, shape (1 + F,)
        Of the half-normal priors of σ and of the scales.
    """

    y: np.ndarray
    X: np.ndarray
    coefficients: tuple[str, ...]
    factors: dict[str, np.ndarray]
    prior_mean: np.ndarray
    prior_precision: np.ndarray
    widths: np.ndarray


def insteval_table() -> NormalTable:
    """Return ratings of 1,128 lecturers by 2,972 students: 73,421 rows."""
    data = problems.load("insteval")
    y = data["rating"].astype(float)
    factors = {name: data[name].astype(int) for name in ("student", "lecturer")}
    return NormalTable(
        y, np.ones((y.size, 1)), ("intercept",), factors, np.array([3.0]), np.ones(1), np.array([2.0, 1.0, 1.0])
    )


def insteval(noncentred: bool = False) -> pm.Model:
    """Ratings of lecturers by students, as lme4 fits them."""
    table = insteval_table()
    with pm.Model() as model:
        intercept, sigma = pm.Normal("intercept", 3, 1), pm.HalfNormal("sigma", 2)
        student, lecturer = (_effects(name, int(of.max()) + 1, noncentred) for name, of in table.factors.items())
        mean = intercept + student[table.factors["student"]] + lecturer[table.factors["lecturer"]]
        pm.Normal("y", mean, sigma, observed=table.y)
    return model


def insteval_ordinal(noncentred: bool = False) -> pm.Model:
    """Take the same ratings for the five ordered categories that they are."""
    data = problems.load("insteval")
    with pm.Model() as model:
        cutpoints = pm.Normal(
            "cutpoints", np.array([-2.0, -1.0, 0.0, 1.5]), 2, transform=pm.distributions.transforms.ordered
        )
        student = _effects("student", int(data["student"].max()) + 1, noncentred)
        lecturer = _effects("lecturer", int(data["lecturer"].max()) + 1, noncentred)
        eta = student[data["student"].astype(int)] + lecturer[data["lecturer"].astype(int)]
        pm.OrderedLogistic("y", eta=eta, cutpoints=cutpoints, observed=data["rating"].astype(int) - 1)
    return model


def flights(noncentred: bool = False) -> pm.Model:
    """Arrival more than 15 minutes late by 4,037 aircraft and 104 destinations: 327,346 rows, four covariates."""
    data, groups = problems.load("nycflights13"), problems.load("nycflights13_groups")
    names = [str(name) for name in data["feature_names"]]
    columns = {name: data["X"][:, j].astype(float) for j, name in enumerate(names)}
    minutes = columns["sched_dep_min"]
    covariates = np.column_stack([minutes, minutes**2, columns["origin"] == 1, columns["origin"] == 2]).astype(float)
    covariates = (covariates - covariates.mean(axis=0)) / covariates.std(axis=0)
    with pm.Model() as model:
        intercept, slopes = pm.Normal("intercept", 0, 2), pm.Normal("slopes", 0, 1, shape=4)
        tail = _effects("tail", 4_037, noncentred)
        dest = _effects("dest", int(columns["dest"].max()) + 1, noncentred)
        eta = intercept + covariates @ slopes + tail[groups["tail"].astype(int)] + dest[columns["dest"].astype(int)]
        pm.Bernoulli("y", logit_p=eta, observed=(data["y"] > 15).astype(np.int8))
    return model


def delays_table() -> NormalTable:
    """Return minutes of delay by 4,037 aircraft, 104 destinations and 16 carriers: 327,346 rows."""
    data, groups = problems.load("nycflights13"), problems.load("nycflights13_groups")
    columns = dict(zip(map(str, data["feature_names"]), data["X"].T))
    minutes = problems.standardise(columns["sched_dep_min"].astype(float)[:, None])[:, -1]
    factors = {"tail": groups["tail"], "dest": columns["dest"], "carrier": columns["carrier"]}
    return NormalTable(
        data["y"] / data["y"].std(),
        np.column_stack([np.ones(minutes.size), minutes, minutes**2]),
        ("intercept", "slopes"),
        {name: of.astype(int) for name, of in factors.items()},
        np.zeros(3),
        np.ones(3),
        np.ones(4),
    )


def delays(noncentred: bool = False) -> pm.Model:
    """Minutes of delay, with normal errors, by aircraft, destination and carrier."""
    table = delays_table()
    with pm.Model() as model:
        intercept, slopes, sigma = (
            pm.Normal("intercept", 0, 1),
            pm.Normal("slopes", 0, 1, shape=2),
            pm.HalfNormal("sigma"),
        )
        mean = intercept + slopes[0] * table.X[:, 1] + slopes[1] * table.X[:, 2]
        for name, of in table.factors.items():
            mean += _effects(name, int(of.max()) + 1, noncentred)[of]
        pm.Normal("y", mean, sigma, observed=table.y)
    return model


def claims(noncentred: bool = False) -> pm.Model:
    """Insurance claims by 22 regions and 11 brands: 678,013 policies with their exposure, six covariates."""
    data = problems.load("fremtpl2freq")
    X, exposure = data["X"], np.minimum(data["exposure"], 1.0).astype(float)
    numbers = problems.standardise(np.column_stack([X[:, :4], np.log(X[:, 4]), X[:, 7]]))[:, 1:]
    with pm.Model() as model:
        intercept, slopes = pm.Normal("intercept", -2, 2), pm.Normal("slopes", 0, 1, shape=6)
        brand, region = (
            _effects(name, int(X[:, k].max()) + 1, noncentred) for name, k in (("brand", 6), ("region", 8))
        )
        eta = intercept + numbers @ slopes + brand[X[:, 6].astype(int)] + region[X[:, 8].astype(int)]
        pm.Poisson("y", exposure * pm.math.exp(eta), observed=np.minimum(data["y"], 4).astype(int))
    return model


#: Those with normal errors, whose posterior linear algebra has too.
NORMAL = {"delays": delays_table, "insteval": insteval_table}
