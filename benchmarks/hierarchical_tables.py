"""Hierarchical models of real tables for ``hierarchical.py``: answers, examinations, ratings, radon, flights, claims.

Each is written in two ways, centred or not: of NUTS one of them is the better.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
from problems import load, standardise


def effect(name: str, codes: np.ndarray, centred: bool, mean: Any = 0.0) -> Any:
    """Return the effect that each row has of a factor, whose scale is unknown."""
    sd, levels, codes = pm.HalfNormal(f"{name}_sd", 1), int(codes.max()) + 1, codes.astype(int)
    if centred:
        return pm.Normal(name, mean, sd, shape=levels)[codes]
    return (mean + sd * pm.Normal(f"{name}_z", 0, 1, shape=levels))[codes]


def verbagg(centred: bool = True) -> pm.Model:
    """Answers of 316 persons to 24 items: crossed, few rows a person."""
    d = load("verbagg")
    anger = (d["anger"] - d["anger"].mean()) / d["anger"].std()
    X = np.column_stack([anger, d["male"], d["behaviour"] == 1, d["behaviour"] == 2, d["self_to_blame"], d["do"]])
    with pm.Model() as model:
        eta = pm.Normal("a", 0, 2) + X.astype(float) @ pm.Normal("b", 0, 1, shape=6)
        eta += effect("person", d["person"], centred) + effect("item", d["item"], centred)
        pm.Bernoulli("y", logit_p=eta, observed=d["y"])
    return model


def chem97(centred: bool = True) -> pm.Model:
    """Score examinations in 2,410 schools of 131 authorities: nested, normal, with a small scale of authorities."""
    d = load("chem97")
    X = np.column_stack([d["gcse"], d["male"], d["age"] / 12]).astype(float)
    with pm.Model() as model:
        eta = pm.Normal("a", 5, 3) + X @ pm.Normal("b", 0, 2, shape=3)
        eta += effect("authority", d["lea"], centred) + effect("school", d["school"], centred)
        pm.Normal("y", eta, pm.HalfNormal("sigma", 3), observed=d["score"].astype(float))
    return model


def radon(centred: bool = True) -> pm.Model:
    """Log radon of 12,573 houses in 386 counties, each with an intercept and a slope of the floor."""
    d = load("radon_all")
    county, floor, uranium = d["X"][:, 0].astype(int) - 1, (d["X"][:, 1] > 0).astype(float), d["X"][:, 2].astype(float)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1, shape=2)
        eta = effect("county", county, centred, mean[0]) + effect("slope", county, centred, mean[1]) * floor
        eta += pm.Normal("uranium", 0, 1) * uranium
        pm.Normal("y", eta, pm.HalfNormal("sigma", 1), observed=d["y"].astype(float))
    return model


def insteval(family: str, centred: bool = True) -> pm.Model:
    """Ratings of 1,128 lecturers by 2,972 students, 73,421 rows: as numbers, as good or not, as five categories."""
    d = load("insteval")
    rating, ordered = d["rating"].astype(int), pm.distributions.transforms.ordered
    with pm.Model() as model:
        eta = effect("student", d["student"], centred) + effect("lecturer", d["lecturer"], centred)
        if family == "ordered":
            cuts = pm.Normal("cuts", [-2, -1, 0, 1.5], 2, shape=4, transform=ordered, initval=[-2, -1, 0, 1.5])
            pm.OrderedLogistic("y", eta=eta, cutpoints=cuts, observed=rating - 1, compute_p=False)
        elif family == "logit":
            pm.Bernoulli("y", logit_p=pm.Normal("mean", 0, 2) + eta, observed=(rating > 3).astype(int))
        else:
            pm.Normal("y", pm.Normal("mean", 3, 2) + eta, pm.HalfNormal("sigma", 2), observed=rating.astype(float))
    return model


def flights(centred: bool = True) -> pm.Model:
    """Arrivals more than a quarter of an hour late of 4,037 aircraft at 104 destinations: 327,346 rows."""
    d, tail = load("nycflights13"), load("nycflights13_groups")["tail"]
    columns = dict(zip(map(str, d["feature_names"]), d["X"].T.astype(float)))
    minutes, origin = columns["sched_dep_min"], columns["origin"]
    X = standardise(np.column_stack([minutes, minutes**2, origin == 1, origin == 2]))[:, 1:]
    with pm.Model() as model:
        eta = pm.Normal("intercept", 0, 2) + X @ pm.Normal("slopes", 0, 1, shape=4)
        eta += effect("tail", tail, centred) + effect("destination", columns["dest"], centred)
        pm.Bernoulli("y", logit_p=eta, observed=(d["y"] > 15).astype(int))
    return model


def claims(centred: bool = True) -> pm.Model:
    """Claims of 678,013 insurance policies with their exposure, by 22 regions and 11 brands."""
    d = load("fremtpl2freq")
    X, exposure = d["X"], np.minimum(d["exposure"], 1.0).astype(float)
    columns = standardise(np.column_stack([X[:, :4], np.log(X[:, 4]), X[:, 7]]))[:, 1:]
    with pm.Model() as model:
        eta = pm.Normal("intercept", -2, 2) + columns @ pm.Normal("slopes", 0, 1, shape=6)
        eta += effect("brand", X[:, 6], centred) + effect("region", X[:, 8], centred)
        pm.Poisson("y", exposure * pm.math.exp(eta), observed=np.minimum(d["y"], 4).astype(int))
    return model


_BOTH: dict[str, Callable[..., pm.Model]] = {
    "VerbAgg": verbagg, "Chem97": chem97, "radon, slopes": radon, "InstEval, normal": partial(insteval, "normal"),
    "InstEval, logit": partial(insteval, "logit"), "InstEval, ordered": partial(insteval, "ordered"),
    "late flights": flights, "insurance claims": claims,
}  # fmt: skip
TABLES: dict[str, Callable[[], pm.Model]] = {
    **_BOTH,
    **{f"{name}, not centred": partial(of, centred=False) for name, of in _BOTH.items()},
}
