"""Seconds of a run whose chains are forked, spawned, or started by a server, with the code that is on disk.

Run ``python benchmarks/workers.py`` (``--rows`` chooses the size).  A step is built once and sampled once in this
process, so that the machine code is on disk; then the same two chains are drawn by processes of each kind.  What the
two last take beyond the forked run is the import of PyMC and the loading of the code.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pymc as pm
from rich.console import Console
from rich.table import Table

import pymc_austerity as pma

METHODS = ("fork", "spawn", "forkserver")


def logistic(n_rows: int) -> pm.Model:
    """Return a logistic regression with 10 coefficients."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, 10))
    effect = X @ rng.normal(0, 0.3, size=10)
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=X @ pm.Normal("beta", shape=10), observed=1 * (rng.logistic(size=n_rows) < effect))
    return model


def cpu() -> float:
    """Return the CPU seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--draws", type=int, default=1_000)
    arguments = parser.parse_args()
    table = Table("processes", "wall s", "CPU s", "wall s beyond the forked run")
    quiet = {"progressbar": False, "compute_convergence_checks": False, "random_seed": 1, "tune": 500, "chains": 2}
    with logistic(arguments.rows):
        step = pma.PenaltyMH(progressbar=False)
        pm.sample(draws=arguments.draws, step=step, cores=1, **quiet)
        forked = 0.0
        for method in METHODS:
            wall, used = time.perf_counter(), cpu()
            pm.sample(draws=arguments.draws, step=step, cores=2, mp_ctx=method, **quiet)
            wall, used = time.perf_counter() - wall, cpu() - used
            forked = forked or wall
            table.add_row(method, f"{wall:.1f}", f"{used:.1f}", f"{wall - forked:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
