"""Sample once and say what it took; time a call; run the script again in a process of its own."""

from __future__ import annotations

import json
import logging
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TextIO

import arviz as az
import pandas as pd
import pymc as pm

from pymc_austerity.diagnostics.results import as_dataset, group

ONE_CHAIN: dict[str, Any] = {
    "chains": 1, "cores": 1, "random_seed": 1, "progressbar": False, "compute_convergence_checks": False,
}  # fmt: skip


class Run(NamedTuple):
    """One finished run: its draws, the seconds of set-up and of sampling, and its step where it is one of ours."""

    idata: Any
    set_up: float
    sampling: float
    step: Any = None


def sampled(build: Callable[[], Any], draws: int, tune: int) -> Run:
    """Build a step in the context of its model and sample, timed by the processor.

    A few draws are made first: what is imported and loaded once says nothing of a draw.
    """
    start = time.process_time()
    step = build()
    set_up = time.process_time() - start
    pm.sample(10, tune=10, step=step, quiet=True, **ONE_CHAIN)
    start = time.process_time()
    idata = pm.sample(draws, tune=tune, step=step, quiet=True, **ONE_CHAIN)
    return Run(idata, set_up, time.process_time() - start, step)


def smallest_ess(idata: Any) -> float:
    """Return ArviZ's bulk ESS of the slowest parameter."""
    effective = as_dataset(az.ess(group(idata, "posterior")))
    return min(float(values.min()) for values in effective.data_vars.values())


def best(call: Callable[[], Any], n: int, each: int = 1) -> float:
    """Return the fewest microseconds of processor time, in five goes, that one of `n` × `each` took."""
    call()
    found = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(n):
            call()
        found.append(time.process_time() - start)
    return 1e6 * min(found) / (n * each)


def quiet() -> None:
    """Silence what PyMC and this package log."""
    for name in ("pymc", "pymc_austerity"):
        logging.getLogger(name).setLevel(logging.ERROR)


def peak_memory() -> float:
    """Return the most memory that this process has held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def elsewhere(*arguments: str) -> Any:
    """Run this script in another process, and return what it prints in its last line, as JSON."""
    command = [sys.executable, sys.argv[0], *arguments]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(told.splitlines()[-1])


def show(lines: list[dict[str, Any]] | pd.DataFrame, to: TextIO = sys.stdout) -> None:
    """Print a table in Markdown, to stderr what is only there to see how far a benchmark is."""
    table = pd.DataFrame(lines)
    cells = [table.columns, ["---"] * table.shape[1], *table.itertuples(index=False)]
    for line in cells:
        print("| " + " | ".join(map(_cell, line)) + " |", file=to, flush=True)


def _cell(value: Any) -> str:
    """Return a number in three digits, and all of its digits from a thousand on."""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")
    return "" if value != value else f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
