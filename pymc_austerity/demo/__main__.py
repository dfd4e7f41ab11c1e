"""The command ``python -m pymc_austerity.demo``."""

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd

from pymc_austerity.demo.regression import (
    FAMILIES,
    STEPS,
    kind_of,
    rand_health_insurance,
    regression,
    rows_from_file,
    synthetic,
)
from pymc_austerity.demo.timed_runs import Deadline, Run, effective_draws, figure, nutpie_until, run_until
from pymc_austerity.diagnostics import compare, data_usage

NUTS = "NUTS"
#: Columns of `compare` that are printed.
COMPARED = ["mean", "sd", "shift", "shift_mcse", "sd_ratio", "sd_ratio_mcse", "differs"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample a regression with the recommended step and with NUTS, and compare results and costs."""
    parser = argparse.ArgumentParser(
        prog="python -m pymc_austerity.demo",
        description="Sample a regression with the recommended step and with NUTS, and compare them.",
    )
    cores = os.cpu_count() or 1
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--rows", type=int, default=1_000_000, help="rows of a made-up table (%(default)s)")
    rows.add_argument("--data", type=Path, help=".npz file with X (rows, covariates) and y (rows,)")
    rows.add_argument("--rand", action="store_true", help="the 20,190 rows of the RAND Health Insurance Experiment")
    parser.add_argument("--chains", type=int, default=max(2, min(4, cores)), help="chains of each run (%(default)s)")
    parser.add_argument("--draws", type=int, default=2_000, help="draws a chain of the step (%(default)s)")
    parser.add_argument("--tune", type=int, default=300, help="tuning draws a chain of it (%(default)s)")
    parser.add_argument("--nuts-draws", type=int, default=500, help="draws a chain of NUTS (%(default)s)")
    parser.add_argument("--nuts-tune", type=int, default=100, help="tuning draws a chain of NUTS (%(default)s)")
    parser.add_argument("--seconds", type=float, default=60, help="seconds after which NUTS is stopped (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of both runs (%(default)s)")
    parser.add_argument("--figure", type=Path, default=Path("output/demo.png"), help="figure file (%(default)s)")
    chosen = parser.parse_args(arguments)
    try:
        imports = seconds_since_start()  # both runs share the imports, and a user waits for them in either
        X, y, source = _rows(chosen)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        parser.error(str(error))
    kind = kind_of(y)
    print(f"{len(X):,} rows, {X.shape[1]} covariates: {source}; {FAMILIES[kind]} regression", flush=True)

    build, runs = STEPS[kind], {}
    with regression(X, y):
        # Named because PyMC takes every second core for a thread of the first, and two cores are then one.
        common = {"chains": chosen.chains, "cores": min(chosen.chains, cores), "random_seed": chosen.seed}
        deadline = Deadline(imports)
        runs[build.__name__] = run_until(deadline, draws=chosen.draws, tune=chosen.tune, step=build(), **common)
        print(f"NUTS on the same model; it is stopped {chosen.seconds:.0f} s after its start.", flush=True)
        deadline = Deadline(imports, chosen.seconds)
        nuts_until = nutpie_until if find_spec("nutpie") else run_until  # the faster NUTS, where it is installed
        runs[NUTS] = nuts_until(deadline, draws=chosen.nuts_draws, tune=chosen.nuts_tune, **common)

    ours, nuts = (run.idata for run in runs.values())
    summary = az.summary(ours)
    chosen.figure.parent.mkdir(parents=True, exist_ok=True)
    figure(runs, n_parameters=len(summary)).savefig(chosen.figure, dpi=150)
    with pd.option_context("display.width", 160, "display.max_columns", None, "display.precision", 3):
        print(f"\n{build.__name__}, ArviZ summary\n{summary}\n")
        print("\n".join(lines_of(runs)))
        if nuts is not None:
            table = compare({build.__name__: ours, NUTS: nuts}, reference=NUTS).xs(build.__name__, level="run")
            print(f"\n{build.__name__} against {NUTS}, shifts in posterior sd\n{table[COMPARED]}")
            print(f"{(table['differs'] != '').sum()} of {len(table)} parameters differ beyond Monte Carlo error")
    print(f"\nFigure: {chosen.figure}")


def seconds_since_start() -> float:
    """Return how long ago this process began."""
    try:
        import psutil
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "psutil, which knows when a process began, is not installed. Run `pip install 'pymc-austerity[demo]'`."
        ) from error
    return time.time() - psutil.Process().create_time()


def lines_of(runs: Mapping[str, Run]) -> list[str]:
    """Return how long each run took and what the first, of the step, read, a line each."""
    lines = []
    for name, run in runs.items():
        if run.idata is None:
            lines.append(f"{name:10} was stopped after {run.seconds:.0f} s, still tuning")
            continue
        sizes, (seconds, effective) = run.idata["posterior"].sizes, effective_draws(run)
        lines.append(
            f"{name:10} {sizes['chain']} x {sizes['draw']:,} draws, the first {run.arrivals[0]:.0f} s after the start "
            f"of the process, the last after {seconds[-1]:.0f} s{'' if run.finished else ' (stopped there)'}; "
            f"effective draws of the slowest parameter: {effective[-1]:,.0f}"
        )
    usage = data_usage(next(iter(runs.values())).idata)
    return [*lines, f"{'rows':10} {usage['mean']:,.3g} read a draw, of {usage['total_rows']:,.0f}"]


def _rows(chosen: argparse.Namespace) -> tuple[pd.DataFrame, np.ndarray, str]:
    """Return the covariates and the outcome that were asked for, and where they are from."""
    if chosen.data:
        return *rows_from_file(chosen.data), str(chosen.data)
    if chosen.rand:
        return *rand_health_insurance(), "who saw a doctor in the RAND Health Insurance Experiment"
    return *synthetic(chosen.rows, chosen.seed), "a made-up table"


if __name__ == "__main__":
    main()
