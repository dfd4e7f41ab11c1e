"""What a pass over rows on disk takes, from Parquet, pyarrow, DuckDB and Polars.

Run ``python benchmarks/blocks.py``: seconds of the clock and of the processor on all cores, in turn and the least of
five, of a pass that learns nothing, and of reading the same stream without one.  The rows are those of a logistic
regression with ten coefficients, sorted by one of its covariates.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from typing import NamedTuple

import numpy as np
import pandas as pd
from timing import show

import pymc_austerity as pma
from pymc_austerity.blocks import Container

BLOCK, D = 131_072, 10
BETA = np.linspace(-0.5, 0.5, D)


def made(n_rows: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield the rows in blocks."""
    for start in range(0, n_rows, BLOCK):
        n, rng = min(BLOCK, n_rows - start), np.random.default_rng(start)
        X = rng.standard_normal((n, D))
        X[:, 0] = 4 * (start + np.arange(n)) / n_rows - 2  # time, by which the rows are sorted
        yield {"X": X, "y": (rng.random(n) < 1 / (1 + np.exp(-X @ BETA))).astype(np.int8)}


def written(n_rows: int, folder: str) -> str:
    """Write the rows to Parquet, a row group a block, ten blocks a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for k, block in enumerate(made(n_rows)):
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


def streams(n_rows: int, folder: str) -> pd.DataFrame:
    """Return what a pass over the same rows takes from each source, and what its stream takes without one."""
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds

    columns, files = [f"x{j}" for j in range(D)], f"{written(n_rows, folder)}/*.parquet"
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
    """Write the rows, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=float, default=8e6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        took = streams(int(options.rows), folder).set_axis(Took._fields, axis=1)
        show(took.reset_index(names="source"))


if __name__ == "__main__":
    main()
