"""Rows that repeat: draws from the flights as they lie and from the distinct ones with their counts.

Run ``python benchmarks/merged_rows.py``; it takes about five minutes.  Whether a flight came late, by carrier,
destination and month: three factors, some thousand distinct rows among 327,346.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings

import numpy as np
import pymc as pm
from problems import load
from rich.console import Console
from rich.table import Table

import pymc_austerity as pma


def flights() -> pm.Model:
    """Logistic regression of a delay of more than 15 minutes on carrier, destination and month."""
    data = load("nycflights13")
    names = [str(name) for name in data["feature_names"]]
    numbers = [np.unique(data["X"][:, names.index(k)], return_inverse=True)[1] for k in ("carrier", "dest", "month")]
    with pm.Model() as model:
        predictor = pm.Normal("intercept", 0, 2)
        for name, number in zip(("carrier", "destination", "month"), numbers):
            scale = pm.HalfNormal(f"scale_{name}", 1)
            predictor = predictor + pm.Normal(name, 0, scale, shape=int(number.max()) + 1)[number]
        pm.Bernoulli("late", logit_p=predictor, observed=(data["y"] > 15).astype(np.int8))
    return model


TUNE = 500
STEPS = {
    "PenaltyMH()": pma.PenaltyMH,
    "MHSS()": pma.MHSS,
    "ExactMH()": pma.ExactMH,
    "PenaltyMH(proxy=None)": lambda **options: pma.PenaltyMH(proxy=None, **options),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    arguments = parser.parse_args()
    for name in ("pymc", "pymc_austerity"):
        logging.getLogger(name).setLevel(logging.ERROR)
    table = Table("step", "merged", "rows", "set-up, s", "passes", "rows a draw", "µs a draw", "ESS", "ESS/s")
    for name in arguments.steps:
        for merge_rows in (False, True):
            with warnings.catch_warnings(), flights():
                warnings.simplefilter("ignore")
                step = STEPS[name](merge_rows=merge_rows, progressbar=False)
                draws = arguments.draws if "Exact" not in name and "None" not in name else arguments.draws // 4
                started = time.perf_counter()
                idata = pm.sample(
                    step=step, tune=TUNE, draws=draws, chains=1, cores=1, random_seed=1, progressbar=False,
                    compute_convergence_checks=False,
                )  # fmt: skip
                seconds = time.perf_counter() - started
            usage = pma.data_usage(idata)
            micro = usage["sampling_seconds"] / (TUNE + draws) * 1e6
            table.add_row(
                name, "yes" if merge_rows else "no", f"{usage['distinct_rows']:,.0f}", f"{usage['setup_seconds']:.0f}",
                f"{usage['setup_passes']:.1f}", f"{usage['mean']:,.3g}", f"{micro:,.0f}", f"{usage['ess']:,.0f}",
                f"{usage['ess'] / seconds:.3g}",
            )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
