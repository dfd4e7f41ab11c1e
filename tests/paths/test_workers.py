import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import pymc_austerity
from pymc_austerity.paths import ReplicationError, debias, workers

N_ROWS = 2_000
X = np.random.default_rng(1).normal(2, 3, N_ROWS)


def posterior_mean(rows):
    return X[rows].sum() / (len(rows) + 10)


def run(phi=posterior_mean, **settings):
    defaults = {"min_batch": 10, "alpha": 0.6, "replications": 40, "random_seed": 3, "progressbar": False}
    return debias(phi, N_ROWS, **(defaults | settings))


def processes(workers=2):
    # Forking a process that has threads is unsafe, and a warning from Python 3.12 on.
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


@pytest.fixture(scope="module")
def two_processes():
    """Processes that one run after the other is given to, as a user keeps them."""
    with processes() as executor:
        yield executor


def assert_same(first, second):
    xr.testing.assert_identical(first.drop_vars("seconds"), second.drop_vars("seconds"))


class DiesOnce:
    """φ that kills its own process the first time it reads many rows."""

    def __init__(self, flag: Path):
        self.flag = flag

    def __call__(self, rows):
        if len(rows) >= 320 and not self.flag.exists():
            self.flag.touch()
            os._exit(3)
        return posterior_mean(rows)


@pytest.mark.parametrize("settings", [{}, {"replications": None, "tolerance": 0.5}, {"alpha": "auto"}])
def test_same_result_on_threads_and_processes(two_processes, settings):
    here = run(**settings)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(5) as five:
        for executor in (one, five, two_processes):
            assert_same(run(executor=executor, **settings), here)


def test_a_large_phi_travels_by_file_and_the_file_is_removed(two_processes, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    large = np.tile(X, 40)
    assert large.nbytes > workers._INLINE_BYTES

    def phi(rows):
        return large[rows].sum() / (len(rows) + 10)

    assert_same(run(phi, executor=two_processes), run())
    assert not list(tmp_path.glob("phi-*"))

    # By value, where the parcel points to a file of another machine.
    pack = workers.Workers._pack
    monkeypatch.setattr(workers.Workers, "_pack", lambda self: workers.replace(pack(self), path="/nowhere/phi.pickle"))
    assert_same(run(phi, executor=two_processes), run())


@pytest.mark.slow
def test_a_killed_worker_loses_nothing_that_was_finished(tmp_path):
    whole = run()
    phi = DiesOnce(tmp_path / "died")
    with processes(2) as executor, pytest.warns(UserWarning, match="append="):
        part = run(phi, executor=executor)
    assert (tmp_path / "died").exists()
    assert 0 < part.sizes["replication"] < 40
    assert "workers lost" in part.attrs["stopped"]
    # What came back is what an undisturbed run has for those replications.
    same = whole.sel(replication=part.replication)
    np.testing.assert_array_equal(part.replicate, same.replicate)
    assert_same(run(append=part, random_seed=None), whole)


@pytest.mark.slow
def test_a_dask_cluster_survives_the_death_of_a_worker(tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", local_directory=tmp_path
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor()
        before = set(client.scheduler_info()["workers"])
        assert_same(run(executor=executor), run())
        assert_same(run(DiesOnce(tmp_path / "died"), executor=executor), run())
        assert (tmp_path / "died").exists()
        client.wait_for_workers(2)
        assert set(client.scheduler_info()["workers"]) != before


def test_errors_of_phi_come_back_from_workers_with_their_place(two_processes):
    def fails(rows):
        if len(rows) >= 320:
            raise OSError("disk gone")
        return posterior_mean(rows)

    with pytest.raises(ReplicationError, match="disk gone") as caught:
        run(fails, executor=two_processes)
    assert "while phi read 320 rows" in str(caught.value)
    assert caught.value.finished.sizes["replication"] > 0


def test_a_phi_that_does_not_pickle_is_refused():
    lock = threading.Lock()
    with processes(1) as executor, pytest.raises(TypeError, match="ThreadPoolExecutor"):
        run(lambda rows: lock and 0.0, executor=executor)


def test_a_closed_executor_is_an_error():
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(workers.WorkersLostError, match="no more jobs"):
        run(executor=executor)


@pytest.mark.filterwarnings("ignore:The standard error may say too little")
@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_returns_what_is_done_and_the_run_goes_on(workers):
    """Here, or in the main thread while it waits for results."""
    calls = []

    def phi(rows):
        time.sleep(0.01 if workers else 0)
        calls.append(len(rows))
        if len(calls) == 30:
            os.kill(os.getpid(), signal.SIGINT)
        return posterior_mean(rows)

    with ThreadPoolExecutor(2) as executor, pytest.warns(UserWarning, match="interrupted .* append="):
        part = run(phi, executor=executor if workers else None)
    assert 0 < part.sizes["replication"] < 40
    assert part.attrs["stopped"] == "interrupted by the user"
    assert_same(run(append=part, random_seed=None), run())


def test_ctrl_c_before_anything_is_done_is_ctrl_c():
    def phi(rows):
        signal.raise_signal(signal.SIGINT)
        return 0.0

    with pytest.raises(KeyboardInterrupt):
        run(phi)


def started(folder, script, *arguments):
    """Start a program of a user, in a session and with a folder for temporary files of its own."""
    (folder / "script.py").write_text(script)
    (folder / "tmp").mkdir()
    own = {"PYTHONPATH": str(Path(pymc_austerity.__file__).parents[1]), "TMPDIR": str(folder / "tmp")}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "script.py", *arguments], cwd=folder, env=os.environ | own,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


INTERRUPTED = """
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pymc_austerity.paths.debias import debias

def phi(rows):
    time.sleep(0.02)
    with open("calls", "a") as file:
        file.write("x")
    return float(rows.sum())

if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        print("ready", flush=True)
        result = debias(phi, 1000, min_batch=10, alpha=0.9, replications=2_000, executor=executor, random_seed=1,
                        progressbar=False)
    print("replications", result.sizes["replication"], result.attrs["stopped"], flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_from_a_terminal_reaches_a_pool_of_processes(tmp_path):
    """The signal goes to the whole process group, as the terminal sends it."""
    process, calls = started(tmp_path, INTERRUPTED), tmp_path / "calls"
    try:
        assert process.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and not (calls.exists() and len(calls.read_bytes()) > 150):
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out.startswith("replications"), err
    assert 0 < int(out.split()[1]) < 2_000


ENDED = """
import sys, tempfile, threading, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
import numpy as np
from pymc_austerity.paths.debias import debias

large = np.zeros(50_000)

def phi(rows):
    Path("begun").touch()
    time.sleep(600)
    return float(large[rows].sum())

def tell():
    while not Path("begun").exists():
        time.sleep(0.05)
    time.sleep(1)
    print("begun", *Path(tempfile.gettempdir()).glob("phi-*"), flush=True)

if __name__ == "__main__":
    threading.Thread(target=tell, daemon=True).start()
    with ProcessPoolExecutor(4, mp_context=get_context(sys.argv[1])) as executor:
        debias(lambda rows: phi(rows), 1000, min_batch=10, alpha=0.9, replications=2, executor=executor)
"""


@pytest.mark.parametrize("how", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_end_with_the_program_that_started_them(tmp_path, how):
    """Idle ones too: they hold what is printed open, of which there is an end when the last of them has ended."""
    process = started(tmp_path, ENDED, how)
    begun, *files = process.stdout.readline().split()
    assert begun == "begun"
    assert len(files) == 1
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert not list((tmp_path / "tmp").glob("phi-*"))


def test_a_file_that_holds_another_phi_is_not_unpickled(tmp_path):
    (tmp_path / "phi.pickle").write_bytes(b"something else")
    parcel = workers._Parcel("digest of what was written", str(tmp_path / "phi.pickle"), None, False)
    assert parcel.open() is None
