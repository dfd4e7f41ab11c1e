"""What the verdicts of `reliability` are worth: runs with known answers, good ones and spoiled ones.

Run ``python benchmarks/verdicts.py``; it takes about an hour, keeps what it found (``--out``), and goes on where it
stopped.  Printed are every run with its error and its verdict, and the confusion tables of the two parts: limits were
chosen on the first part of them and confirmed on the second.

The error of a run is the largest, over parameters, of those of means, standard deviations and quantiles of 5 and 95%,
in posterior standard deviations, less what Monte Carlo error explains (both runs, all numbers at once).
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
from problems import load, standardise
from rich.console import Console
from rich.table import Table
from scipy import special, stats

import pymc_austerity as pma

N, LEVEL = 4_000, 0.05
#: Errors above the first are wrong, below the second right, if Monte Carlo errors are below the third.
WRONG, RIGHT, KNOWN = 0.1, 0.03, 0.1
VERDICTS = ("trust", "trust with care", "do not trust")
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
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(covariates @ pm.Normal("beta", 0, 2, shape=6)), observed=table["mdvis"].astype(int))
    return model


def claims(_: str) -> pm.Model:
    """Return a Poisson regression of claims, one policy in twenty of which has one, on 10,000 rows."""
    data = load("fremtpl2freq")
    some = np.random.default_rng(1).choice(len(data["y"]), 10_000, replace=False)
    covariates = standardise(data["X"][some][:, [0, 1, 2]])
    exposure, counts = np.minimum(data["exposure"][some], 1.0).astype(float), np.minimum(data["y"][some], 4)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=4)
        pm.Poisson("y", exposure * pm.math.exp(covariates @ beta), observed=counts.astype(int))
    return model


def logistic(data: str) -> pm.Model:
    """Return a logistic regression with four coefficients; with rare ones, 2% of the rows are positive."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(N), rng.normal(size=(N, 3))])
    beta = np.array([-4.0 if data == "rare" else 0.0, 0.5, -0.5, 0.3])
    with pm.Model() as model:
        eta = X @ pm.Normal("beta", 0, 2, shape=4)
        pm.Bernoulli("y", logit_p=eta, observed=(rng.random(N) < special.expit(X @ beta)).astype(int))
    return model


def delays(_: str) -> pm.Model:
    """Return a linear regression of arrival delays, whose tail is long, with an unknown scale."""
    data = load("nycflights13")
    some = np.random.default_rng(1).choice(len(data["y"]), 5_000, replace=False)
    X, y = standardise(data["X"][some][:, :3]), data["y"][some] / data["y"].std()
    with pm.Model() as model:
        beta, sigma = pm.Normal("beta", 0, 1, shape=X.shape[1]), pm.HalfNormal("sigma", 1)
        pm.Normal("y", X @ beta, sigma, observed=y.astype(float))
    return model


MODELS: dict[str, Callable[[str], pm.Model]] = {
    "mean": mean_model, "visits": visits, "claims": claims, "logistic": logistic, "delays": delays,
}  # fmt: skip


def off_centre(model: pm.Model) -> dict[str, np.ndarray]:
    """Return a point beside the posterior of a regression, by some standard deviations of a coefficient."""
    return {name: np.asarray(value) + 0.3 for name, value in model.initial_point().items()}


AM = {"proxy": None, "proposal": pma.AdaptiveMetropolis()}
STEPS: dict[str, Callable[[pm.Model], Any]] = {
    "ApproxMH(proxy=None)": lambda m: pma.ApproxMH(proxy=None),
    "ApproxMH(0.001, proxy=None)": lambda m: pma.ApproxMH(epsilon=0.001, proxy=None),
    "ApproxMH(0.01, AdaptiveMetropolis)": lambda m: pma.ApproxMH(epsilon=0.01, **AM),
    "ApproxMH(0.05, batch 100, proxy=None)": lambda m: pma.ApproxMH(epsilon=0.05, batch_size=100, proxy=None),
    "ApproxMH(0.2, batch 50, proxy=None)": lambda m: pma.ApproxMH(epsilon=0.2, batch_size=50, proxy=None),
    "PenaltyMH(proxy=None)": lambda m: pma.PenaltyMH(proxy=None),
    "PenaltyMH(small steps)": lambda m: pma.PenaltyMH(proxy=None, proposal=pma.RandomWalk(SMALL_STEP), tune=False),
    "MinibatchBarker(proxy=None)": lambda m: pma.MinibatchBarker(proxy=None),
    "MinibatchBarker(small steps, skewness=False)": lambda m: pma.MinibatchBarker(
        proxy=None, proposal=pma.RandomWalk(SMALL_STEP), tune=False, skewness=False
    ),
    "MinibatchMH(proxy=None)": lambda m: pma.MinibatchMH(proxy=None),
    "ExactMH(proxy=None)": lambda m: pma.ExactMH(proxy=None),
    "ExactMH(step 1e-9)": lambda m: pma.ExactMH(proxy=None, proposal=pma.RandomWalk(1e-9), tune=False),
    "PenaltyMH": lambda m: pma.PenaltyMH(),
    "ApproxMH": lambda m: pma.ApproxMH(),
    "ApproxMH(auto)": lambda m: pma.ApproxMH(epsilon="auto"),
    "MinibatchBarker": lambda m: pma.MinibatchBarker(),
    "MHSubLhd": lambda m: pma.MHSubLhd(),
    "MHSS": lambda m: pma.MHSS(),
    "PenaltyMH(wrong centre)": lambda m: pma.PenaltyMH(proxy=pma.Taylor(centre=off_centre(m))),
}

ON_MEANS = [
    "ApproxMH(proxy=None)", "PenaltyMH(proxy=None)", "MinibatchBarker(proxy=None)",
    "ApproxMH(0.05, batch 100, proxy=None)",
    "ApproxMH(0.2, batch 50, proxy=None)", "MinibatchMH(proxy=None)", "ExactMH(proxy=None)", "PenaltyMH(small steps)",
    "MinibatchBarker(small steps, skewness=False)", "ApproxMH(0.001, proxy=None)",
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


class Summary(NamedTuple):
    """Means, standard deviations and quantiles of all parameters, with Monte Carlo errors."""

    values: np.ndarray
    errors: np.ndarray
    sd: np.ndarray


def summarise(idata: Any, model: pm.Model) -> Summary:
    """Return the four numbers of every parameter, one behind the other."""
    posterior = idata["posterior"]
    values, errors, sds = [], [], []
    for rv in model.free_RVs:
        draws = posterior[rv.name].to_numpy().reshape(*posterior[rv.name].shape[:2], -1)
        for x in np.moveaxis(draws, -1, 0):
            sds += [x.std()] * 4
            values += [x.mean(), x.std(), *np.quantile(x, [0.05, 0.95])]
            of_quantiles = [az.mcse(x, method="quantile", prob=p) for p in (0.05, 0.95)]
            errors += [az.mcse(x, method="mean"), az.mcse(x, method="sd"), *of_quantiles]
    return Summary(np.array(values), np.array(errors, float), np.array(sds))


@cache
def answer(model: str, data: str) -> Summary:
    """Return the right answer, in closed form or from a long exact run."""
    if model == "mean":
        sd = 1 / np.sqrt(N)
        half = stats.norm.isf(0.05) * sd
        return Summary(np.array([0.0, sd, -half, half]), np.zeros(4), np.full(4, sd))
    built = MODELS[model](data)
    with built:
        idata = pm.sample(
            5_000, tune=500, chains=4, cores=1, step=pma.ExactMH(), random_seed=11, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    return summarise(idata, built)


def compare(found: Summary, right: Summary) -> tuple[float, float, float]:
    """Return the error beyond Monte Carlo error, the error itself, and the largest Monte Carlo error."""
    errors = np.abs(found.values - right.values) / right.sd
    mcse = np.nan_to_num(np.hypot(found.errors, right.errors) / right.sd, nan=np.inf)
    shown = errors - stats.norm.isf(LEVEL / 2 / errors.size) * mcse
    return max(0.0, float(shown.max())), float(errors.max()), float(mcse.max())


class Heard(logging.Handler):
    """Keeps the warnings of a run."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one."""
        self.said.append(record.getMessage())


@cache
def built(model: str, data: str, step: str) -> tuple[pm.Model, Any]:
    """Return a model with a step; the rows of the mean are set anew for each case."""
    made = MODELS[model](data)
    with made:
        return made, STEPS[step](made)


def run(case: Case) -> dict[str, Any]:
    """Return what is to be known of one run."""
    start = time.perf_counter()
    model, step = built(case.model, "normal" if case.model == "mean" else case.data, case.step)
    if case.model == "mean":
        pm.set_data({"rows": rows_of_shape(case.data)}, model=model)
    heard = Heard()
    logging.getLogger("pymc").addHandler(heard)
    try:
        with model:
            idata = pm.sample(
                case.draws, tune=case.tune, chains=4, cores=1, step=step, random_seed=7, progressbar=False
            )
    finally:
        logging.getLogger("pymc").removeHandler(heard)
    report = pma.reliability(idata, model, step=step)
    shown, error, mcse = compare(summarise(idata, model), answer(case.model, case.data))
    own = " ".join(s for s in heard.said if "reliability" in s)
    watched = next((v for v in VERDICTS[::-1] if v in own), "trust")
    checks = report.checks.reset_index()[["check", "verdict", "value", "reason"]].to_dict("records")
    return {
        "case": list(case), "shown": shown, "error": error, "mcse": mcse, "verdict": report.verdict, "watched": watched,
        "seconds": time.perf_counter() - start, "checks": checks,
        "rows": float(idata["sample_stats"]["n_rows"].mean()),
    }  # fmt: skip


def show(found: pd.DataFrame) -> None:
    """Print all runs and the confusion tables."""
    console = Console(width=190)
    table = Table(
        "model", "data", "step", "draws", "rows a draw", "error (beyond MC)", "MC", "verdict", "because of", "chain"
    )
    for _, r in found.sort_values("shown").iterrows():
        model, data, step, draws, _ = r["case"]
        because = ", ".join(c["check"] for c in r["checks"] if c["verdict"] == r["verdict"] != "trust")
        numbers = f"{r['error']:.3f} ({r['shown']:.3f})", f"{r['mcse']:.3f}"
        table.add_row(model, data, step, f"{draws}", f"{r['rows']:,.0f}", *numbers, r["verdict"], because, r["watched"])
    console.print(table)
    kind = np.select(
        [found["shown"] > WRONG, (found["shown"] < RIGHT) & (found["mcse"] < KNOWN), found["mcse"] >= KNOWN],
        ["wrong", "right", "too short to tell"], "between",
    )  # fmt: skip
    chosen = np.array([is_for_choosing(Case(*case)) for case in found["case"]], bool)
    for half, own in enumerate((chosen, ~chosen)):
        counts = pd.crosstab(kind[own], found["verdict"][own]).reindex(columns=VERDICTS, fill_value=0)
        console.print(f"\n{('Limits chosen on', 'confirmed on')[half]} {own.sum()} runs\n{counts}")


def main() -> None:
    """Run what is missing and print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("output/verdicts.jsonl"), help="where runs are kept")
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--last", type=int, default=len(CASES), metavar="K", help="only the last K runs of the list")
    chosen = parser.parse_args()
    for name in ("pymc", "pymc_austerity"):
        logging.getLogger(name).setLevel(logging.WARNING)
        logging.getLogger(name).propagate = False
        logging.getLogger(name).handlers.clear()
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    known = (
        {tuple(json.loads(line)["case"]) for line in chosen.out.read_text().splitlines()}
        if chosen.out.exists()
        else set()
    )
    with chosen.out.open("a") as file:
        for case in CASES[-chosen.last :]:
            if case.model in chosen.models and tuple(case) not in known:
                file.write(json.dumps(run(case)) + "\n")
                file.flush()
    found = {tuple(r["case"]): r for r in map(json.loads, chosen.out.read_text().splitlines())}
    show(pd.DataFrame([found[tuple(c)] for c in CASES if tuple(c) in found]))


if __name__ == "__main__":
    main()
