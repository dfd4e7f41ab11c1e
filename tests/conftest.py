"""What several test files share: the data folder, a figure back end that needs no screen, small results."""

import gc
import logging
import os
import signal
from collections import Counter
from pathlib import Path

import arviz as az
import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import settings
from xxhash import xxh3_128

from pymc_austerity.compile import cache as compile_cache
from pymc_austerity.compile import code_key
from pymc_austerity.groups import group_assembly
from pymc_austerity.kernel import decider

mpl.use("Agg")

# The same examples in every run, and no limit on the time of one, which compiled code takes once.
settings.register_profile("ci", derandomize=True, deadline=None, database=None, max_examples=25)
settings.load_profile("ci")

# What numba and PyTensor make while they compile stays alive until the end: looked through after every 2,000 objects
# it cost a tenth of the time of the tests. Memory that is free again is found a little later.
gc.set_threshold(100_000, 50, 100)


_TESTS = {path.stem: path for path in Path(__file__).parent.rglob("*.py") if path.parent.name != "compile"}
_package_of = code_key._package_of


def _package_of_test(function):
    """Return the package for a function of a test file too, so that code for a planted mistake is kept on disk."""
    is_test = function.__globals__.get("__name__") in _TESTS
    return code_key._OWN if is_test else _package_of(function)


# Known by what the function is made of and by its file, as the code of the package is.
code_key._package_of = _package_of_test
code_key._TEXTS.update({name: xxh3_128(path.read_bytes()).hexdigest() for name, path in _TESTS.items()})


def pytest_collection_modifyitems(items):
    """Put files with many slow tests first: a worker that began with one at the end would go on alone."""
    tests = Counter(item.path for item in items)
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: (-slow[item.path], -tests[item.path]))


def pytest_sessionfinish():
    """Look for cycles once at the end: pytest does so ten times, and Python again, among all that was compiled."""
    gc.collect()
    gc.freeze()


# A shell starts background jobs with Ctrl-C ignored and their children inherit that; what is interrupted on purpose
# here must be interrupted there as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _loggers_are_left_as_they_were():
    """A level that one test leaves behind silences what the next tests on its worker look for."""
    loggers = [logging.getLogger(name) for name in ("pymc", "pymc_austerity")]
    levels = [logger.level for logger in loggers]
    yield
    left = [logger.level for logger in loggers]
    for logger, level in zip(loggers, levels):
        logger.setLevel(level)
    assert left == levels, f"the levels of {loggers} were {levels} and are {left}"


_WARM_UPS = [(module, module._warm_up) for module in (decider, group_assembly)]


@pytest.fixture(scope="session", autouse=True)
def _moves_are_compiled_when_they_are_made():
    """A step compiles its moves while it is built, for up to a minute; most tests ask for other things of it."""
    with pytest.MonkeyPatch.context() as patch:
        for module, _ in _WARM_UPS:
            patch.setattr(module, "_warm_up", lambda decider: None)
        yield


@pytest.fixture
def compiled_as_built(monkeypatch):
    """Let steps compile their moves while they are built, as they do for users."""
    for module, warm_up in _WARM_UPS:
        monkeypatch.setattr(module, "_warm_up", warm_up)


@pytest.fixture
def nothing_on_disk(tmp_path, monkeypatch):
    """Let compiled code be looked for in an empty folder."""
    monkeypatch.setattr(compile_cache, "FOLDER", tmp_path)
    monkeypatch.setattr("pytensor.link.numba.cache.NUMBA_CACHE_PATH", tmp_path)


@pytest.fixture(scope="session")
def data_folder():
    """Folder of the real data sets; a test that needs one skips where there is none."""
    default = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    folder = Path(os.environ.get("PMA_DATA", default)).resolve()
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set PMA_DATA to the folder that holds the .npz files")
    return folder


@pytest.fixture
def sampling_result():
    """Build what ``pm.sample`` returns from arrays: InferenceData under ArviZ 0.x, DataTree under 1.x."""

    def build(posterior, sample_stats=None, observed_data=None, seconds=None, **kwargs):
        groups = {"posterior": posterior, "sample_stats": sample_stats, "observed_data": observed_data}
        groups = {
            name: {variable: np.asarray(values) for variable, values in group.items()}
            for name, group in groups.items()
            if group is not None
        }
        if int(az.__version__.split(".")[0]) < 1:
            idata = az.from_dict(**groups, **kwargs)
        else:
            idata = az.from_dict(groups, **kwargs)
        if seconds is not None:
            idata["posterior"].attrs["sampling_time"] = seconds
        return idata

    return build
