"""What one partial posterior costs apart from its MCMC steps, and what a replication costs apart from φ.

Run as ``python benchmarks/paths_overhead.py``.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pymc as pm
from rich.console import Console
from rich.table import Table

from pymc_austerity import NutpieNUTS, PartialPosteriorPaths, PyMCNUTS, debias


def logistic(n_rows: int, columns: int) -> pm.Model:
    """Logistic regression on made-up rows."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, columns))
    y = rng.integers(0, 2, n_rows)
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=columns)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model


def main() -> None:
    """Print both tables."""
    warnings.simplefilter("ignore")
    table = Table("sampler", "rows", "compile, s (once)", "overhead, ms", "500 draws after 300, ms")
    for sampler in (NutpieNUTS(), PyMCNUTS()):
        paths = PartialPosteriorPaths(logistic(100_000, 10), "beta", sampler)
        begun = time.perf_counter()
        paths.compile()
        compiled = time.perf_counter() - begun
        for rows in (10, 100, 1_000):
            overhead = paths.overhead(rows)
            paths(np.arange(rows), np.random.default_rng(0))
            begun = time.perf_counter()
            paths(np.arange(rows), np.random.default_rng(1))
            whole = time.perf_counter() - begun
            table.add_row(
                type(sampler).__name__, f"{rows:,}", f"{compiled:.1f}", f"{1e3 * overhead:.1f}", f"{1e3 * whole:.0f}"
            )
    console = Console()
    console.print(table)
    begun = time.perf_counter()
    result = debias(
        lambda rows: 0.0, 10**8, min_batch=10, alpha=1.0, replications=5_000, random_seed=1, progressbar=False
    )
    seconds = time.perf_counter() - begun
    console.print(
        f"debias with a φ that does nothing, N = 10⁸: {1e6 * seconds / 5_000:.0f} µs a replication of "
        f"{float(result.level.mean()):.1f} batches"
    )


if __name__ == "__main__":
    main()
