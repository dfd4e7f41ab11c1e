"""Passes over blocks: the same rows in the same pieces, whatever the blocks, and a word where they change."""

import os
import pickle
import re

import numpy as np
import pandas as pd
import pytest
from weighing import SizesOf

import pymc_austerity as pma
from pymc_austerity.blocks import Container, passes
from pymc_austerity.blocks.arrays import Arrays
from pymc_austerity.blocks.source import BadRowError

pa, pq, ds = (pytest.importorskip(f"pyarrow{of}") for of in ("", ".parquet", ".dataset"))

N = 1_000
ROWS = {"x": np.random.default_rng(1).normal(size=N), "y": np.arange(N)}
CONTAINERS = [Container("x", np.dtype(float), ()), Container("y", np.dtype("int64"), ())]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(passes, "PIECE", 64)


@pytest.fixture
def dask_threads():
    with pytest.importorskip("dask").config.set(scheduler="threads"):
        yield


def opened(source, progressbar=False, **options):
    blocks = pma.Blocks(source, **{"pool": 5_000, **options})
    return blocks.table(CONTAINERS, {}, lambda arrays: None, progressbar)


def cut(size):
    def blocks():
        for start in range(0, N, size):
            yield {name: column[start : start + size] for name, column in ROWS.items()}
            yield {name: column[:0] for name, column in ROWS.items()}

    return blocks


class Again:
    """An object that is iterated again and again, as loaders of data are."""

    n_rows = N

    def __iter__(self):
        return cut(130)()


def parquet(folder, **options):
    more = {"half": (np.arange(N) >= 500).astype(int), "city": np.array(["NY", "LA"])[np.arange(N) % 2]}
    ds.write_dataset(
        pa.table({**ROWS, **more}), folder, format="parquet", partitioning=["half"], partitioning_flavor="hive",
        max_rows_per_file=300, max_rows_per_group=70, existing_data_behavior="overwrite_or_ignore", **options,
    )  # fmt: skip
    return folder


def dask_frame(folder, npartitions=3):
    return pytest.importorskip("dask.dataframe").from_pandas(pd.DataFrame(ROWS), npartitions=npartitions)


def zarr_arrays(folder):
    zarr = pytest.importorskip("zarr")
    stored = {}
    for name, column in ROWS.items():
        stored[name] = zarr.create_array(str(folder / name), shape=column.shape, chunks=(90,), dtype=column.dtype)
        stored[name][:] = column
    return stored


def memory_maps(folder):
    for name, column in ROWS.items():
        np.save(folder / f"{name}.npy", column)
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ROWS}


def dask_bag(folder):
    bag = pytest.importorskip("dask.bag").from_sequence(range(0, N, 250), npartitions=4)
    return bag.map(lambda k: {name: column[k : k + 250] for name, column in ROWS.items()})


SOURCES = {
    "a pandas frame": lambda folder: pd.DataFrame(ROWS, index=ROWS["x"]),
    "a folder": parquet,
    "a table of pyarrow": lambda folder: pa.table(ROWS),
    "lists": lambda folder: {name: column.tolist() for name, column in ROWS.items()},
    "its files": lambda folder: sorted(map(str, parquet(folder).rglob("*.parquet"))),
    "a dataset": lambda folder: ds.dataset(parquet(folder), partitioning="hive"),
    "a Dask frame": dask_frame,
    "a Dask bag": dask_bag,
    "Dask arrays": lambda folder: {n: pytest.importorskip("dask.array").from_array(c, 99) for n, c in ROWS.items()},
    "Zarr": zarr_arrays,
    "memory maps": memory_maps,
    "a loader": lambda folder: Again(),
    "a function": lambda folder: cut(77),
}


def column_of(table, k=1):
    """Return an array of all rows of a table."""
    return np.concatenate([piece.arrays[k] for piece in table.pieces()])


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_all_rows_again_and_again(name, tmp_path, request):
    source = SOURCES[name](tmp_path)
    if "Dask" in name:  # in processes, which take seconds to start, a bag is computed by default
        request.getfixturevalue("dask_threads")
    read = opened(source, n_rows=N if name == "a function" else None)
    for _ in range(2):
        pieces = list(read.pieces())
        assert {len(p) for p in pieces} - {334, 333, 250} <= {64, 70, 40, 60, 20}  # of a partition, or of a row group
        for stored, column in zip(zip(*(p.arrays for p in pieces)), ROWS.values()):
            assert np.array_equal(np.concatenate(stored), column)


def drawn(read):
    read.samples([np.arange(0, N, 10)])
    return read.weighed(SizesOf(), 0.2)


def test_parts_and_the_pool_do_not_depend_on_the_blocks():
    pools = [drawn(opened(cut(size), n_rows=N)) for size in (1, 64, 77, N)]
    for pool in pools[1:]:
        assert np.array_equal(pool.rows.arrays[1], pools[0].rows.arrays[1])
        assert np.array_equal(pool.weight, pools[0].weight)
    other = drawn(opened(cut(77), n_rows=N, random_seed=1))
    assert not np.array_equal(other.rows.arrays[1], pools[0].rows.arrays[1])


def test_samples_come_from_all_over_the_table(capsys):
    numbers = np.random.default_rng(3).choice(N, 200, replace=False)
    read = opened(cut(77), n_rows=N, progressbar=True)
    some, everything = read.samples([numbers, None])
    assert "1,000 rows" in capsys.readouterr().err  # in a bar
    assert np.array_equal(some.arrays[1], np.sort(numbers))
    assert np.array_equal(everything.arrays[1], ROWS["y"])
    assert read.reading_passes == 1
    assert np.array_equal(read.some(5)[1], np.sort(numbers)[:5])


@pytest.mark.parametrize(("first", "where"), [(0, "block 1: rows 0 to 64"), (100, "rows 64 to 128")])
def test_a_source_that_changes_between_passes_is_caught(first, where):
    """In its first part, or in a later one."""
    numbers = iter(range(9))

    def changes():
        late = next(numbers)
        yield {name: column[:first] for name, column in ROWS.items()}
        yield {name: column[first:] + late for name, column in ROWS.items()}

    read = opened(changes, n_rows=N)
    read.samples([np.arange(5)])
    with pytest.raises(ValueError, match=f"{where} of all are not what they were in the first pass"):
        read.samples([np.arange(5)])


def test_a_table_has_a_digest_and_says_where_a_row_is(tmp_path):
    tables = [opened(ROWS), opened(cut(10), n_rows=N), opened({**ROWS, "x": ROWS["x"] + (np.arange(N) == N - 1)})]
    for table in tables:
        table.samples([np.arange(5)])
    first, again, other = (table.digest for table in tables)
    assert first == again != other
    assert first % 2 == 1
    assert tables[1].passes.place(137) == "block 26, row 7"
    assert re.search(r"\.parquet, row \d+$", opened(parquet(tmp_path)).passes.place(137))


def test_a_file_that_changes_between_passes_is_caught(tmp_path):
    read = opened(parquet(tmp_path))
    read.samples([None])
    second = sorted(tmp_path.rglob("*.parquet"))[1]
    rows = pq.read_table(second, partitioning=None)
    flipped = pa.array(-rows["x"].to_numpy())
    pq.write_table(rows.set_column(rows.schema.get_field_index("x"), "x", flipped), second)
    with pytest.raises(ValueError, match=rf"{second.name} cannot be read.*was changed"):
        list(read.pieces())


@pytest.mark.parametrize(("n_rows", "found"), [(N + 1, "a pass read 1,000 rows"), (N - 1, "a pass read more rows")])
def test_a_wrong_number_of_rows_is_caught(n_rows, found):
    with pytest.raises(ValueError, match=f"{found} where {n_rows:,} were expected"):
        list(opened(cut(100), n_rows=n_rows).pieces())


def test_the_row_of_a_file_is_named(tmp_path):
    wrong = np.where(np.arange(N) == 700, np.nan, ROWS["x"]), pa.array([None if i == 123 else 1.0 for i in range(N)])
    for x, said in zip(wrong, ("row 700: column 'x', nan, is not finite", "row 123: column 'x' is missing")):
        pq.write_table(pa.table({"x": x, "y": ROWS["y"]}), tmp_path / "a.parquet", row_group_size=90)
        with pytest.raises(BadRowError, match=f"a.parquet, {said}"):
            list(opened(tmp_path).pieces())


def test_columns_of_files_may_be_partitions_and_filtered(tmp_path):
    folder = parquet(tmp_path)
    assert column_of(opened(folder, columns={"y": "half"})).sum() == 500
    coded = opened(folder, columns={"y": "city"}, codes={"y": ["NY", "LA"]})
    assert column_of(coded).tolist() == [0, 1] * 500
    late = opened(folder, filter=ds.field("half") == 1)
    assert len(late) == 500
    assert column_of(late)[0] == 500


def test_files_and_row_groups_without_rows_are_no_mistake(tmp_path):
    rows = pa.table(ROWS)
    pq.write_table(rows[:0], tmp_path / "a.parquet")
    with pq.ParquetWriter(tmp_path / "b.parquet", rows.schema) as writer:
        for some in (rows[:0], rows[:70], rows[:0], rows[70:]):
            writer.write_table(some)
    pq.write_table(rows[:0], tmp_path / "c.parquet")
    assert np.array_equal(column_of(opened(tmp_path)), ROWS["y"])
    every = dask_frame(tmp_path, 4)
    kept = every[every["y"] >= 400]  # whose first partition is empty
    assert column_of(opened(kept))[0] == 400


class Matrices:
    """As sources of minibatches of pymc-extras are: an array a block, again and again, and how many rows."""

    n_rows = N

    def __iter__(self):
        return iter(np.array_split(np.column_stack(list(ROWS.values())), 8))


def test_arrays_in_place_of_dicts_are_the_one_container():
    whole = [Container("batch", np.dtype(float), (2,))]
    read = pma.Blocks(Matrices(), pool=5_000).table(whole, {}, lambda arrays: None, False)
    assert np.array_equal(column_of(read, 0)[:, 1], ROWS["y"])
    with pytest.raises(TypeError, match=r"block 0 is one array, and the model reads \['x', 'y'\]"):
        list(opened(Matrices()).pieces())


REFUSED = {
    "no paths": (lambda: [], {}, ValueError, r"Blocks\(\[\]\): there is nothing to read"),
    "no arrays": (lambda: {}, {}, ValueError, r"Blocks\(\{\}\): there is nothing to read"),
    "an empty path": (lambda: "", {}, ValueError, r"Blocks\(''\): the path is empty"),
    "an empty path of several": (lambda: ["a.parquet", " "], {}, ValueError, r"Blocks\(' '\): the path is empty"),
    "a number among paths": (lambda: ["a.parquet", 3], {}, TypeError, "3 is among the paths"),
    "a generator": (lambda: cut(10)(), {"n_rows": N}, TypeError, "it can be read once"),
    "no number of rows": (lambda: cut(10), {}, ValueError, "n_rows: a source that yields blocks must say"),
    "no source": (lambda: 3, {}, TypeError, "no source of rows"),
    "arrays of unequal length": (lambda: {**ROWS, "x": ROWS["x"][:5]}, {}, ValueError, "differ in length"),
    "a filter for no file": (lambda: ROWS, {"filter": "x"}, ValueError, "filter='x' is for files"),
    "no rows": (lambda: {name: c[:0] for name, c in ROWS.items()}, {}, ValueError, "the source has no rows"),
    "no file": (lambda: "/nowhere/at/all", {}, ValueError, "/nowhere/at/all"),
    "a filter that is none": (lambda: "/nowhere", {"filter": "x > 1"}, TypeError, "must be an expression"),
}


@pytest.mark.parametrize(("source", "options", "error", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_source_is_refused(source, options, error, message):
    with pytest.raises(error, match=message):
        opened(source(), **options)


def test_two_columns_of_one_name_are_named_with_their_file(tmp_path):
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    twice = pa.Table.from_arrays([pa.array(ROWS[name]) for name in "xyx"], names=list("xyx"))
    pq.write_table(twice, second)
    pq.write_table(pa.table(ROWS), first)

    def refused(said, *sources):
        for source in sources:
            with pytest.raises(ValueError, match=said):
                opened(source)

    refused(r"b\.parquet: several columns are named 'x'", tmp_path, second, [first, second])
    refused("several columns are named 'x'", twice, pd.concat([pd.DataFrame(ROWS)] * 2, axis=1))
    second.write_text("text")
    refused(r"b\.parquet cannot be read", tmp_path, second, [first, second])


def test_workers_are_sent_what_the_program_sees_of_a_map(tmp_path):
    memory_maps(tmp_path)
    changed = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="c") for name in ROWS}
    changed["x"][70] = 7
    for arrays, size in ((changed, 64 * 8), (memory_maps(tmp_path), 0)):
        part = list(Arrays(arrays).parts(["x", "y"], 64))[1]
        pickled = pickle.dumps(part)
        assert size < len(pickled) < size + 1_500
        (block,) = pickle.loads(pickled).blocks()
        assert all(np.array_equal(block.columns[name], arrays[name][64:128]) for name in ROWS)
    os.truncate(tmp_path / "x.npy", 1_000)
    with pytest.raises(ValueError, match=r"x\.npy had 8,128 bytes"):
        list(part.blocks())


def maps_of(columns, folder):
    for name, column in columns.items():
        np.save(folder / f"{name}.npy", column)
        os.utime(folder / f"{name}.npy", ns=(1, 1))
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in columns}


def parquet_of(columns, folder):
    """Row groups of one size whatever the numbers are."""
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=64, **plain)
    os.utime(folder / "a.parquet", ns=(1, 1))
    return folder / "a.parquet"


def hundred(start, folder):
    return pd.read_pickle(folder / "columns.pkl").iloc[start : start + 100]


def dask_frame_of(columns, folder):
    pd.DataFrame(columns).to_pickle(folder / "columns.pkl")
    return pytest.importorskip("dask.dataframe").from_map(hundred, range(0, N, 100), folder=folder)


#: What is read again part by part, without the parts between, and looks the same where its numbers have changed.
READ_IN_PARTS = {"memory maps": maps_of, "Parquet": parquet_of, "a Dask frame": dask_frame_of}


@pytest.mark.parametrize("row", [10, 520, 999])
@pytest.mark.parametrize("name", READ_IN_PARTS)
def test_the_first_middle_and_last_part_are_read_again(tmp_path, name, row, dask_threads):
    """A source that was written anew with the same size and time."""
    made = READ_IN_PARTS[name]
    for source in (made(ROWS, tmp_path), made(ROWS, tmp_path)):
        opened(source, checkpoint=tmp_path / "kept").samples([np.arange(50)])
    changed = ROWS["x"].copy()
    changed[row] += 1
    source = made({**ROWS, "x": changed}, tmp_path)
    with pytest.raises(ValueError, match=r"was written for other rows: the checksum of rows .* there and .* now"):
        opened(source, checkpoint=tmp_path / "kept").samples([np.arange(50)])


LACKING = {
    "a list": (lambda folder: lambda: [[1]], {"n_rows": N}, TypeError, "block 0 is list, and a dict"),
    "blocks": (lambda folder: lambda: [{"x": np.ones(N)}], {"n_rows": N}, ValueError, r"0 has no 'y', only \['x'\]"),
    "arrays": (lambda folder: ROWS, {"columns": {"y": "z"}}, ValueError, "there is no array 'z'"),
    "a frame": (dask_frame, {"columns": {"y": "z"}}, ValueError, "the frame has no column 'z'"),
    "files": (parquet, {"columns": {"y": "z"}}, ValueError, "the files have no column 'z'"),
}


@pytest.mark.parametrize(("source", "options", "error", "message"), LACKING.values(), ids=LACKING)
def test_blocks_that_are_no_dicts_or_lack_a_name_are_refused(source, options, error, message, tmp_path):
    with pytest.raises(error, match=message):
        list(opened(source(tmp_path), **options).pieces())


def test_a_pool_that_leaves_a_chain_nothing_is_refused():
    with pytest.raises(ValueError, match="leaves nothing for each of chains=4"):
        pma.Blocks(ROWS, pool=7)
