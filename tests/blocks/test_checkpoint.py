"""Passes that are done are not done again after a kill, and a folder that is not of this set-up is not used."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
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
    # Within the first pass of sums, and then, when the samples are known, within the pass for the pool.
    for dies_at, done in ((5, 0), (n_blocks - 4, sums)):
        environment = {**os.environ, "DIES_AT": str(dies_at), "PYTHONPATH": os.pathsep.join(sys.path)}
        code = f"import {Path(__file__).stem} as t; t.built({str(tmp_path / 'killed')!r}, t.Counted())"
        ended = subprocess.run(
            [sys.executable, "-c", code], cwd=Path(__file__).parent, env=environment, capture_output=True, check=False
        )
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
        kept = [path.name.partition("-")[0] for path in (tmp_path / "killed").glob("*.npz")]
        assert sorted(kept) == ["Samples", *["SumsAt"] * done]
    found = built(tmp_path / "killed", killed)
    assert killed.asked == 3  # the last pass
    assert all(map(np.array_equal, found.expansion, expected.expansion))
    assert all(map(np.array_equal, found.rows.arrays, expected.rows.arrays))
    assert np.array_equal(found.row_source.weight, expected.row_source.weight)
    assert found.prepared.passes == expected.prepared.passes
    again = Counted()
    assert np.array_equal(built(tmp_path / "killed", again).row_source.weight, expected.row_source.weight)
    assert again.asked == 0


def drawn(folder, source=None, model_key="a", **options):
    blocks = pma.Blocks(source or ROWS, checkpoint=folder, **{"pool": 500, **options})
    read = blocks.table(CONTAINERS, {}, lambda arrays: None, False, model_key)
    read.samples([np.arange(0, N, 9)])
    return read.weighed(SizesOf(), 0.2)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"random_seed": 1}, "another random_seed: 0 there, 1 now"),
        ({"pool": 600}, "another pool: 500 rows for 4 chains there, 600 rows for 4 chains now"),
        ({"model_key": "b"}, "another model: a there, b now"),
        ({"source": {name: c[:800] for name, c in ROWS.items()}}, "another source"),
        ({"columns": {"x": "y"}}, "another columns"),
    ],
)
def test_the_folder_of_another_set_up_is_refused(tmp_path, other, named):
    drawn(tmp_path)
    with pytest.raises(ValueError, match=named):
        drawn(tmp_path, **other)


def test_files_that_were_written_anew_are_another_source(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table(ROWS), file)
    drawn(tmp_path / "kept", file)
    os.utime(file, ns=(1, 1))
    with pytest.raises(ValueError, match=r"another source: ParquetFiles: .*a\.parquet"):
        drawn(tmp_path / "kept", file)


def test_a_truncated_file_is_noticed_and_its_pass_done_again(tmp_path, caplog):
    expected = drawn(tmp_path)
    (file,) = tmp_path.glob("Pool-*.npz")
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:300] + bytes([whole[300] ^ 1]) + whole[301:]):
        file.write_bytes(damaged)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert np.array_equal(drawn(tmp_path).weight, expected.weight)
        assert "is damaged" in caplog.text
    (tmp_path / "about.json").write_text('{"source"')
    with pytest.raises(ValueError, match=r"about.json is damaged"):
        drawn(tmp_path)


def test_rows_that_changed_since_the_first_pass_are_noticed_after_a_kill(tmp_path):
    drawn(tmp_path)
    (file,) = tmp_path.glob("Pool-*.npz")
    file.unlink()
    changed = {**ROWS, "x": np.where(np.arange(N) == 50, 9.0, ROWS["x"])}
    with pytest.raises(ValueError, match="are not what they were in the first pass"):
        drawn(tmp_path, changed)


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


@pytest.mark.parametrize("wrong", [3, True])
def test_what_is_no_path_is_refused(wrong):
    with pytest.raises(TypeError, match="must be the path of a folder"):
        pma.Blocks(ROWS, checkpoint=wrong)
