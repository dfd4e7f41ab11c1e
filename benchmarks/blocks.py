"""Data that do not fit in memory: seconds of each pass, peak memory, and what a draw costs, from 1e6 rows up.

Run ``python benchmarks/blocks.py --rows 1e6 1e7 1e8`` (``--parquet`` writes the rows to disk first and reads them from
there; otherwise a counter-based generator makes each block when it is asked for, and no table exists).  ``--map`` also
writes them to memory maps, samples these as a model with data in memory would, and says how far the two posteriors lie
apart.  A process for each size, so that its peak memory is its own.  The rows are those of a logistic regression with
ten coefficients, sorted by one of its covariates.

Passes are timed by the clock and by the processor.  Beside them stands what a plain read of the same columns takes, by
pyarrow alone and into NumPy, the faster of two; "reads" are processor seconds over those of it, which other work on the
machine disturbs least.  The error is that of the posterior means, in posterior standard deviations, against the
coefficients that made the rows: of order one whatever the step, it shows that nothing is far off.

``--streams`` prints instead what a pass that learns nothing takes from Parquet, pyarrow, DuckDB and Polars, in turn and
the least of five, and what reading the same stream takes without one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
from timing import ONE_CHAIN, elsewhere, peak_memory, show, smallest_ess

import pymc_austerity as pma
from pymc_austerity.blocks import Container
from pymc_austerity.blocks.passes import Passes
from pymc_austerity.diagnostics.results import as_dataset

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


class Took(NamedTuple):
    """Seconds of the clock, and of the processor on all cores."""

    wall: float
    cpu: float


@contextmanager
def timing(into: list[Took]) -> Iterator[None]:
    """Note what something takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    into.append(Took(time.perf_counter() - wall, time.process_time() - cpu))


def timed_passes() -> list[Took]:
    """Return a list in which every pass over a table will note what it took."""
    found: list[Took] = []
    each = Passes.each

    def timed(passes: Passes, *arguments: object) -> Iterator[object]:
        with timing(found):
            yield from each(passes, *arguments)

    Passes.each = timed
    return found


def plain_read(folder: str | None, made: Made) -> Took:
    """Return what it takes to read all columns, or to make them."""
    took: list[Took] = []
    with timing(took):
        if folder is None:
            for _ in made:
                pass
        else:
            import pyarrow.dataset as ds

            for batch in ds.dataset(folder).to_batches(batch_size=BLOCK):
                for column in batch.columns:
                    column.to_numpy(zero_copy_only=False)
    return took[0]


def model_of(X: Any, y: Any) -> pm.Model:
    """Return the regression of some rows, in arrays, or by the name of a container each."""
    with pm.Model() as model:
        X, y = (pm.Data(*of) if isinstance(of, tuple) else of for of in (X, y))
        beta = pm.Normal("beta", 0, 1, shape=D)
        pm.Bernoulli("seen", logit_p=pm.math.dot(X, beta), observed=y)
    return model


def draw(model: pm.Model, data: pma.Blocks | None, seed: int) -> tuple[Any, float]:
    """Build a step, sample, and return the draws and the seconds without setting up."""
    with model:
        step = pma.PenaltyMH(data=data)
        settings = {**ONE_CHAIN, "step": step, "chains": CHAINS, "random_seed": seed}
        pm.sample(150, tune=50, **settings)  # what is imported and loaded once, which says nothing of a draw
        start = time.perf_counter()
        idata = pm.sample(DRAWS, tune=TUNE, **settings)
        return idata, time.perf_counter() - start


def apart(idata: Any, made: Made) -> float:
    """Return how far the means lie from those of a run on memory maps of the rows, in Monte Carlo errors, rms."""
    with tempfile.TemporaryDirectory() as folder:
        shapes = {"X": ((made.n_rows, D), np.float64), "y": ((made.n_rows,), np.int8)}
        maps = {
            name: np.lib.format.open_memmap(f"{folder}/{name}.npy", "w+", kind, shape)
            for name, (shape, kind) in shapes.items()
        }
        for k, block in enumerate(made):
            for name, column in block.items():
                maps[name][k * BLOCK : k * BLOCK + len(column)] = column
        # Not in containers, into which PyMC would copy them.
        of_map, _ = draw(model_of(*(np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in "Xy")), None, 2)
    means = [run.posterior["beta"].mean(("chain", "draw")) for run in (idata, of_map)]
    errors = [as_dataset(az.mcse(run))["beta"] for run in (idata, of_map)]
    return float(np.sqrt(((means[0] - means[1]) ** 2 / (errors[0] ** 2 + errors[1] ** 2)).mean()))


def measure(n_rows: int, folder: str | None, pool: int, with_map: bool) -> dict[str, float]:
    """Build a step for so many rows, sample, and return what it took."""
    made, passes = Made(n_rows), timed_passes()
    example = made.block(0)
    columns = {"X": [f"x{j}" for j in range(D)]} if folder else {}
    model = model_of(*((name, example[name][:1_000]) for name in "Xy"))
    few = Made(200_000)
    with model:  # what is compiled once, and kept on disk, is in no pass
        pma.PenaltyMH(data=pma.Blocks(few, pool=10_000, chains=CHAINS), progressbar=False)
    passes.clear()
    before = peak_memory()
    idata, seconds = draw(model, pma.Blocks(folder or made, columns, pool=pool, chains=CHAINS), 1)
    most = peak_memory()
    # After all else, for it holds more in memory than a pass does, and what was read by others first is read faster.
    read = Took(*map(min, zip(plain_read(folder, made), plain_read(folder, made), strict=True)))
    draws = idata.posterior["beta"]
    off = (draws.mean(("chain", "draw")) - BETA) / draws.std(("chain", "draw"))
    samples, *sums, weights = passes
    sums_each = Took(*np.mean(sums, axis=0))
    named = {"plain read": read, "samples": samples, "sums, each": sums_each, "weights and pool": weights}
    found: dict[str, float] = {"rows": n_rows, "passes for sums": len(sums)}
    for name, took in named.items():
        found |= {f"{name}, s": took.wall, f"{name}, cpu s": took.cpu}
    found |= {f"{name}, reads": took.cpu / read.cpu for name, took in named.items() if name != "plain read"}
    found |= {
        "sums, rows a second a core": n_rows / sums_each.cpu,
        "weights, rows a second a core": n_rows / weights.cpu,
        "peak GB before": before,
        "peak GB": most,
        "rows a draw": float(idata.sample_stats["n_rows"].mean()),
        "accepted": float(idata.sample_stats["accepted"].mean()),
        "microseconds a draw": 1e6 * seconds / (CHAINS * (TUNE + DRAWS)),
        "effective draws a second": smallest_ess(idata) / seconds,
        "off, rms posterior sd": float(np.sqrt((off**2).mean())),
    }
    if with_map:
        found["off the map, rms Monte Carlo errors"] = apart(idata, made)
    return found


def streams(n_rows: int, folder: str) -> pd.DataFrame:
    """Return what a pass over the same rows takes from each source, and what its stream takes without one."""
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds

    columns, files = [f"x{j}" for j in range(D)], f"{written(Made(n_rows), folder)}/*.parquet"
    paths = sorted(glob(files))
    query = f"SELECT {', '.join([*columns, 'y'])} FROM "
    con, one = duckdb.connect(f"{folder}/rows.duckdb"), duckdb.connect(config={"threads": 1})
    con.execute(f"CREATE TABLE rows AS {query} '{files}'")
    sources = {
        "Parquet": paths,
        "pyarrow, stream of the files": lambda: (
            ds.dataset(paths).scanner(batch_size=32_768, batch_readahead=2).to_reader()
        ),
        "DuckDB, its table": lambda: con.sql(f"{query} rows"),
        "DuckDB, query of the files": lambda: con.sql(f"{query} '{files}'"),
        "the same with threads = 1": lambda: one.sql(f"{query} '{files}'"),
        "Polars, lazy": pl.scan_parquet(files).collect,
    }
    containers = [Container("X", np.dtype(float), (D,)), Container("y", np.dtype(np.int8), ())]

    found: dict[str, list[Took]] = {}
    tables = {
        name: pma.Blocks(source, {"X": columns}, n_rows=n_rows).table(containers, {}, lambda arrays: None, False)
        for name, source in sources.items()
    }
    for _ in range(6):
        for name, table in tables.items():
            with timing(found.setdefault(f"{name}: pass", [])):
                for _ in table.passes.each(len):
                    pass
            if callable(stream := sources[name]):
                with timing(found.setdefault(f"{name}: stream alone", [])):
                    for _ in pa.RecordBatchReader.from_stream(stream()):
                        pass
    return pd.DataFrame({name: Took(*map(min, zip(*took[1:], strict=True))) for name, took in found.items()}).T


def main() -> None:
    """Measure each size in a process of its own, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="+", default=["1e6", "1e7"], help="numbers of rows")
    parser.add_argument("--parquet", action="store_true", help="write the rows to disk, and read them from there")
    parser.add_argument("--map", action="store_true", help="compare with a run on memory maps of the rows")
    parser.add_argument("--pool", type=float, default=1e6, help="rows of the pool")
    parser.add_argument("--streams", action="store_true", help="compare passes over the same rows in several tables")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        n_rows = int(float(options.rows[0]))
        with tempfile.TemporaryDirectory() as folder:
            source = written(Made(n_rows), folder) if options.parquet else None
            print(json.dumps(measure(n_rows, source, int(options.pool), options.map)))
        return
    if options.streams:
        with tempfile.TemporaryDirectory() as folder:
            took = streams(int(float(options.rows[0])), folder).set_axis(Took._fields, axis=1)
            show(took.reset_index(names="source"))
        return
    found = []
    for rows in options.rows:
        flags = ["--parquet"] * options.parquet + ["--map"] * options.map
        found.append(elsewhere("--one", "--rows", rows, "--pool", str(options.pool), *flags))
    show(pd.DataFrame(found).set_index("rows").T.reset_index(names="rows"))


if __name__ == "__main__":
    main()
