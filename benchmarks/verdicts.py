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
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from agreement import Four, beyond_chance, flat, four_of
from rich.console import Console
from rich.table import Table
from scipy import stats
from timing import ONE_CHAIN
from verdict_cases import CASES, MODELS, Case, N, is_for_choosing, rows_of_shape, step_of

import pymc_austerity as pma

LEVEL = 0.05
#: Errors above the first are wrong, below the second right, if Monte Carlo errors are below the third.
WRONG, RIGHT, KNOWN = 0.1, 0.03, 0.1
VERDICTS = ("trust", "not known", "trust with care", "do not trust")


def summarise(idata: Any, model: pm.Model) -> Four:
    """Return the four numbers of every parameter."""
    return four_of(flat(idata, [rv.name for rv in model.free_RVs]))


@cache
def answer(model: str, data: str) -> Four:
    """Return the right answer, in closed form or from a long exact run."""
    if model == "mean":
        sd = 1 / np.sqrt(N)
        half = stats.norm.isf(0.05) * sd
        return Four(np.array([[0.0], [sd], [-half], [half]]), np.zeros((4, 1)))
    built = MODELS[model](data)
    with built:
        idata = pm.sample(5_000, tune=500, step=pma.ExactMH(), **{**ONE_CHAIN, "chains": 4, "random_seed": 11})
    return summarise(idata, built)


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
    return made, step_of(step, made)


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
    error, shown, mcse = beyond_chance(summarise(idata, model), answer(case.model, case.data), LEVEL)
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
    chosen.out.touch()
    found = {tuple(r["case"]): r for r in map(json.loads, chosen.out.read_text().splitlines())}
    with chosen.out.open("a") as file:
        for case in CASES[-chosen.last :]:
            if case.model in chosen.models and tuple(case) not in found:
                found[tuple(case)] = run(case)
                file.write(json.dumps(found[tuple(case)]) + "\n")
                file.flush()
    show(pd.DataFrame([found[tuple(c)] for c in CASES if tuple(c) in found]))


if __name__ == "__main__":
    main()
