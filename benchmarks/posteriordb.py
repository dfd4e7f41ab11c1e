"""Posteriors of posteriordb against their reference draws, by default settings.

Run ``python benchmarks/posteriordb.py PATH`` (``--step``, ``--only``), PATH being a clone of
https://github.com/stan-dev/posteriordb.  Taken are the posteriors that have reference draws and whose log-likelihood is
a sum over rows.  Almost all have fewer rows than one batch: what is shown is
whether the answer is right, not that anything is gained.

The error is the largest, over parameters, of those of mean, standard deviation and quantiles of 5 and 95%, in reference
standard deviations; in brackets what Monte Carlo error, of both runs and of all these numbers at once, does not
explain.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import time
from collections.abc import Callable
from typing import Any
from zipfile import ZipFile

import numpy as np
import pymc as pm
from agreement import beyond_chance, four_of
from rich.console import Console
from rich.table import Table
from timing import quiet

import pymc_austerity as pma

DRAWS, TUNE = 5_000, 1_000
_FOLDER = "posterior_database"
Data = dict[str, Any]


def read(path: str, repository: str) -> Any:
    """Return what a file of the repository holds, whether it is checked out or not."""
    command = ["git", "-C", repository, "show", f"HEAD:{_FOLDER}/{path}"]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    if not path.endswith(".zip"):
        return json.loads(found)
    with ZipFile(io.BytesIO(found)) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def columns(data: Data, *names: str) -> list[np.ndarray]:
    """Return some columns as floats."""
    return [np.asarray(data[name], float) for name in names]


def regression(covariates: list[np.ndarray], y: np.ndarray, cauchy: bool = False) -> pm.Model:
    """Return a linear regression with flat priors, or a half-Cauchy one for the scale."""
    X = np.column_stack([np.ones(len(y)), *covariates])
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=X.shape[1])
        sigma = pm.HalfCauchy("sigma", 2.5) if cauchy else pm.HalfFlat("sigma", initval=float(y.std()))
        pm.Normal("y", pm.math.dot(X, beta), sigma, observed=y)
    return model


def of(
    names: str, covariates: Callable[..., Any], outcome: Callable[..., Any] = lambda y: y, cauchy: bool = False
) -> Any:
    """Return a maker of a regression of the first of some columns on covariates made of the others."""

    def make(data: Data) -> pm.Model:
        y, *others = columns(data, *names.split())
        return regression(covariates(*others), outcome(y), cauchy)

    return make


def levels(codes: np.ndarray) -> list[np.ndarray]:
    """Return indicators of the second, third and fourth of four levels."""
    return [(codes == k).astype(float) for k in (2, 3, 4)]


def blr(data: Data) -> pm.Model:
    X, y = columns(data, "X", "y")
    with pm.Model() as model:
        beta, sigma = pm.Normal("beta", 0, 10, shape=X.shape[1]), pm.HalfNormal("sigma", 10)
        pm.Normal("y", pm.math.dot(X, beta), sigma, observed=y)
    return model


def kilpisjarvi(data: Data) -> pm.Model:
    x, y = columns(data, "x", "y")
    with pm.Model() as model:
        alpha = pm.Normal("alpha", data["pmualpha"], data["psalpha"])
        beta, sigma = pm.Normal("beta", data["pmubeta"], data["psbeta"]), pm.HalfFlat("sigma", initval=float(y.std()))
        pm.Normal("y", alpha + beta * x, sigma, observed=y)
    return model


def ar_k(data: Data) -> pm.Model:
    k, y = data["K"], np.asarray(data["y"], float)
    lags = np.column_stack([y[k - lag : -lag] for lag in range(1, k + 1)])
    with pm.Model() as model:
        alpha, beta = pm.Normal("alpha", 0, 10), pm.Normal("beta", 0, 10, shape=k)
        sigma = pm.HalfCauchy("sigma", 2.5)
        pm.Normal("y", alpha + pm.math.dot(lags, beta), sigma, observed=y[k:])
    return model


def diamonds(data: Data) -> pm.Model:
    X, y = columns(data, "X", "Y")
    X = X[:, 1:] - X[:, 1:].mean(axis=0)
    with pm.Model() as model:
        b, intercept = pm.Normal("b", 0, 1, shape=X.shape[1]), pm.StudentT("Intercept", nu=3, mu=8, sigma=10)
        sigma = pm.HalfStudentT("sigma", nu=3, sigma=10)
        pm.Normal("y", intercept + pm.math.dot(X, b), sigma, observed=y)
    return model


def gauss_mix(data: Data) -> pm.Model:
    y = np.asarray(data["y"], float)
    with pm.Model() as model:
        ordered = pm.distributions.transforms.ordered
        mu = pm.Normal("mu", 0, 2, shape=2, transform=ordered, initval=np.array([-1.0, 1.0]))
        sigma, theta = pm.HalfNormal("sigma", 2, shape=2), pm.Beta("theta", 5, 5)
        pm.NormalMixture("y", w=pm.math.stack([theta, 1 - theta]), mu=mu, sigma=sigma, observed=y)
    return model


def z(x: np.ndarray, times: float = 1.0) -> np.ndarray:
    """Return x standardised as Stan does."""
    return (x - x.mean()) / (times * x.std(ddof=1))


def area(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.log(a * b)


def product(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """Return two covariates and their product."""
    return [a, b, a * b]


log = np.log
EARN, KID, WORK = "earn height male", "kid_score mom_hs mom_iq", "kid_score mom_work"
BUSH = "weight diam1 diam2 canopy_height total_height density group"
PARTY = "partyid7 real_ideo race_adj educ1 gender income age_discrete"
nes = of(PARTY, lambda i, r, e, g, income, age: [i, r, *levels(age), e, g, income])
MODELS: dict[str, Callable[[Data], pm.Model]] = {
    "earnings-earn_height": of(EARN, lambda h, m: [h]),
    "earnings-log10earn_height": of(EARN, lambda h, m: [h], np.log10),
    "earnings-logearn_height": of(EARN, lambda h, m: [h], log),
    "earnings-logearn_height_male": of(EARN, lambda h, m: [h, m], log),
    "earnings-logearn_interaction": of(EARN, product, log),
    "earnings-logearn_interaction_z": of(EARN, lambda h, m: product(z(h), m), log),
    "earnings-logearn_logheight_male": of(EARN, lambda h, m: [log(h), m], log),
    "kidiq-kidscore_interaction": of(KID, product, cauchy=True),
    "kidiq-kidscore_momhs": of(KID, lambda h, i: [h], cauchy=True),
    "kidiq-kidscore_momhsiq": of(KID, lambda h, i: [h, i], cauchy=True),
    "kidiq-kidscore_momiq": of(KID, lambda h, i: [i], cauchy=True),
    "kidiq_with_mom_work-kidscore_interaction_c": of(KID, lambda h, i: product(h - h.mean(), i - i.mean())),
    "kidiq_with_mom_work-kidscore_interaction_c2": of(KID, lambda h, i: product(h - 0.5, i - 100)),
    "kidiq_with_mom_work-kidscore_interaction_z": of(KID, lambda h, i: product(z(h, 2), z(i, 2))),
    "kidiq_with_mom_work-kidscore_mom_work": of(WORK, levels),
    "mesquite-mesquite": of(BUSH, lambda *x: list(x)),
    "mesquite-logmesquite": of(BUSH, lambda *x: [*map(log, x[:5]), x[5]], log),
    "mesquite-logmesquite_logva": of(BUSH, lambda a, b, c, t, d, g: [area(a, b * c), area(a, b), g], log),
    "mesquite-logmesquite_logvas": of(
        BUSH, lambda a, b, c, t, d, g: [area(a, b * c), area(a, b), log(a / b), log(t), log(d), g], log
    ),
    "mesquite-logmesquite_logvash": of(
        BUSH, lambda a, b, c, t, d, g: [area(a, b * c), area(a, b), log(a / b), log(t), g], log
    ),
    "mesquite-logmesquite_logvolume": of(BUSH, lambda a, b, c, t, d, g: [area(a, b * c)], log),
    **{f"nes{year}-nes": nes for year in range(1972, 2001, 4)},
    "sblrc-blr": blr,
    "sblri-blr": blr,
    "kilpisjarvi_mod-kilpisjarvi": kilpisjarvi,
    "arK-arK": ar_k,
    "diamonds-diamonds": diamonds,
    "low_dim_gauss_mix-low_dim_gauss_mix": gauss_mix,
}


def parameters(idata: Any, names: list[str]) -> np.ndarray:
    """Return the draws of parameters by their names in Stan, shape (chains, draws, parameters)."""
    found = []
    for whole, _, index in (name.partition("[") for name in names):
        draws = idata["posterior"][whole].to_numpy()
        found.append(draws[..., int(index[:-1]) - 1] if index else draws)
    return np.stack(found, axis=2)


def row_of(name: str, repository: str, build: Callable[..., Any]) -> list[str]:
    """Sample one posterior by default settings of a step and return its row of the table."""
    about = read(f"posteriors/{name}.json", repository)
    model = MODELS[name](read(f"data/data/{about['data_name']}.json.zip", repository))
    start = time.perf_counter()
    try:
        with model:
            step = build(progressbar=False)
            idata = pm.sample(DRAWS, tune=TUNE, chains=4, cores=1, step=step, random_seed=1, progressbar=False)
    except Exception as error:
        return [name, "", "", "", f"{type(error).__name__}: {str(error)[:90]}", f"{time.perf_counter() - start:.0f}"]
    seconds = time.perf_counter() - start
    report = pma.reliability(idata, model, step=step)
    at = about["reference_posterior_name"]
    reference = read(f"reference_posteriors/draws/draws/{at}.json.zip", repository)
    names = [n for n in reference[0] if n.split("[")[0] in idata["posterior"]]
    right = np.stack([np.array([chain[n] for chain in reference]) for n in names], axis=2)
    error, shown, _ = beyond_chance(four_of(parameters(idata, names)), four_of(right))
    worst = report.checks["verdict"] == report.verdict
    because = "" if report.verdict == "trust" else f" ({', '.join(report.checks.index[worst])})"
    usage = pma.data_usage(idata)
    n_rows, read_rows = int(usage["total_rows"]), float(idata["sample_stats"]["n_rows"].mean())
    cells = [f"{n_rows:,}", f"{read_rows:,.0f}", f"{error:.3f} ({shown:.3f})", report.verdict + because]
    return [name, *cells, f"{seconds:.0f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="clone of posteriordb")
    parser.add_argument("--only", nargs="*", choices=list(MODELS), default=list(MODELS), metavar="POSTERIOR")
    parser.add_argument("--step", choices=["PenaltyMH", "MHSS"], default="PenaltyMH")
    chosen = parser.parse_args()
    quiet()
    heads = ["posterior", "rows", "rows a draw", "error (beyond MC)", "verdict", "s"]
    table = Table(*heads)
    for name in chosen.only:
        cells = row_of(name, chosen.path, getattr(pma, chosen.step))
        print("| " + " | ".join(cells) + " |", flush=True)
        table.add_row(*cells)
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
