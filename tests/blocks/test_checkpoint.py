"""Passes that are done are not done again after a kill, and a folder that is not of this set-up is not used."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from weighing import SizesOf

import pymc_austerity as pma
from pymc_austerity.blocks import Container
from pymc_austerity.blocks.checkpoint import Checkpoint

N = 900
ROWS = {"x": np.random.default_rng(1).normal(size=N)}
ROWS["y"] = (np.random.default_rng(2).random(N) < 1 / (1 + np.exp(-ROWS["x"]))).astype(np.int64)
CONTAINERS = [Container("x", np.dtype(float), ()), Container("y", np.dtype("int64"), ())]
#: Number of the block at which the process is killed, counted over all passes, and where it is counted.
DIES_AT = int(os.environ.get("DIES_AT", 0))


class Counted:
    """Blocks, and how many of them were asked for."""

    n_rows = N

    def __init__(self):
        self.asked = 0

    def __iter__(self):
        for start in range(0, N, 300):
            self.asked += 1
            if self.asked == DIES_AT:
                os.kill(os.getpid(), signal.SIGKILL)
            yield {name: column[start : start + 300] for name, column in ROWS.items()}


def built(folder, source, **options):
    with pm.Model():
        x, y = pm.Data("x", ROWS["x"][:50]), pm.Data("y", ROWS["y"][:50])
        slope = pm.Normal("slope", 0, 1)
        pm.Bernoulli("seen", logit_p=slope * x, observed=y)
        data = pma.Blocks(source, pool=4_000, chains=2, checkpoint=folder, **options)
        return pma.PenaltyMH(data=data, progressbar=False).decider


@pytest.mark.slow
def test_a_set_up_that_was_killed_goes_on_and_comes_to_the_same(tmp_path):
    undisturbed, killed = Counted(), Counted()
    expected = built(tmp_path / "whole", undisturbed)
    n_blocks = undisturbed.asked
    sums = len(list((tmp_path / "whole").glob("SumsAt-*.npz")))
    assert n_blocks == 3 * (2 + sums)  # a pass is three blocks: for samples, for sums, and for the pool
    # Within the pass for the pool.
    environment = {**os.environ, "DIES_AT": str(n_blocks - 1), "PYTHONPATH": os.pathsep.join(sys.path)}
    code = f"import {Path(__file__).stem} as t; t.built({str(tmp_path / 'killed')!r}, t.Counted())"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parent, env=environment, capture_output=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    kept = [path.name.partition("-")[0] for path in (tmp_path / "killed").glob("*.npz")]
    assert sorted(kept) == ["Samples", *["SumsAt"] * sums]
    found = built(tmp_path / "killed", killed)
    assert killed.asked == 6  # rows that are compared with those of the first pass, and the last pass
    assert all(map(np.array_equal, found.expansion, expected.expansion))
    assert all(map(np.array_equal, found.parts.stored.arrays, expected.parts.stored.arrays))
    assert np.array_equal(found.row_source.weight, expected.row_source.weight)
    assert found.parts.prepared.passes == expected.parts.prepared.passes
    again = Counted()
    assert np.array_equal(built(tmp_path / "killed", again).row_source.weight, expected.row_source.weight)
    assert again.asked == 3


def drawn(folder, source=None, model_key="a", **options):
    blocks = pma.Blocks(source or ROWS, checkpoint=folder, **{"pool": 500, **options})
    read = blocks.table(CONTAINERS, {}, lambda arrays: None, False, model_key)
    read.samples([np.arange(0, N, 9)])
    return read.weighed(SizesOf(), 0.2)


OTHERS = [
    ({"random_seed": 1}, "another random_seed: 0 there, 1 now"),
    ({"pool": 600}, "another pool: 500 rows for 4 chains there, 600 rows for 4 chains now"),
    ({"model_key": "b"}, "another model: a there, b now"),
    ({"source": {name: c[:800] for name, c in ROWS.items()}}, "another source"),
    ({"columns": {"x": "y"}}, "another columns"),
]


def test_the_folder_of_another_set_up_is_refused(tmp_path):
    drawn(tmp_path)
    for other, named in OTHERS:
        with pytest.raises(ValueError, match=named):
            drawn(tmp_path, **other)


def test_another_version_of_the_package_or_a_file_is_refused(tmp_path):
    """Files that were written anew are another source."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file, kept = tmp_path / "a.parquet", tmp_path / "kept"
    pq.write_table(pa.table(ROWS), file)
    drawn(kept, file)
    os.utime(file, ns=(1, 1))
    written = r"another source: .*a\.parquet', \d+, \d+\)\], None there, .* 1\)\], None now"
    with pytest.raises(ValueError, match=written):
        drawn(kept, file)
    about = kept / "about.json"
    about.write_text(about.read_text().replace(pma.__version__, "0.1.0"))
    with pytest.raises(ValueError, match=f"another version: 0.1.0 there, {pma.__version__} now"):
        drawn(kept, file)


CHANGED = {**ROWS, "x": np.where(np.arange(N) == 500, 9.0, ROWS["x"])}
OTHER_SOURCE, OTHER_ROWS = r"another source: .* there, .* now", "other rows: the checksum of rows 0 to 900 .* there and"


def yielding(rows, folder):
    def blocks():
        yield {name: column[:200] for name, column in rows.items()}
        yield {name: column[200:] for name, column in rows.items()}

    return blocks


def mapped(rows, folder, mode="r"):
    for name, column in rows.items():
        np.save(folder / f"{name}.npy", column)
    return {name: np.load(folder / f"{name}.npy", mmap_mode=mode) for name in rows}


def changed_in_memory(rows, folder):
    arrays = mapped(ROWS, folder, "c")
    for name, column in rows.items():
        arrays[name][:] = column
    return arrays


def in_zarr(rows, folder):
    zarr = pytest.importorskip("zarr")
    return {name: zarr.array(column) for name, column in rows.items()}


def in_pyarrow(rows, folder):
    return pytest.importorskip("pyarrow").table(rows)


TABLES = {
    "arrays": (lambda rows, folder: rows, OTHER_SOURCE),
    "series": (lambda rows, folder: pd.DataFrame(rows).to_dict("series"), OTHER_SOURCE),
    "pyarrow": (in_pyarrow, OTHER_SOURCE),
    "list of pyarrow": (lambda rows, folder: [in_pyarrow(rows, folder)], OTHER_SOURCE),
    "maps": (mapped, OTHER_SOURCE),
    "copy-on-write maps": (changed_in_memory, OTHER_SOURCE),
    "function": (yielding, OTHER_ROWS),
    "Zarr": (in_zarr, OTHER_ROWS),
}


@pytest.mark.parametrize(("source", "named"), TABLES.values(), ids=TABLES)
def test_the_folder_of_another_table_is_refused(tmp_path, source, named):
    """One entry of 900 differs."""
    options = {"n_rows": N} if source is yielding else {}
    expected = drawn(tmp_path / "kept", source(ROWS, tmp_path), **options)
    if source is not mapped:  # whose files are written anew
        assert np.array_equal(drawn(tmp_path / "kept", source(ROWS, tmp_path), **options).weight, expected.weight)
    with pytest.raises(ValueError, match=named):
        drawn(tmp_path / "kept", source(CHANGED, tmp_path), **options)


def test_what_other_rows_taught_is_not_found(tmp_path):
    drawn(tmp_path, yielding(ROWS, None), n_rows=N)
    for file in tmp_path.glob("Samples-*.npz"):
        file.unlink()
    drawn(tmp_path, yielding(CHANGED, None), n_rows=N)
    assert len(list(tmp_path.glob("Pool-*.npz"))) == 2


def test_every_flipped_bit_is_noticed_or_changes_nothing(tmp_path, caplog):
    folder, kept, n_damaged = Checkpoint(tmp_path, {}), [np.arange(3), np.array([[0.5]])], 0
    folder.keep("SumsAt", [], kept)
    (path,) = tmp_path.glob("SumsAt-*.npz")
    whole = path.read_bytes()
    with path.open("r+b", buffering=0) as file, caplog.at_level(logging.ERROR, "pymc_austerity"):
        for bit in range(8 * len(whole)):
            place, right = bit // 8, whole[bit // 8]
            file.seek(place)
            file.write(bytes([right ^ 1 << bit % 8]))
            found = folder.find("SumsAt", [])
            assert found is None or all(f.tobytes() == k.tobytes() for f, k in zip(found, kept, strict=True))
            n_damaged += found is None
            file.seek(place)
            file.write(bytes([right]))
    assert n_damaged > 4 * len(whole)


def test_a_damaged_file_is_named_and_its_pass_done_again(tmp_path, caplog):
    expected = drawn(tmp_path)
    (file,) = tmp_path.glob("Pool-*.npz")
    whole = file.read_bytes()
    np.save(tmp_path / "one.npy", np.arange(3))
    for damaged in (whole[: len(whole) // 2], b"", (tmp_path / "one.npy").read_bytes()):
        file.write_bytes(damaged)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert np.array_equal(drawn(tmp_path).weight, expected.weight)
        assert "is damaged" in caplog.text
    for damaged in ('{"source"', "[]", "null", "3", "\xff", 100_000 * "["):
        (tmp_path / "about.json").write_text(damaged, "latin-1")
        with pytest.raises(ValueError, match=r"about.json is damaged .* Delete it"):
            drawn(tmp_path)


def test_a_disk_without_room_costs_the_file_and_nothing_else(tmp_path, caplog):
    expected = drawn(tmp_path)
    (file,) = tmp_path.glob("Pool-*.npz")
    file.unlink()
    being_written = file.with_name(f"{file.stem}.{os.getpid()}.tmp")
    being_written.symlink_to("/dev/full")
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(drawn(tmp_path).weight, expected.weight)
    assert f"{file} cannot be written (OSError: [Errno 28] No space left on device). The set-up goes on" in caplog.text
    assert not being_written.is_symlink()
    assert not file.exists()


def test_what_ended_processes_were_writing_is_removed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    left, of_others = tmp_path / f"Pool-a.{ended.pid}.tmp", tmp_path / f"Pool-a.{os.getppid()}.tmp"
    for path in (left, of_others):
        path.write_bytes(b"some")
    Checkpoint(tmp_path, {})
    assert not left.exists()
    assert of_others.exists()


def test_a_folder_that_others_may_write_to_or_of_another_user_is_refused(tmp_path):
    tmp_path.chmod(0o770)
    with pytest.raises(ValueError, match=r"others may write to it.*chmod go-w"):
        drawn(tmp_path)
    if os.geteuid() == 0:  # only root gives folders away
        os.chown(tmp_path, 12_345, -1)
        with pytest.raises(ValueError, match="it belongs to user 12345"):
            drawn(tmp_path)


def test_a_folder_is_made_for_the_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    drawn("~/kept/here")
    assert (tmp_path / "kept" / "here" / "about.json").exists()
    assert (tmp_path / "kept" / "here").stat().st_mode & 0o777 == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"checkpoint='.*file/kept' cannot be used: .*Not a directory"):
        drawn(f"{tmp_path}/file/kept")


def test_a_result_of_another_pass_is_not_taken(tmp_path, monkeypatch):
    """Planted mistake: what a pass depends on is not in the name of its file."""
    drawn(tmp_path)
    monkeypatch.setattr(SizesOf, "about", (np.ones(1),))
    drawn(tmp_path)
    assert len(list(tmp_path.glob("Pool-*.npz"))) == 2
    keep = Checkpoint._path
    monkeypatch.setattr(Checkpoint, "_path", lambda self, name, about: keep(self, name, []))
    drawn(tmp_path)
    monkeypatch.setattr(SizesOf, "__call__", lambda self, rows, n_threads=None, advance=None: np.ones(len(rows)))
    monkeypatch.setattr(SizesOf, "about", (np.zeros(2),))
    assert not np.allclose(drawn(tmp_path).weight, 1)


def test_what_is_no_path_is_refused():
    with pytest.raises(TypeError, match="must be the path of a folder"):
        pma.Blocks(ROWS, checkpoint=True)
    with pytest.raises(ValueError, match="the path is empty"):
        pma.Blocks(ROWS, checkpoint="")
