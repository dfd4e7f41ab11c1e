"""Passes on a Dask cluster: what they learn is what one process learns, also where a worker dies in the middle."""

import os
import signal

import numpy as np
import pymc as pm
import pytest
from weighing import SizesOf

import pymc_austerity as pma
from pymc_austerity.blocks import Container, executors
from pymc_austerity.blocks.executors import Threads

N, PARTS = 1_200, 8
CONTAINERS = [Container("x", np.dtype(float), ()), Container("y", np.dtype("int64"), ())]


def part_of(k, folder):
    """Rows of part k; the process that asks for part 5 dies where a file asks for it, once."""
    deadly = folder / "die"
    if k == 5 and deadly.exists():
        deadly.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    rng = np.random.default_rng(k)
    x = rng.normal(k / PARTS, 1, N // PARTS)
    return {"x": x, "y": (rng.random(x.size) < 1 / (1 + np.exp(2 - x))).astype(np.int64)}


def opened(source, client=None, **options):
    return pma.Blocks(source, pool=4_000, client=client, **options).table(CONTAINERS, {}, lambda arrays: None, False)


def drawn(table):
    some, everything = table.samples([np.arange(0, N, 7), None])
    return some, everything, table.weighed(SizesOf(), 0.2)


def bag(folder):
    return pytest.importorskip("dask.bag").from_sequence(range(PARTS), npartitions=PARTS).map(part_of, folder)


def assert_same(found, expected):
    for rows, known in zip(found[:2], expected[:2]):
        assert all(map(np.array_equal, rows.arrays, known.arrays))
    assert np.array_equal(found[2].weight, expected[2].weight)
    assert all(map(np.array_equal, found[2].rows.arrays, expected[2].rows.arrays))


@pytest.fixture(scope="module", autouse=True)
def threads():
    """Without a client Dask computes bags in processes, which take seconds to start."""
    with pytest.importorskip("dask").config.set(scheduler="threads"):
        yield


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")
    with (
        distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, processes=True, dashboard_address=":0",
            local_directory=tmp_path_factory.mktemp("dask"),
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):  # fmt: skip
        yield client


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process learns from the bag."""
    return drawn(opened(bag(tmp_path_factory.mktemp("nobody dies"))))


@pytest.mark.slow
def test_a_worker_that_dies_changes_nothing(client, tmp_path, alone):
    table = opened(bag(tmp_path), client)
    before = set(client.scheduler_info()["workers"])
    (tmp_path / "die").touch()
    assert_same(drawn(table), alone)
    assert not (tmp_path / "die").exists()
    client.wait_for_workers(4)
    assert set(client.scheduler_info()["workers"]) != before


@pytest.mark.slow
def test_a_cluster_that_gives_up_or_is_closed_is_an_error_in_words(client, tmp_path, monkeypatch):
    with pytest.importorskip("distributed").Client(client.cluster, set_as_default=False) as closed:
        table = opened(bag(tmp_path), closed)
    with pytest.raises(RuntimeError, match="not finished on the Dask cluster"):
        drawn(table)
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)
    table = opened(bag(tmp_path), client)
    (tmp_path / "die").touch()
    with pytest.raises(RuntimeError, match=r"not finished on the Dask cluster \(KilledWorker.*checkpoint="):
        drawn(table)
    client.wait_for_workers(4)


def test_a_cluster_without_workers_is_said_and_not_waited_for_longer_than_dask_is_told(tmp_path, monkeypatch, caplog):
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    monkeypatch.setattr(executors, "_UNTIL_ASKED", 0.2)
    alone = {"n_workers": 0, "dashboard_address": ":0", "local_directory": tmp_path}
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "1 s"}),
        distributed.LocalCluster(**alone) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        pytest.raises(RuntimeError, match=r"not finished on the Dask cluster \(NoWorkerError"),
    ):
        drawn(opened({"x": np.zeros(N), "y": np.zeros(N, int)}, client))
    assert "The Dask cluster has no worker, and a pass over the rows waits for one" in caplog.text


def sources(folder, everything):
    """The same rows, read by workers from files, slices and a frame, and sent to them from here."""
    columns = dict(zip("xy", everything.arrays))
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=N // PARTS)
    maps = {}
    for name, column in columns.items():
        np.save(folder / f"{name}.npy", column)
        maps[name] = np.load(folder / f"{name}.npy", mmap_mode="r")
    dask_array, frame = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    yield str(folder / "a.parquet"), {}
    yield maps, {}
    yield {name: dask_array.from_array(column, 100) for name, column in columns.items()}, {}
    yield frame.from_pandas(pytest.importorskip("pandas").DataFrame(columns), npartitions=3), {}
    yield (lambda: iter([columns])), {"n_rows": N}


@pytest.mark.slow
def test_workers_read_every_source(client, tmp_path, alone):
    for source, options in sources(tmp_path, alone[1]):
        here, there = drawn(opened(source, **options)), drawn(opened(source, client, **options))
        assert_same(there, here)
        assert np.array_equal(there[1].arrays[0], alone[1].arrays[0])


@pytest.mark.slow
def test_errors_of_workers_come_back_with_the_row(client):
    x = np.arange(N, dtype=float)
    x[700] = np.nan
    with pytest.raises(ValueError, match="the arrays, row 700: column 'x', nan, is not finite"):
        drawn(opened({"x": x, "y": np.zeros(N, int)}, client))


@pytest.mark.slow
def test_the_step_of_a_cluster_is_that_of_one_process(client, tmp_path):
    with pm.Model():
        example = part_of(0, tmp_path)
        x, y = pm.Data("x", example["x"]), pm.Data("y", example["y"])
        slope, level = pm.Normal("slope", 0, 1), pm.Normal("level", 0, 3)
        pm.Bernoulli("seen", logit_p=level + slope * x, observed=y)
        here, there = (
            pma.PenaltyMH(data=pma.Blocks(bag(tmp_path), pool=40_000, chains=2, client=c), progressbar=False).decider
            for c in (None, client)
        )
    for found, known in zip(there.expansion, here.expansion):
        np.testing.assert_allclose(found, known, rtol=1e-10)
    np.testing.assert_allclose(there.row_source.weight, here.row_source.weight, rtol=1e-5)
    assert all(map(np.array_equal, there.parts.stored.arrays, here.parts.stored.arrays))


class Lossy(Threads):
    """Planted mistake: what a worker did that died is never done again."""

    def each(self, worked, parts):
        return (result for k, result in enumerate(super().each(worked, parts)) if k != 5)


class SeedsOfWorkers(Threads):
    """Planted mistake: what is drawn from a part depends on who reads it."""

    def each(self, worked, parts):
        return super().each(worked, (self.other(a) for a in parts))

    def other(self, assigned):
        number, *rest = assigned.more
        return assigned._replace(more=(number + 100, *rest)) if isinstance(number, int) else assigned


def test_planted_mistakes_would_be_seen(tmp_path, alone):
    table = opened(bag(tmp_path))
    table.passes.executor = Lossy()
    with pytest.raises(ValueError, match="a pass read 1,050 rows where 1,200 were expected"):
        drawn(table)
    table = opened(bag(tmp_path))
    table.passes.executor = SeedsOfWorkers()
    with pytest.raises(AssertionError):
        assert_same(drawn(table), alone)
