"""A table that is mostly zeros, read by its entries and as a dense one: set-up, rows, time and memory.

Run ``python benchmarks/sparse.py``, with ``--rows 100000 --columns 500 --entries 20`` for a synthetic table in place of
a9a.  Each line is a process of its own, so that memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm
import pytensor.sparse as ps
from rich.console import Console
from rich.table import Table
from scipy import sparse

import pymc_austerity as pma

FOLDER = Path(os.environ.get("PMA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
DRAWS, TUNE = 10_000, 1_000


def a9a() -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return the rows of a9a and their labels."""
    stored = np.load(FOLDER / "a9a.npz")
    return sparse.csr_matrix(stored["X_train"].astype(float)), (stored["y_train"] > 0).astype(int)


def synthetic(n_rows: int, n_columns: int, entries: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return rows of words, whose frequencies fall like those of a language."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, n_columns + 1) ** 0.8
    columns = rng.choice(n_columns, (n_rows, entries), p=frequency / frequency.sum())
    starts = np.arange(n_rows + 1) * entries
    table = sparse.csr_matrix((np.ones(columns.size), columns.ravel(), starts), (n_rows, n_columns))
    table.sum_duplicates()
    eta = table @ rng.normal(0, 0.3, n_columns)
    return table, (rng.random(n_rows) < 1 / (1 + np.exp(-eta))).astype(int)


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """Return what one run took."""
    if arguments.rows:
        table, labels = synthetic(arguments.rows, arguments.columns, arguments.entries)
    else:
        table, labels = a9a()
    with pm.Model():
        beta = pm.Normal("beta", 0, 1, shape=table.shape[1])
        eta = ps.dot(table, beta) if arguments.as_ == "sparse" else pm.math.dot(table.toarray(), beta)
        pm.Bernoulli("y", logit_p=eta, observed=labels)
        began = time.process_time()
        step = pma.PenaltyMH(progressbar=False)
        built = time.process_time()
        idata = pm.sample(
            DRAWS, tune=TUNE, chains=1, step=step, random_seed=1, progressbar=False, compute_convergence_checks=False
        )
        sampled = time.process_time() - built
    smallest = float(az.ess(idata)["beta"].min())
    return {
        "set-up, CPU s": built - began,
        "rows a draw": float(pma.data_usage(idata)["mean"]),
        "µs a draw": 1e6 * sampled / (DRAWS + TUNE),
        "effective draws a CPU s": smallest / sampled,
        "most memory, GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--columns", type=int, default=500)
    parser.add_argument("--entries", type=int, default=20)
    parser.add_argument("--as", dest="as_", choices=["sparse", "dense"], help="measure one, in this process")
    arguments = parser.parse_args()
    if arguments.as_:
        print(json.dumps(measure(arguments)))
        return
    if not arguments.rows and not (FOLDER / "a9a.npz").exists():
        print(f"no a9a.npz in {FOLDER}: set PMA_DATA, or give --rows")
        return
    table = Table("table", "set-up, CPU s", "rows a draw", "µs a draw", "effective draws a CPU s", "most memory, GB")
    for kind in ("sparse", "dense"):
        ran = subprocess.run([sys.executable, *sys.argv, "--as", kind], stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(ran.stdout.splitlines()[-1])
        table.add_row(kind, *(f"{value:,.4g}" for value in found.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
