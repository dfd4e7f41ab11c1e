"""Data that do not fit in memory: seconds of each pass, peak memory, and what a draw costs, from 1e6 rows up.

Run ``python benchmarks/blocks.py --rows 1e6 1e7 1e8`` (``--parquet`` writes the rows to disk first and reads them from
there; otherwise a counter-based generator makes each block when it is asked for, and no table exists).  A process for
each size, so that its peak memory is its own.  The rows are those of a logistic regression with ten coefficients,
sorted by one of its covariates.  Beside each pass stands what a plain read of the same columns takes, block by block
and without a model.  The error is that of the posterior means, in posterior standard deviations, against the
coefficients that made the rows: of order one whatever the step, it shows that nothing is far off.
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
from collections.abc import Iterator
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

import pymc_austerity as pma
from pymc_austerity.blocks import BlockTable
from pymc_austerity.diagnostics.results import as_dataset

OUTPUT = Path(__file__).parent / "output"
BLOCK, D = 131_072, 10
BETA = np.linspace(-0.5, 0.5, D)
CHAINS, TUNE, DRAWS = 2, 500, 1_500


class Made:
    """Rows that are made when they are read: block k from the counter of a Philox generator, the same each time.

    Parameters
    ----------
    n_rows : int
    """

    def __init__(self, n_rows: int):
        self.n_rows = n_rows

    def block(self, k: int) -> dict[str, np.ndarray]:
        """Return block number k."""
        n = min(BLOCK, self.n_rows - k * BLOCK)
        rng = np.random.Generator(np.random.Philox(key=1, counter=[0, 0, 0, k]))
        X = rng.standard_normal((n, D))
        X[:, 0] = 4 * (k * BLOCK + np.arange(n)) / self.n_rows - 2  # time, by which the rows are sorted
        return {"X": X, "y": (rng.random(n) < 1 / (1 + np.exp(-X @ BETA))).astype(np.int8)}

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        for k in range(-(-self.n_rows // BLOCK)):
            yield self.block(k)


def written(made: Made, folder: str) -> str:
    """Write the rows to Parquet, a row group a block, ten blocks a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for k, block in enumerate(made):
        table = pa.table({**{f"x{j}": block["X"][:, j] for j in range(D)}, "y": block["y"]})
        if k % 10 == 0:
            if writer is not None:
                writer.close()
            writer = pq.ParquetWriter(f"{folder}/part-{k // 10:05d}.parquet", table.schema)
        writer.write_table(table)
    writer.close()
    return folder


class Timed:
    """Seconds of each pass over a table, as it goes."""

    def __init__(self) -> None:
        self.passes: list[float] = []
        each = BlockTable._each

        def timed(table: BlockTable, *arguments: object) -> Iterator[object]:
            start = time.perf_counter()
            yield from each(table, *arguments)
            self.passes.append(time.perf_counter() - start)

        BlockTable._each = timed


def peak() -> float:
    """Return the peak memory of this process, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def plain_read(folder: str | None, made: Made) -> float:
    """Return the seconds that it takes to read all columns, or to make them."""
    start = time.perf_counter()
    if folder is None:
        for _ in made:
            pass
    else:
        import pyarrow.dataset as ds

        for batch in ds.dataset(folder).to_batches(batch_size=BLOCK):
            for column in batch.columns:
                column.to_numpy(zero_copy_only=False)
    return time.perf_counter() - start


def measure(n_rows: int, folder: str | None, pool: int) -> dict[str, float]:
    """Build a step for so many rows, sample, and return what it took."""
    made, timed, cores = Made(n_rows), Timed(), os.cpu_count() or 1
    read = plain_read(folder, made)
    before = peak()
    example = made.block(0)
    columns = {"X": [f"x{j}" for j in range(D)]} if folder else {}
    with pm.Model():
        X, y = pm.Data("X", example["X"][:1_000]), pm.Data("y", example["y"][:1_000])
        beta = pm.Normal("beta", 0, 1, shape=D)
        pm.Bernoulli("seen", logit_p=X @ beta, observed=y)
        step = pma.PenaltyMH(data=pma.Blocks(folder or made, columns, pool=pool, chains=CHAINS))
        settings = {
            "step": step, "chains": CHAINS, "cores": 1, "random_seed": 1, "progressbar": False,
            "compute_convergence_checks": False,
        }  # fmt: skip
        pm.sample(150, tune=50, **settings)  # what is imported and loaded once, which says nothing of a draw
        start = time.perf_counter()
        idata = pm.sample(DRAWS, tune=TUNE, **settings)
        seconds = time.perf_counter() - start
    draws = idata.posterior["beta"]
    ess = min(float(v.min()) for v in as_dataset(az.ess(idata)).values())
    off = (draws.mean(("chain", "draw")) - BETA) / draws.std(("chain", "draw"))
    samples, *sums, weights = timed.passes
    slowest = max(samples, float(np.mean(sums)), weights)
    return {
        "rows": n_rows,
        "plain read s": read,
        "samples s": samples,
        "sums s, each": float(np.mean(sums)),
        "passes for sums": len(sums),
        "weights and pool s": weights,
        "sums, rows a second a core": n_rows / float(np.mean(sums)) / cores,
        "slowest pass, reads": slowest / read,
        "peak GB before": before,
        "peak GB": peak(),
        "rows a draw": float(idata.sample_stats["n_rows"].mean()),
        "accepted": float(idata.sample_stats["accepted"].mean()),
        "microseconds a draw": 1e6 * seconds / (CHAINS * (TUNE + DRAWS)),
        "effective draws a second": ess / seconds,
        "off, rms posterior sd": float(np.sqrt((off**2).mean())),
    }


def main() -> None:
    """Measure each size in a process of its own, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="+", default=["1e6", "1e7"], help="numbers of rows")
    parser.add_argument("--parquet", action="store_true", help="write the rows to disk, and read them from there")
    parser.add_argument("--pool", type=float, default=1e6, help="rows of the pool")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        n_rows = int(float(options.rows[0]))
        with tempfile.TemporaryDirectory() as folder:
            source = written(Made(n_rows), folder) if options.parquet else None
            print(json.dumps(measure(n_rows, source, int(options.pool))))
        return
    found = []
    for rows in options.rows:
        command = [sys.executable, __file__, "--one", "--rows", rows, "--pool", str(options.pool)]
        command += ["--parquet"] * options.parquet
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found.append(json.loads(told.splitlines()[-1]))
    table = pd.DataFrame(found).set_index("rows").T
    print(table.to_string(float_format=lambda v: f"{v:,.3g}"))
    OUTPUT.mkdir(exist_ok=True)
    table.to_csv(OUTPUT / f"blocks{'_parquet' * options.parquet}.csv")


if __name__ == "__main__":
    main()
