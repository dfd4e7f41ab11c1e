"""The data of a step: contiguous by row, pickled as a path where they are a file, gathered into batches."""

import pickle

import numpy as np
import pytest
from numba import njit

from pymc_austerity.rows.storage import Rows, build_gather


@pytest.fixture
def mapped(tmp_path):
    """An array in a file, mapped into memory."""
    np.save(tmp_path / "x.npy", np.arange(60_000.0).reshape(20_000, 3))
    return np.load(tmp_path / "x.npy", mmap_mode="r")


@pytest.mark.parametrize(
    "view",
    [lambda a: a, lambda a: a[100:], lambda a: np.asarray(a)[100:], lambda a: a[50:][50:], lambda a: a.reshape(-1)],
    ids=["whole", "slice", "plain-array-over-it", "slice-of-slice", "reshaped"],
)
def test_mapped_rows_are_pickled_as_a_path(mapped, view):
    rows = Rows((view(mapped),))
    pickled = pickle.dumps(rows)
    (back,) = pickle.loads(pickled).arrays
    assert len(pickled) < 2_000
    assert np.array_equal(back, view(mapped))


def test_a_mapping_that_starts_inside_its_file_is_found_again(tmp_path):
    np.arange(1_000, dtype=np.int32).tofile(tmp_path / "x.bin")
    part = np.memmap(tmp_path / "x.bin", np.int32, "r", offset=40, shape=(900,))
    (back,) = pickle.loads(pickle.dumps(Rows((part[5:],)))).arrays
    assert back[0] == 15
    assert np.array_equal(back, part[5:])


def test_rows_in_memory_are_pickled_as_they_are(mapped):
    columns = mapped[:, :2]  # not contiguous by row, hence copied
    rows = Rows((np.array(mapped), columns))
    pickled = pickle.dumps(rows)
    assert len(pickled) > mapped.nbytes
    assert all(np.array_equal(a, b) for a, b in zip(pickle.loads(pickled).arrays, (mapped, columns)))


def test_rows_are_contiguous_and_counted():
    columns = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    rows = Rows((columns,))
    assert len(rows) == 4
    assert rows.arrays[0].flags.c_contiguous
    assert np.array_equal(rows.arrays[0], columns)


def test_gather_copies_the_named_rows_of_every_array():
    rng = np.random.default_rng(0)
    arrays = (
        rng.normal(size=50),
        rng.normal(size=(50, 4)).astype(np.float32),
        rng.integers(0, 9, size=(50, 2, 3)).astype(np.int16),
        rng.integers(0, 2, size=50).astype(bool),
    )
    numbers = np.array([49, 0, 7, 7, 31], dtype=np.uint32)
    gather = build_gather(tuple(a.ndim for a in arrays))
    batch = njit(lambda arrays, numbers: gather(arrays, numbers))(arrays, numbers)  # only compiled code may call it
    for got, array in zip(batch, arrays, strict=True):
        assert got.dtype == array.dtype
        assert np.array_equal(got, array[numbers])
        assert not np.shares_memory(got, array)


def test_gather_of_no_arrays_is_empty():
    assert build_gather(())((), np.array([0, 1])) == ()
