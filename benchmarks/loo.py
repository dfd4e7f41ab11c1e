"""Leave-one-out from a sample of rows: coverage and variance against ArviZ's on all rows, and 1e7 rows.

Run ``python benchmarks/loo.py --models`` for six models of 10,000 to 100,000 rows.  Their draws are of NUTS.  ArviZ's
``loo`` of all rows is the truth, the surrogate is found once, and the rows are drawn 100 times.  Reported are the
error in standard errors (its root mean square, and how often it is below 1.96), and the variance of ArviZ's
``loo_subsample`` (simple random samples, its surrogate the log predictive density with the row, ``lpd``, or that at the
mean, ``plpd``) over that of `pymc_austerity.loo` at the same number of rows.

Run ``python benchmarks/loo.py --rows 1e7`` for seconds and peak memory of a logistic regression with ten coefficients,
whose draws are those of the normal approximation to its posterior.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr
from scipy import special
from timing import show

import pymc_austerity as pma
from pymc_austerity.prediction.arviz_loo import effective_share, leave_out
from pymc_austerity.prediction.loo_surrogate import surrogate_of_rows
from pymc_austerity.prediction.row_strata import draw_strata, estimate_sum
from pymc_austerity.prediction.rows_of_run import read_rows_of_run

RUNS, SAMPLED, AT_ONCE = 100, 500, 2_000


def logistic() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100_000, 5))
    seen = rng.random(len(X)) < special.expit(X @ np.linspace(-1, 1, 5))
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", 0, 1, shape=5), observed=seen)


def counts() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(20_000, 4)) * rng.lognormal(0, 0.5, size=(20_000, 1))
    y = rng.poisson(np.exp(1 + X @ np.array([0.3, -0.2, 0.1, 0.0]) + rng.normal(0, 0.7, 20_000)))
    pm.Poisson("y", pm.math.exp(pm.Normal("a") + X @ pm.Normal("b", 0, 1, shape=4)), observed=y)


def heavy_tails() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(10_000, 3))
    mu = pm.Normal("a") + X @ pm.Normal("b", 0, 1, shape=3)
    y = X.sum(axis=1) + rng.standard_t(3, 10_000)
    pm.StudentT("y", nu=pm.Gamma("nu", 2, 0.1), mu=mu, sigma=pm.HalfNormal("s"), observed=y)


def outliers() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_t(3, size=(10_000, 5))
    y = X.sum(axis=1) + rng.standard_t(3, 10_000)
    pm.Normal("y", X @ pm.Normal("b", 0, 1, shape=5), pm.HalfNormal("s"), observed=y)


def groups() -> None:
    rng = np.random.default_rng(5)
    g, x = rng.integers(0, 500, 20_000), rng.normal(size=20_000)
    u, v = rng.normal(0, 0.8, 500), rng.normal(0, 0.4, 500)
    y = rng.random(20_000) < special.expit(u[g] + v[g] * x)
    scale = pm.HalfNormal("scale", shape=2)
    z = pm.Normal("z", shape=(500, 2))
    effects = pm.Normal("mean", shape=2) + scale * z
    pm.Bernoulli("y", logit_p=effects[g, 0] + effects[g, 1] * x, observed=y)


def ordered() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(10_000, 4))
    y = np.digitize(X @ np.array([1, -0.5, 0.2, 0]) + rng.logistic(size=10_000), [-1, 0.5, 2])
    cuts = pm.Normal("cuts", 0, 2, shape=3, transform=pm.distributions.transforms.ordered, initval=[-1, 0, 1])
    pm.OrderedLogistic("y", eta=X @ pm.Normal("b", 0, 1, shape=4), cutpoints=cuts, observed=y)


MODELS: list[Callable[[], None]] = [logistic, counts, heavy_tails, outliers, groups, ordered]


def of_model(define: Callable[[], None]) -> dict[str, Any]:
    with pm.Model() as model:
        define()
        idata = pm.sample(
            500, tune=500, chains=2, cores=1, random_seed=1, nuts_sampler="nutpie", progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    start = time.process_time()
    run = read_rows_of_run(idata, model, None, None, False)
    rng = np.random.default_rng(1)
    surrogate = surrogate_of_rows(run, rng, False)
    once = time.process_time() - start
    start, share, rows = time.process_time(), effective_share(idata), run.table
    parts = [
        leave_out(run.at_numbers(np.arange(k, min(k + AT_ONCE, len(rows))), False, ""), run.n_chains, share)
        for k in range(0, len(rows), AT_ONCE)
    ]
    in_full = time.process_time() - start
    elpd, lpd, k = (np.concatenate([getattr(p, name) for p in parts]) for name in ("elpd", "lpd", "pareto_k"))
    errors, ses = [], []
    for _ in range(RUNS):
        strata = draw_strata(surrogate.influence, SAMPLED, rng)
        found = estimate_sum(surrogate.elpd, strata, elpd[strata.rows])
        errors.append(found.total - elpd.sum())
        ses.append(np.sqrt(found.variance))
    z, n = np.array(errors) / np.array(ses), len(elpd)
    at_mean = run.values(run.psi.mean(axis=0), rows.arrays)
    ours = float(np.mean(np.square(errors)))
    ratios = [n**2 * (1 - SAMPLED / n) * (elpd - s).var() / SAMPLED / ours for s in (lpd, at_mean)]
    return {
        "model": define.__name__.replace("_", " "),
        "rows": n,
        "elpd": elpd.sum(),
        "± over rows": np.sqrt(n * elpd.var()),
        f"error of {SAMPLED} rows": np.sqrt(ours),
        "within 1.96 of its errors": f"{np.mean(np.abs(z) < 1.96):.0%}",
        "variance of `lpd` over it": ratios[0],
        "variance of `plpd` over it": ratios[1],
        "largest k": k.max(),
        "surrogate, s": once,
        "all rows, s": in_full,
    }


def held(field: str = "VmRSS") -> float:
    """Return the memory that this process holds, in MB, and begin to look for its peak (VmHWM, of Linux)."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)]
    if field == "VmRSS":
        Path("/proc/self/clear_refs").write_text("5")
    return int(line.split()[1]) / 1e3


def of_size(n: int) -> None:
    rng, beta = np.random.default_rng(7), np.linspace(-0.5, 0.5, 10)
    X, y = np.empty((n, 10)), np.empty(n, np.int8)
    information = np.zeros((10, 10))
    for start in range(0, n, 100_000):
        part = slice(start, min(start + 100_000, n))
        X[part] = rng.standard_normal(X[part].shape)
        p = special.expit(X[part] @ beta)
        y[part] = rng.random(len(p)) < p
        information += (X[part] * (p * (1 - p))[:, None]).T @ X[part]
    draws = rng.multivariate_normal(beta, np.linalg.inv(information), size=(4, 500))
    posterior = xr.Dataset({"b": (("chain", "draw", "column"), draws)})
    old = int(az.__version__.partition(".")[0]) < 1
    idata = az.InferenceData(posterior=posterior) if old else xr.DataTree.from_dict({"posterior": posterior})
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=10)
        pm.Bernoulli("y", logit_p=pm.math.dot(pm.Data("X", X), b), observed=pm.Data("seen", y))
    before, cpu = held(), time.process_time()
    found = pma.loo(idata, model, random_seed=1, progressbar=False)
    line = {
        "rows": n,
        "data, MB": (X.nbytes + y.nbytes) / 1e6,
        "CPU s": time.process_time() - cpu,
        "memory beside, MB": held("VmHWM") - before,
        "elpd": float(found["elpd"]),
        "± over rows": float(found["se"]),
        "± of the sample": float(found["subsampling_se"]),
    }
    show([line])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--only", help="name of one of the models")
    parser.add_argument("--rows", type=float)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("pymc_austerity").setLevel("ERROR")
    if arguments.models:
        show([of_model(define) for define in MODELS if arguments.only in (None, define.__name__)])
    if arguments.rows:
        of_size(int(arguments.rows))
