"""Models with many groups: effective draws a CPU second of `GroupMH` beside nutpie, or PyMC's NUTS without it.

Run ``python benchmarks/groups.py`` (``--sizes`` chooses, ``--draws``, ``--reference 0`` leaves nutpie out).  A logistic
regression with five slopes, groups of very unequal size and an unknown mean and scale of their effects.  One chain
each.  CPU time of sampling, tuning included, set-up by itself.  ESS is ArviZ's bulk ESS: the smallest of what the
groups share, and that of the slowest of 20 groups.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import as_dataset, group

OUTPUT = Path(__file__).parent / "output"
SIZES = {"30,000 x 306": (30_000, 300), "200,000 x 2,006": (200_000, 2_000), "1,000,000 x 10,006": (1_000_000, 10_000)}
SHARED = ["intercept", "log_scale", "slopes"]


def model_of(n_rows: int, n_groups: int) -> pm.Model:
    """Build a logistic regression with an effect for each group, the sizes of the groups log-normal."""
    rng = np.random.default_rng(17)
    share = rng.lognormal(0, 1, n_groups)
    g = rng.choice(n_groups, n_rows, p=share / share.sum())
    X = rng.normal(size=(n_rows, 5))
    effects = rng.normal(-0.5, 0.7, n_groups)
    eta = effects[g] + X @ np.array([0.5, -0.3, 0.2, 0.0, 0.4])
    y = rng.random(n_rows) < 1 / (1 + np.exp(-eta))
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, 2)
        log_scale = pm.Normal("log_scale", 0, 1)
        slopes = pm.Normal("slopes", 0, 1, shape=5)
        effect = pm.Normal("effect", intercept, pm.math.exp(log_scale), shape=n_groups)
        pm.Bernoulli("y", logit_p=effect[g] + X @ slopes, observed=y.astype(np.int8))
    return model


def summary(idata: Any, seconds: float, set_up: float, n_groups: int) -> dict[str, float]:
    """Return effective draws a CPU second, and means and standard deviations to compare."""
    posterior = as_dataset(group(idata, "posterior"))
    some = np.random.default_rng(1).choice(n_groups, 20, replace=False)
    shared = as_dataset(az.ess(posterior[SHARED]))
    effects = as_dataset(az.ess(posterior[["effect"]].isel(effect_dim_0=some)))
    return {
        "set-up s": set_up,
        "sampling s": seconds,
        "ESS/s shared": min(float(v.min()) for v in shared.data_vars.values()) / seconds,
        "ESS/s effects": float(effects["effect"].min()) / seconds,
        "mean of log_scale": float(posterior["log_scale"].mean()),
        "sd of log_scale": float(posterior["log_scale"].std()),
        "mean of intercept": float(posterior["intercept"].mean()),
        "sd of intercept": float(posterior["intercept"].std()),
    }


def run_groups(model: pm.Model, tune: int, draws: int, n_groups: int) -> dict[str, float]:
    """Sample with `GroupMH`."""
    with model:
        start = time.process_time()
        step = pma.GroupMH(progressbar=False)
        set_up = time.process_time() - start
        start = time.process_time()
        idata = pm.sample(
            draws, tune=tune, step=step, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
        seconds = time.process_time() - start
    stats = group(idata, "sample_stats")
    return {
        "rows a draw": float(stats["n_rows"].mean()),
        "of which carried": float(stats["n_rows_carried"].mean()),
        "carried accepted": float(stats["accepted"].mean()),
        "length of its moves": float(stats["scaling"].mean()),
        "refreshed accepted": float(stats["refresh_accept"].mean()),
        "ms a draw": 1e3 * seconds / (draws + tune),
        **summary(idata, seconds, set_up, n_groups),
    }


def run_reference(model: pm.Model, draws: int, n_groups: int) -> dict[str, float]:
    """Sample with nutpie, or with PyMC's NUTS where it is not installed."""
    start = time.process_time()
    try:
        import nutpie

        compiled = nutpie.compile_pymc_model(model)
        set_up = time.process_time() - start
        start = time.process_time()
        idata = nutpie.sample(compiled, draws=draws, tune=draws, chains=1, cores=1, seed=1, progress_bar=False)
    except ImportError:
        set_up = 0.0
        with model:
            idata = pm.sample(draws, tune=draws, chains=1, cores=1, random_seed=1, progressbar=False)
    return summary(idata, time.process_time() - start, set_up, n_groups)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES)[:2], choices=list(SIZES))
    parser.add_argument("--tune", type=int, default=1_500)
    parser.add_argument("--draws", type=int, default=6_000)
    parser.add_argument(
        "--reference", type=int, default=300, help="draws of nutpie, after as many of tuning; 0 leaves it out"
    )
    options = parser.parse_args()
    found: dict[tuple[str, str], dict[str, float]] = {}
    OUTPUT.mkdir(exist_ok=True)
    for name in options.sizes:
        n_rows, n_groups = SIZES[name]
        model = model_of(n_rows, n_groups)
        found[name, "GroupMH"] = run_groups(model, options.tune, options.draws, n_groups)
        if options.reference:
            found[name, "NUTS"] = run_reference(model, options.reference, n_groups)
        table = pd.DataFrame(found)
        table.to_csv(OUTPUT / "groups.csv")
        print(table.to_string(float_format=lambda x: f"{x:,.4g}"), flush=True)


if __name__ == "__main__":
    main()
