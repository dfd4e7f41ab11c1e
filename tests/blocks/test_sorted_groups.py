"""Groups of a table on disk: its rows are sorted once by Dask, as the docs say, and read as memory maps."""

import numpy as np
import pytest


def flights(data_folder, folder):
    """Write every hundredth flight, in the order of time, and return the carriers and which were late."""
    ds, pa = pytest.importorskip("pyarrow.dataset"), pytest.importorskip("pyarrow")
    with np.load(data_folder / "nycflights13.npz", allow_pickle=False) as known:
        carrier = known["X"][::100, list(known["feature_names"]).index("carrier")].astype(np.int64)
        late = (known["y"][::100] > 15).astype(np.int64)
    ds.write_dataset(
        pa.table({"carrier": carrier, "late": late}), folder, format="parquet", max_rows_per_file=600,
        max_rows_per_group=600,
    )  # fmt: skip
    return carrier, late


def sorted_by(name, folder, to):
    """Sort a folder of Parquet files, and return memory maps of its columns."""
    frames = pytest.importorskip("dask.dataframe")
    frames.read_parquet(folder).set_index(name).to_parquet(to / "sorted")
    rows = frames.read_parquet(to / "sorted")
    kinds, n = {name: rows.index.dtype, **rows.dtypes}, len(rows)
    maps = {c: np.lib.format.open_memmap(to / f"{c}.npy", "w+", kind, (n,)) for c, kind in kinds.items()}
    start = 0
    for part in rows.partitions:
        block = part.compute().reset_index()
        for column, stored in maps.items():
            stored[start : start + len(block)] = block[column]
        start += len(block)
    return {column: np.load(to / f"{column}.npy", mmap_mode="r") for column in maps}


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # in Dask, with pandas 3.1
def test_groups_of_a_table_on_disk_are_sorted_once(data_folder, tmp_path):
    carrier, late = flights(data_folder, tmp_path / "flights")
    with pytest.importorskip("dask").config.set(scheduler="threads"):
        rows = sorted_by("carrier", tmp_path / "flights", tmp_path)
    assert all(isinstance(column, np.memmap) for column in rows.values())
    assert (np.diff(carrier) < 0).any()
    assert (np.diff(rows["carrier"]) >= 0).all()
    counts = [np.bincount(2 * of + seen) for of, seen in ((rows["carrier"], rows["late"]), (carrier, late))]
    assert np.array_equal(*counts)
    assert not np.array_equal(
        counts[0], np.bincount(2 * rows["carrier"] + late)
    )  # labels that were left where they were
