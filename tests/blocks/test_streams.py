"""Rows from what exports a stream of Arrow: DuckDB, Polars, pyarrow, and functions that return one."""

import pickle
import tempfile
from functools import cache

import numpy as np
import pandas as pd
import pytest

import pymc_austerity as pma
from pymc_austerity.blocks import streams
from pymc_austerity.blocks.columns import Container
from pymc_austerity.blocks.streams import Streams

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")
pl = pytest.importorskip("polars")

N = 10_000
RNG = np.random.default_rng(1)
FLIGHTS = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "b": RNG.integers(0, 100, N) / 10,
        "y": RNG.integers(0, 2, N).astype(np.int8),
        "city": np.array(["NY", "LA", "SF"])[RNG.integers(0, 3, N)],
        "unused": np.arange(N),
    }
)
KINDS = {"X": ("float64", (2,)), "y": ("int8", ()), "g": ("int32", ())}
CONTAINERS = [Container(name, np.dtype(kind), shape) for name, (kind, shape) in KINDS.items()]
NAMES = {"columns": {"X": ["a", "b"], "g": "city"}, "codes": {"g": ["SF", "NY", "LA"]}}
QUERY = "SELECT city, y, CAST(b AS DECIMAL(8, 2)) AS b, a FROM FLIGHTS"
ARROW = pa.Table.from_pandas(FLIGHTS, preserve_index=False)


def reader():
    return pa.RecordBatchReader.from_batches(ARROW.schema, ARROW.to_batches(max_chunksize=777))


class Exports:
    """An object of no known library."""

    def __arrow_c_stream__(self, requested_schema=None):
        return reader().__arrow_c_stream__(requested_schema)


@cache
def delta():
    """Return a table of Delta Lake, in one file: of several the newest comes first."""
    deltalake = pytest.importorskip("deltalake", reason="deltalake, of the extra 'test', is not installed")
    folder = tempfile.mkdtemp()
    deltalake.write_deltalake(folder, ARROW)
    return deltalake.DeltaTable(folder)


@cache
def iceberg():
    """Return a table of Iceberg, in a catalogue of its own."""
    pytest.importorskip("pyiceberg", reason="pyiceberg, of the extra 'test', is not installed")
    pytest.importorskip("sqlalchemy", reason="sqlalchemy, of the extra 'test', is not installed")
    from pyiceberg.catalog import load_catalog

    folder = tempfile.mkdtemp()
    catalog = load_catalog("of_test", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("of_test")
    wide = pa.Table.from_pandas(FLIGHTS.astype({"y": np.int32}), preserve_index=False)
    table = catalog.create_table("of_test.flights", schema=wide.schema)
    table.append(wide)
    return table


SOURCES = {
    "Delta": lambda: delta().to_pyarrow_dataset(),
    "Iceberg": lambda: iceberg().scan(selected_fields=("a", "b", "y", "city")).to_arrow_batch_reader,
    "relation of DuckDB": lambda: duckdb.sql(QUERY),
    "query of DuckDB": lambda: lambda: duckdb.sql(QUERY),
    "Polars": lambda: pl.from_pandas(FLIGHTS),
    "Polars, categories": lambda: pl.from_pandas(FLIGHTS).with_columns(pl.col("city").cast(pl.Categorical)),
    "lazy Polars": lambda: pl.from_pandas(FLIGHTS).lazy().collect,
    "function that makes a reader": lambda: reader,
    "table of pyarrow": lambda: ARROW,
    "another object": Exports,
}


def table_of(source, containers=CONTAINERS, **options):
    table = pma.Blocks(source, **{**NAMES, **options}).table(containers, {}, lambda arrays: None, False)
    table.samples([np.arange(1)])
    return table


def arrays_of(table):
    return [np.concatenate(parts) for parts in zip(*(rows.arrays for rows in table.pieces()), strict=True)]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_rows_are_those_of_the_table(source, monkeypatch):
    """In their order, in every pass, whatever the lengths of the batches and of the parts."""
    monkeypatch.setattr("pymc_austerity.blocks.passes.PIECE", 999)
    table = table_of(source())
    assert len(table) == N
    for _ in range(2):
        x, y, g = arrays_of(table)
        np.testing.assert_allclose(x, FLIGHTS[["a", "b"]], rtol=1e-15)  # a decimal is rounded when it becomes a float
        np.testing.assert_array_equal(y, FLIGHTS["y"])
        np.testing.assert_array_equal(g, FLIGHTS["city"].map({"SF": 0, "NY": 1, "LA": 2}))


def test_what_is_read_once_is_refused():
    """An object may say nothing of it, and be empty in the second pass; a function that returns one reader too."""

    class Once:
        def __init__(self):
            self.reader = reader()

        def __arrow_c_stream__(self, requested_schema=None):
            made, self.reader = self.reader, pa.RecordBatchReader.from_batches(ARROW.schema, [])
            return made.__arrow_c_stream__(requested_schema)

    with pytest.raises(TypeError, match=r"can be read once, and there are several passes.*Blocks\(lambda"):
        table_of(duckdb.sql(QUERY).to_arrow_reader())
    with pytest.raises(TypeError, match="it can be read once, and there are several passes. Give a function"):
        table_of(Once())


class Known(Exports):
    """A table that says how many rows it has: relations of DuckDB count without reading."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length


def test_a_stream_is_counted_unless_its_length_is_known(monkeypatch):
    """A wrong length is noticed in the first pass."""
    calls, read = [], reader
    monkeypatch.setitem(globals(), "reader", lambda: calls.append(1) or read())
    for source, options, n_calls in ((reader, {}, 2), (reader, {"n_rows": N}, 1), (Known(N), {}, 1)):
        calls.clear()
        table_of(source, **options)
        assert len(calls) == n_calls  # to count, and for the first pass
    for source, options in ((reader, {"n_rows": N - 1}), (Known(N - 1), {})):
        with pytest.raises(ValueError, match="a pass read more rows where 9,999 were expected"):
            table_of(source, **options)


BAD = {
    "a missing number": ("SELECT *, NULL::DOUBLE AS z FROM FLIGHTS", "row 0: column 'z' is missing.* WHERE in a query"),
    "a date": ("SELECT *, DATE '2020-01-01' AS z FROM FLIGHTS", r"column 'z' is of type date32.* \(CAST in a query"),
    "no such column": (QUERY, "the stream has no column 'z', only"),
    "no rows": ("SELECT a AS z FROM FLIGHTS WHERE a > 99", "has no rows. Check its paths, its filter= or the WHERE"),
    "uneven lists": ("SELECT CASE WHEN a > 0 THEN [1] ELSE [1, 2] END AS z FROM FLIGHTS", "lists of different lengths"),
    "a gap in a list": ("SELECT [1, NULL] AS z FROM FLIGHTS", "column 'z' has lists with missing entries"),
    "other rows": ("SELECT a AS z FROM FLIGHTS WHERE random() < 0.5", "return the same rows each time|not what they"),
}


@pytest.mark.parametrize(("query", "message"), BAD.values(), ids=BAD)
def test_columns_that_cannot_be_taken_are_named(query, message):
    of_z = [CONTAINERS[1]._replace(dtype=np.dtype(float))]
    with pytest.raises(ValueError, match=message):  # in the first pass or the second
        arrays_of(table_of(lambda: duckdb.sql(query), of_z, columns={"y": "z"}, codes={}))


COLUMNS = {
    "sum of whole numbers": ("SELECT sum(y) AS z FROM FLIGHTS GROUP BY unused ORDER BY unused", "int64", FLIGHTS["y"]),
    "sum beyond int64": ("SELECT 10::HUGEINT**25 AS z FROM FLIGHTS", "float64", np.full(N, 1e25)),
    "array of arrays": ("SELECT [[a, b], [b, a]]::DOUBLE[2][2] AS z FROM FLIGHTS", "float64",
                        FLIGHTS[["a", "b", "b", "a"]].to_numpy().reshape(N, 2, 2)),
    "lists": ("SELECT [a, b] AS z FROM FLIGHTS", "float64", FLIGHTS[["a", "b"]].to_numpy()),
    "truth": ("SELECT a > 0 AS z FROM FLIGHTS", "int8", FLIGHTS["a"] > 0),
}  # fmt: skip


@pytest.mark.parametrize(("query", "kind", "expected"), COLUMNS.values(), ids=COLUMNS)
def test_columns_of_sql_become_arrays(query, kind, expected):
    containers = [Container("z", np.dtype(kind), expected.shape[1:])]
    (found,) = arrays_of(table_of(lambda: duckdb.sql(query), containers, columns={}, codes={}))
    np.testing.assert_allclose(found, expected, rtol=1e-15)


NO_STREAMS = {
    "a lazy frame": (pl.from_pandas(FLIGHTS).lazy(), "no source of rows.* its method, frame.collect"),
    "a function that returns one": (lambda: pl.from_pandas(FLIGHTS).lazy(), "the function returned .*LazyFrame"),
    "a number in place of a column": (lambda: iter([{"y": 1}]), "a column is int 1, and an array"),
}


@pytest.mark.parametrize(("source", "message"), NO_STREAMS.values(), ids=NO_STREAMS)
def test_what_yields_no_rows_is_refused(source, message):
    with pytest.raises((TypeError, ValueError), match=message):
        table_of(source, CONTAINERS[1:2], columns={}, codes={}, n_rows=N)


@pytest.mark.parametrize("short", [1, 2**30], ids=["each by itself", "put together"])
def test_a_row_of_a_later_batch_is_named(short, monkeypatch):
    """Batches of 777 rows that make one part are blocks, whose rows are numbered on."""
    monkeypatch.setattr(streams, "_SHORT", short)
    values = np.zeros(2_000)
    values[1_900] = np.nan
    batches = pa.table({"a": values}).to_batches(max_chunksize=777)
    containers = [Container("X", np.dtype(float), ())]
    with pytest.raises(ValueError, match=r"row 1900: column 'a', nan, is not finite"):
        table_of(lambda: pa.Table.from_batches(batches), containers, columns={"X": "a"}, codes={})


def test_parts_travel_as_they_are_and_identity_follows_the_rows():
    """A part of a large batch is not sent with the batch."""
    first, again, other = (Streams(pl.from_pandas(t), None) for t in (FLIGHTS, FLIGHTS, -FLIGHTS[["a"]]))
    parts = list(first.parts(["a", "city"], 100))
    assert len(parts) == 100
    sent = pickle.dumps(parts[3])
    assert len(sent) < 5_000
    (block,) = pickle.loads(sent).blocks()
    np.testing.assert_array_equal(block.columns["a"], FLIGHTS["a"][300:400])
    assert block.first == 300
    assert first.identity(["a"]) == again.identity(["a"]) != other.identity(["a"])
