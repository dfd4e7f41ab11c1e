"""A table that is mostly zeros, read by its entries and as a dense one: set-up, rows, time and memory.

Run ``python benchmarks/sparse_rows.py``, with ``--rows 100000 --columns 500 --entries 20`` for a synthetic table of
words under a shrinkage prior in place of a9a, and ``--kinds sparse --draws 200 --tune 100`` where a draw takes long.
With ``nuts`` among the kinds PyMC's NUTS samples the sparse model too, and a line says how far the two are apart.
Each line is a process of its own, so that memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
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


def build(arguments: argparse.Namespace) -> pm.Model:
    """Return the logistic regression: of a9a with a known prior, of words with one of unknown width."""
    if arguments.rows:
        table, labels = synthetic(arguments.rows, arguments.columns, arguments.entries)
    else:
        table, labels = a9a()
    with pm.Model() as model:
        width = pm.HalfNormal("width", 1) if arguments.rows else 1.0
        beta = pm.Normal("beta", 0, width, shape=table.shape[1])
        eta = pm.math.dot(table.toarray(), beta) if arguments.as_ == "dense" else ps.dot(table, beta)
        pm.Bernoulli("y", logit_p=eta, observed=labels)
    return model


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """Return what one run took."""
    with build(arguments):
        began = time.process_time()
        step = pm.NUTS() if arguments.as_ == "nuts" else pma.PenaltyMH(progressbar=False)
        built = time.process_time()
        idata = pm.sample(
            arguments.draws, tune=arguments.tune, chains=1, step=step, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
        sampled = time.process_time() - built
    if arguments.keep:
        draws = idata["posterior"]["beta"].to_numpy()[0]
        error = az.mcse(idata, var_names="beta")["beta"].to_numpy()
        np.savez(f"{arguments.keep}_{arguments.as_}", mean=draws.mean(axis=0), sd=draws.std(axis=0), error=error)
    accepted = float(idata["sample_stats"]["accepted"].mean()) if arguments.as_ != "nuts" else np.nan
    return {
        "set-up, CPU s": built - began,
        "rows a draw": float(pma.data_usage(idata)["mean"]) if arguments.as_ != "nuts" else np.nan,
        "µs a draw": 1e6 * sampled / (arguments.draws + arguments.tune),
        "accepted": accepted,
        "effective draws a CPU s": float(az.ess(idata)["beta"].min()) / sampled,
        "most memory, GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def distance(kept: str) -> str:
    """Return in words how far the sparse run is from NUTS."""
    ours, nuts = (np.load(f"{kept}_{kind}.npz") for kind in ("sparse", "nuts"))
    shift, error = (ours["mean"] - nuts["mean"]) / nuts["sd"], np.hypot(ours["error"], nuts["error"]) / nuts["sd"]
    ratio = ours["sd"] / nuts["sd"]
    rms, of_error = (np.sqrt(np.mean(v**2)) for v in (shift, error))
    return (
        f"shift of the means, posterior sd: rms {rms:.3f} (its Monte Carlo error {of_error:.3f}), at most "
        f"{np.abs(shift).max():.3f}; largest z {np.abs(shift / error).max():.1f} of {shift.size}; sd ratios "
        f"{ratio.mean():.3f} on average, {ratio.min():.3f} to {ratio.max():.3f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--columns", type=int, default=500)
    parser.add_argument("--entries", type=int, default=20)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--tune", type=int, default=1_000)
    parser.add_argument("--kinds", nargs="+", choices=["sparse", "dense", "nuts"], default=["sparse", "dense"])
    parser.add_argument("--as", dest="as_", choices=["sparse", "dense", "nuts"], help="measure one, in this process")
    parser.add_argument("--keep", help="where the moments of a run go, with --as")
    arguments = parser.parse_args()
    if arguments.as_:
        print(json.dumps(measure(arguments)))
        return
    if not arguments.rows and not (FOLDER / "a9a.npz").exists():
        print(f"no a9a.npz in {FOLDER}: set PMA_DATA, or give --rows")
        return
    columns = ["set-up, CPU s", "rows a draw", "µs a draw", "accepted", "effective draws a CPU s", "most memory, GB"]
    table = Table("table", *columns)
    with tempfile.TemporaryDirectory() as folder:
        kept = f"{folder}/moments"
        for kind in arguments.kinds:
            command = [sys.executable, *sys.argv, "--keep", kept, "--as", kind]
            found = json.loads(
                subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
            )
            table.add_row(kind, *(f"{value:,.4g}" for value in found.values()))
        Console().print(table)
        if {"sparse", "nuts"} <= set(arguments.kinds):
            print(distance(kept))


if __name__ == "__main__":
    main()
