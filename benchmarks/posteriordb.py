"""Posteriors of posteriordb against their reference draws, by default settings.

Run ``python benchmarks/posteriordb.py PATH`` (``--step``, ``--only``), PATH being a clone of
https://github.com/stan-dev/posteriordb.  Taken are the posteriors that have reference draws and whose log-likelihood is
a sum over rows; the others are named with the reason.  Almost all have fewer rows than one batch: what is shown is
whether the answer is right, not that anything is gained.

The error is the largest, over parameters, of those of mean, standard deviation and quantiles of 5 and 95%, in reference
standard deviations; in brackets what Monte Carlo error, of both runs and of all these numbers at once, does not
explain.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import subprocess
import time
from collections.abc import Callable
from typing import Any
from zipfile import ZipFile

import arviz as az
import numpy as np
import pymc as pm
from rich.console import Console
from rich.table import Table
from scipy import stats

import pymc_austerity as pma

DRAWS, TUNE, LEVEL = 5_000, 1_000, 0.05
_FOLDER = "posterior_database"
Data = dict[str, Any]
#: Why a posterior is not among the models below.
REFUSED = {
    "arma-arma11": "a residual is made of the one before",
    "bball_drive_event_0-hmm_drive_0": "hidden Markov chain",
    "bball_drive_event_1-hmm_drive_1": "hidden Markov chain",
    "eight_schools-eight_schools_noncentered": "one parameter a row",
    "garch-garch11": "a variance is made of the one before",
    "gp_pois_regr-gp_pois_regr": "Gaussian process: one parameter a row",
    "gp_pois_regr-gp_regr": "Gaussian process: rows are not independent",
    "hmm_example-hmm_example": "hidden Markov chain",
    "hudson_lynx_hare-lotka_volterra": "differential equation over all times",
    "mcycle_gp-accel_gp": "Gaussian process",
    "one_comp_mm_elim_abs-one_comp_mm_elim_abs": "differential equation over all times",
}


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


def earnings(transform: Callable[..., Any], of_covariates: Callable[..., Any]) -> Callable[[Data], pm.Model]:
    """Return a maker of a regression of earnings."""

    def make(data: Data) -> pm.Model:
        earn, height, male = columns(data, "earn", "height", "male")
        return regression(of_covariates(height, male), transform(earn))

    return make


def kidiq(of_covariates: Callable[..., Any], cauchy: bool) -> Callable[[Data], pm.Model]:
    """Return a maker of a regression of children's scores."""

    def make(data: Data) -> pm.Model:
        score, hs, iq = columns(data, "kid_score", "mom_hs", "mom_iq")
        return regression(of_covariates(hs, iq), score, cauchy)

    return make


def mom_work(data: Data) -> pm.Model:
    work, score = np.asarray(data["mom_work"]), np.asarray(data["kid_score"], float)
    return regression([(work == k).astype(float) for k in (2, 3, 4)], score)


def mesquite(of_covariates: Callable[..., Any], of_weight: Callable[..., Any]) -> Callable[[Data], pm.Model]:
    """Return a maker of a regression of the weight of bushes."""
    names = ("diam1", "diam2", "canopy_height", "total_height", "density", "group")

    def make(data: Data) -> pm.Model:
        weight, *others = columns(data, "weight", *names)
        return regression(of_covariates(*others), of_weight(weight))

    return make


def nes(data: Data) -> pm.Model:
    party, *others = columns(data, "partyid7", "real_ideo", "race_adj", "educ1", "gender", "income")
    age = np.asarray(data["age_discrete"])
    ages = [(age == k).astype(float) for k in (2, 3, 4)]
    return regression([*others[:2], *ages, *others[2:]], party)


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


log = np.log
MODELS: dict[str, Callable[[Data], pm.Model]] = {
    "earnings-earn_height": earnings(lambda e: e, lambda h, m: [h]),
    "earnings-log10earn_height": earnings(np.log10, lambda h, m: [h]),
    "earnings-logearn_height": earnings(log, lambda h, m: [h]),
    "earnings-logearn_height_male": earnings(log, lambda h, m: [h, m]),
    "earnings-logearn_interaction": earnings(log, lambda h, m: [h, m, h * m]),
    "earnings-logearn_interaction_z": earnings(log, lambda h, m: [z(h), m, z(h) * m]),
    "earnings-logearn_logheight_male": earnings(log, lambda h, m: [log(h), m]),
    "kidiq-kidscore_interaction": kidiq(lambda h, i: [h, i, h * i], True),
    "kidiq-kidscore_momhs": kidiq(lambda h, i: [h], True),
    "kidiq-kidscore_momhsiq": kidiq(lambda h, i: [h, i], True),
    "kidiq-kidscore_momiq": kidiq(lambda h, i: [i], True),
    "kidiq_with_mom_work-kidscore_interaction_c": kidiq(
        lambda h, i: [h - h.mean(), i - i.mean(), (h - h.mean()) * (i - i.mean())], False
    ),
    "kidiq_with_mom_work-kidscore_interaction_c2": kidiq(lambda h, i: [h - 0.5, i - 100, (h - 0.5) * (i - 100)], False),
    "kidiq_with_mom_work-kidscore_interaction_z": kidiq(lambda h, i: [z(h, 2), z(i, 2), z(h, 2) * z(i, 2)], False),
    "kidiq_with_mom_work-kidscore_mom_work": mom_work,
    "mesquite-mesquite": mesquite(lambda *x: list(x), lambda w: w),
    "mesquite-logmesquite": mesquite(lambda *x: [*map(log, x[:5]), x[5]], log),
    "mesquite-logmesquite_logva": mesquite(lambda a, b, c, t, d, g: [area(a, b * c), area(a, b), g], log),
    "mesquite-logmesquite_logvas": mesquite(
        lambda a, b, c, t, d, g: [area(a, b * c), area(a, b), log(a / b), log(t), log(d), g], log
    ),
    "mesquite-logmesquite_logvash": mesquite(
        lambda a, b, c, t, d, g: [area(a, b * c), area(a, b), log(a / b), log(t), g], log
    ),
    "mesquite-logmesquite_logvolume": mesquite(lambda a, b, c, t, d, g: [area(a, b * c)], log),
    **{f"nes{year}-nes": nes for year in range(1972, 2001, 4)},
    "sblrc-blr": blr,
    "sblri-blr": blr,
    "kilpisjarvi_mod-kilpisjarvi": kilpisjarvi,
    "arK-arK": ar_k,
    "diamonds-diamonds": diamonds,
    "low_dim_gauss_mix-low_dim_gauss_mix": gauss_mix,
}


def four(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean, standard deviation and two quantiles of draws by chain, and their Monte Carlo errors."""
    errors = [az.mcse(x, method="mean"), az.mcse(x, method="sd")]
    errors += [az.mcse(x, method="quantile", prob=p) for p in (0.05, 0.95)]
    return np.array([x.mean(), x.std(), *np.quantile(x, [0.05, 0.95])]), np.array(errors, float)


def compare(idata: Any, reference: list[dict[str, list[float]]]) -> tuple[float, float]:
    """Return the largest error, and what of it Monte Carlo errors do not explain."""
    names = [n for n in reference[0] if n.split("[")[0] in idata["posterior"]]
    errors, shown = [], []
    for name in names:
        whole, _, index = name.partition("[")
        draws = idata["posterior"][whole].to_numpy()
        draws = draws[..., int(index[:-1]) - 1] if index else draws
        right = np.array([chain[name] for chain in reference])
        (found, mcse), (true, true_mcse) = four(draws), four(right)
        error = np.abs(found - true) / right.std()
        errors.append(error.max())
        slack = stats.norm.isf(LEVEL / 8 / len(names)) * np.hypot(mcse, true_mcse) / right.std()
        shown.append((error - slack).max())
    return max(errors), max(0.0, *shown)


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
    error, shown = compare(idata, read(f"reference_posteriors/draws/draws/{at}.json.zip", repository))
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
    parser.add_argument("--markdown", action="store_true", help="print rows as they come, for a page")
    chosen = parser.parse_args()
    for name in ("pymc", "pymc_austerity"):
        logging.getLogger(name).setLevel(logging.ERROR)
    heads = ["posterior", "rows", "rows a draw", "error (beyond MC)", "verdict", "s"]
    table = Table(*heads)
    for name in chosen.only:
        cells = row_of(name, chosen.path, getattr(pma, chosen.step))
        if chosen.markdown:
            print("| " + " | ".join(cells) + " |", flush=True)
        table.add_row(*cells)
    console = Console(width=170)
    console.print(table)
    for name, reason in REFUSED.items():
        console.print(f"{name}: {reason}")


if __name__ == "__main__":
    main()
