"""The data of a step: contiguous by row, pickled as a path where they are a file, gathered into batches."""

import os
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


def replaced(path):
    np.save(path.with_name("new.npy"), np.zeros((20, 3)))
    os.replace(path.with_name("new.npy"), path)


def overwritten(path):
    path.write_bytes(path.read_bytes()[::-1])


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("change", [os.unlink, replaced, overwritten, lambda path: None])
def test_other_processes_see_the_rows_that_the_program_sees(mapped, tmp_path, mode, change):
    array = np.load(tmp_path / "x.npy", mmap_mode=mode)
    if mode != "r":
        array[5:30] *= 2
    rows = Rows((np.asarray(array)[7:][:90],))
    change(tmp_path / "x.npy")
    (back,) = pickle.loads(pickle.dumps(rows)).arrays
    assert back.tobytes() == rows.arrays[0].tobytes()


@pytest.mark.parametrize("change", [os.unlink, replaced, overwritten])
def test_a_file_that_changes_while_processes_start_is_named(mapped, tmp_path, change):
    pickled = pickle.dumps(Rows((mapped[3:],)))
    os.utime(tmp_path / "x.npy", ns=(1, 1))  # the same rows, written again
    assert np.array_equal(pickle.loads(pickled).arrays[0], mapped[3:])
    change(tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"x\.npy was changed while processes were started"):
        pickle.loads(pickled)


def test_a_file_that_was_cut_is_named_and_not_read(mapped, tmp_path):
    rows = Rows((mapped[3:],))
    os.truncate(tmp_path / "x.npy", 10_000)
    with pytest.raises(ValueError, match=r"x\.npy had 480,128 bytes or more when it was mapped and has 10,000 now"):
        pickle.dumps(rows)


def test_rows_in_memory_are_counted_contiguous_and_pickled_as_they_are(mapped):
    columns = mapped[:, :2]  # not contiguous by row, hence copied
    rows = Rows((np.array(mapped), columns))
    pickled = pickle.dumps(rows)
    assert len(pickled) > mapped.nbytes
    assert len(rows) == len(mapped)
    assert rows.arrays[1].flags.c_contiguous
    assert all(np.array_equal(a, b) for a, b in zip(pickle.loads(pickled).arrays, (mapped, columns)))


@pytest.mark.slow
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
    assert build_gather(())((), numbers) == ()
