"""Machine code on disk: found again by another process, and never in place of code that differs from it."""

import enum
import json
import logging
import os
import resource
import shutil
import subprocess
import sys
import textwrap
import types
from collections import namedtuple
from pathlib import Path

import numba
import numpy as np
import pytensor
import pytest
from numba.core.registry import cpu_target
from numba.experimental import jitclass

from pymc_austerity.compile import cache as compile_cache
from pymc_austerity.compile import code_key as keys
from pymc_austerity.compile.cache import cached
from pymc_austerity.compile.code_key import NoKeyError, code_key
from pymc_austerity.compile.lean_njit import njit

PACKAGE = Path(compile_cache.__file__).parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Let compiled code be kept in an empty folder, and functions of this file be those of the package."""
    monkeypatch.setattr(compile_cache, "FOLDER", tmp_path)
    monkeypatch.setattr(keys, "_OWN", __name__)
    return tmp_path


def run(function, *arguments):
    """Call a function through the cache; return its result and whether its code was loaded."""
    kept = cached(function)
    assert cached(kept) is function
    return kept(*arguments), bool(kept.stats.cache_hits)


def files(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".code")


def plus(k):
    @njit
    def function(x):
        return x + k

    return function


def test_code_is_loaded_by_the_next_to_need_it(folder):
    assert run(plus(1), 2) == (3, False)
    kept = files(folder)
    assert len(kept) == 1
    assert run(plus(1), 2) == (3, True)
    assert files(folder) == kept
    assert run(plus(1), 0.5) == (1.5, False)  # other arguments have code of their own
    assert [run(plus(1), x) for x in (0.5, 2)] == [(1.5, True), (3, True)]
    assert len(files(folder)) == 2


def test_any_number_of_arguments(folder):
    def last():
        return njit(lambda x, *more: ((more[-1] if len(more) else x), len(more)))

    for loads in (False, True):
        assert run(last(), 1, 2, 3) == ((3, 2), loads)
    assert run(last(), 1, 2, 0.5) == ((0.5, 2), False)
    assert run(last(), 1) == ((1, 0), False)
    # Compiled code that calls it has code of its own, beside what is kept.
    kept = cached(last())
    assert njit(lambda: kept(1, 2, 4))() == kept(1, 2, 4) == (4, 2)


def test_a_stale_key_would_run_the_old_code(folder, monkeypatch):
    """What a key that says too little does: the tests of the key can fail."""
    monkeypatch.setattr(compile_cache, "code_key", lambda function: "the same")
    assert run(plus(1), 2) == (3, False)
    assert run(plus(10), 2) == (3, True)


# What makes codes different.  Each pair is two functions of no arguments that a poorer key takes for one.


def source(text, **names):
    """Compile `f` from text, in a module of its own that holds some names."""
    namespace = {"__name__": __name__, "njit": njit, "np": np, **names}
    exec(textwrap.dedent(text), namespace)
    return namespace["f"]


def captured(value, text="lambda: value"):
    return source(f"def build(value):\n    return njit({text})\nf = build(given)", given=value)


def global_(value, text="value"):
    return source(f"@njit\ndef f():\n    return {text}", value=value)


def called(text):
    return source(f"""
    inner = njit(lambda x: {text})
    between = njit(lambda x: inner(x))

    @njit
    def f():
        return between(3.0)
    """)


def record(*names):
    values = np.zeros(2, dtype=[(name, "f8") for name in names])
    values[names[0]] = 1.0
    return captured(values, "lambda: value[0]['a']")


def optional(options):
    return captured(njit(**options)(lambda x: 1.0 / (x + 1.0)), "lambda: value(1.0)")


Left = namedtuple("Left", ["left", "right"])
Right = namedtuple("Right", ["right", "left"])


def shadowed(k):
    """A captured number, and a global number of the name of an attribute that is read."""
    return source(
        "def build(right):\n    return njit(lambda: right + both.right)\nf = build(given)",
        given=k,
        both=Left(1, 2),
        right=7,
    )


PAIRS = {
    "captured number": lambda k: captured(k),
    "global number": lambda k: global_(k),
    "default": lambda k: source(f"@njit\ndef f(x={k}):\n    return x"),
    "a global of the same name": shadowed,
    "kind of constant": lambda k: source(f"@njit\ndef f():\n    return {[True, 1][k - 1]}"),
    "constant of an inner function": lambda k: source(f"@njit\ndef f():\n    return (lambda: {k})()"),
    "sign of zero": lambda k: captured([0.0, -0.0][k - 1], "lambda: np.copysign(1.0, value)"),
    "called function": lambda k: called(f"x + {k}"),
    "called function's operator": lambda k: called(["x + 1", "x * 1"][k - 1]),
    "where a tuple ends": lambda k: captured([((1,), 2, 3), ((1, 2), 3)][k - 1], "lambda: len(value)"),
    "array": lambda k: captured(np.arange(3.0) * k, "lambda: value[2]"),
    "kind of array": lambda k: captured(np.ones(3, ["f4", "f8"][k - 1]), "lambda: value[2] + np.float32(0.1)"),
    "shape of array": lambda k: captured(np.arange(6.0).reshape([(2, 3), (3, 2)][k - 1]), "lambda: value[1, 0]"),
    "fields of records": lambda k: record(*[("a", "b"), ("b", "a")][k - 1]),
    "class of fields": lambda k: captured([Left, Right][k - 1], "lambda: value(1, 2).left"),
    "numba's type": lambda k: captured([numba.float32, numba.float64][k - 1], "lambda: value(0.1)"),
    "option fastmath": lambda k: optional([{}, {"fastmath": True}][k - 1]),
    "option fastmath's parts": lambda k: optional({"fastmath": {["nsz", "nnan"][k - 1]}}),
    "option error_model": lambda k: optional([{}, {"error_model": "python"}][k - 1]),
}


@pytest.mark.parametrize("build", PAIRS.values(), ids=PAIRS)
def test_keys_differ_where_functions_do(folder, build):
    one, again, other = build(1), build(1), build(2)
    assert code_key(one) != code_key(other)
    assert code_key(one) == code_key(again)


@pytest.mark.parametrize("package", ["numba", "pytensor", "pymc_austerity"])
def test_another_version_of_what_compiles_misses(folder, monkeypatch, package):
    key, real = code_key(plus(1)), keys.version
    with monkeypatch.context() as patch:
        patch.setattr(keys, "version", lambda name: "0.0" if name in (package, keys._OWN) else real(name))
        keys._surroundings.cache_clear()
        assert code_key(plus(1)) != key
    keys._surroundings.cache_clear()


@pytest.mark.parametrize(
    ("setting", "value", "matters"),
    [("OPT", 0, True), ("BOUNDSCHECK", 1, True), ("LOOP_VECTORIZE", 0, True), ("NUMBA_NUM_THREADS", 77, False)],
)
def test_a_setting_of_numba_misses_where_it_changes_code(folder, monkeypatch, setting, value, matters):
    key = code_key(plus(1))
    monkeypatch.setattr(numba.config, setting, value)
    assert (code_key(plus(1)) != key) == matters


def test_a_changed_file_of_what_takes_part_misses(folder, monkeypatch):
    """Also where the function that it holds is the same: a class that it names may not be."""
    texts = {__name__: "this file", "elsewhere": "another"}
    monkeypatch.setattr(keys, "_TEXTS", texts)
    key = code_key(plus(1))
    texts["elsewhere"] = "changed"
    assert code_key(plus(1)) == key
    texts[__name__] = "changed"
    assert code_key(plus(1)) != key


def test_nothing_is_kept_once_files_have_changed(folder, tmp_path, monkeypatch):
    """What runs is then what was imported, which the files no longer tell."""
    file = tmp_path / "module.py"
    file.write_text("x = 1")
    monkeypatch.setattr(keys, "_SOURCES", [str(file)])
    monkeypatch.setattr(keys, "_STAMPS", keys._stamps())
    code_key(plus(1))
    file.write_text("x = 10")
    with pytest.raises(NoKeyError, match="have changed"):
        code_key(plus(1))
    file.unlink()
    with pytest.raises(NoKeyError, match="are not there"):
        code_key(plus(1))


def test_a_large_array_is_compiled_in_but_not_kept(folder):
    """numba keeps its address, which means nothing to another process."""
    large = np.arange(200_000.0)
    for _ in range(2):
        assert run(captured(large, "lambda: value[-1]")) == (199_999.0, False)
    assert files(folder) == []


# What has no key: it is compiled anew, in every process.


@jitclass([("x", numba.float64)])
class Jitted:
    def __init__(self):
        self.x = 1.0


class Level(float):
    def __repr__(self):
        return "a level"


def of_a_user():
    return source("@njit\ndef f():\n    return 1", __name__="a_module_of_a_user")


WITHOUT_KEY = [
    object(), Jitted.class_type.instance_type, Level(1.0), np.array([None]), np.frompyfunc(lambda x: x, 1, 1),
    namedtuple("OfNoModule", "x")(1), enum.IntEnum("OfNoModule", {"ONE": 1}).ONE, types.ModuleType("elsewhere"),
    of_a_user(),
]  # fmt: skip


@pytest.mark.parametrize("value", WITHOUT_KEY, ids=lambda value: type(value).__name__)
def test_what_cannot_be_named_is_refused(folder, value, caplog):
    function = captured(value)
    with pytest.raises(NoKeyError, match="cannot be named"):
        code_key(function)
    with caplog.at_level(logging.DEBUG, logger="pymc_austerity"):
        cached(function)
    assert "Compiled anew in every process" in caplog.text


def test_a_global_that_a_program_replaces_is_another_code(folder):
    function = global_(1)
    assert run(function) == (1, False)
    function.py_func.__globals__["value"] = 2
    assert run(njit(function.py_func)) == (2, False)
    planted = called("x + 1")
    key = code_key(planted)
    planted.py_func.__globals__["between"].py_func.__globals__["inner"] = njit(lambda x: x + 2)
    assert code_key(planted) != key
    planted.py_func.__globals__["between"] = of_a_user()
    with pytest.raises(NoKeyError, match="cannot be named"):
        code_key(planted)


def test_what_is_switched_off_stays_off(folder):
    function = plus(1)
    with pytensor.config.change_flags(numba__cache=False):
        assert cached(function)(2) == 3
    assert files(folder) == []
    assert cached(function.py_func) is function.py_func  # what `njit` returns under NUMBA_DISABLE_JIT


# Folders and files that fail.


@pytest.fixture
def said(caplog):
    """Return what was said to users, and forget it."""
    caplog.set_level(logging.INFO, logger="pymc_austerity")

    def lines():
        found = [r.getMessage() for r in caplog.records if r.name == "pymc_austerity"]
        caplog.clear()
        return found

    return lines


def test_a_folder_that_cannot_be_made_costs_a_line(folder, monkeypatch, said):
    monkeypatch.setattr(compile_cache, "FOLDER", folder / "taken")
    (folder / "taken").write_text("a file where a folder should be")
    assert run(plus(1), 2) == (3, False)
    assert [line.partition(" (")[2].startswith("FileExistsError") for line in said()] == [True]
    assert [path for path in folder.iterdir() if path.name != "taken"] == []


def test_a_full_disk_costs_a_line_until_there_is_room(folder, said):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))  # no file may become larger
    try:
        assert run(plus(1), 2) == (3, False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert any("Compiled code cannot be kept" in line for line in said())
    assert list(folder.iterdir()) == []
    assert run(plus(1), 2) == (3, False)
    assert run(plus(1), 2) == (3, True)
    assert said() == []


def test_damaged_code_is_not_run_and_made_anew(folder, said):
    """Some such code gives a wrong number, or ends the process."""
    assert run(plus(1), 2) == (3, False)
    (file,) = folder.iterdir()
    whole, asked = file.read_bytes(), cached(plus(1))._cache
    assert asked.load_overload((numba.int64,), cpu_target.target_context) is not None
    for bit in np.random.default_rng(1).choice(8 * len(whole), 200, replace=False):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        file.write_bytes(damaged)
        assert asked.load_overload((numba.int64,), cpu_target.target_context) is None
        assert len(said()) == 1
    for cut in (0, len(whole) // 2):
        file.write_bytes(whole[:cut])
        assert run(plus(1), 2) == (3, False)
        assert any("cannot be used and is made anew" in line for line in said())
    assert run(plus(1), 2) == (3, True)
    assert said() == []


def test_a_file_with_other_code_is_not_run(folder, said):
    """Under the name of other arguments, or of another function."""
    run(plus(1), 2)
    (file,) = folder.iterdir()
    kept = file.read_bytes()
    run(plus(1), 0.5)
    run(plus(10), 2)
    for other in set(folder.iterdir()) - {file}:
        file.write_bytes(other.read_bytes())
        assert run(plus(1), 2) == (3, False)
        assert len(said()) == 1
    assert file.read_bytes() != kept  # numba numbers its functions
    assert run(plus(1), 2) == (3, True)


@pytest.mark.parametrize("mode", [0o770, 0o702, None])
def test_a_folder_that_others_may_write_to_is_not_used(folder, said, monkeypatch, mode):
    """Neither read nor written, and said once; without a mode it belongs to another user."""
    assert run(plus(1), 2) == (3, False)
    with monkeypatch.context() as patch:
        if mode is None:
            patch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
        else:
            folder.chmod(mode)
        for _ in range(2):
            assert run(plus(1), 2) == (3, False)
            assert run(plus(2), 2) == (4, False)
        (line,) = said()
        assert f"{folder} nor kept there: " in line
        why = f"it belongs to the user {folder.stat().st_uid}" if mode is None else "others may write to it"
        assert why in line
        assert len(files(folder)) == 1
    folder.chmod(0o700)
    assert run(plus(1), 2) == (3, True)


def test_a_new_folder_is_for_its_owner_alone(folder, monkeypatch):
    monkeypatch.setattr(compile_cache, "FOLDER", folder / "new" / "folder")
    before = os.umask(0)
    try:
        assert run(plus(1), 2) == (3, False)
    finally:
        os.umask(before)
    assert (folder / "new" / "folder").stat().st_mode & 0o777 == 0o700
    assert run(plus(1), 2) == (3, True)


def test_what_was_not_used_for_longest_is_removed_first(folder, monkeypatch):
    for k in range(5):
        run(plus(k), 2)
    sizes = [path.stat().st_size for path in folder.iterdir()]
    for k in (4, 3, 2, 1, 0):  # the first is now the newest
        (path,) = [p for p in folder.iterdir() if cached(plus(k))._cache._path((numba.int64,)) == p]
        os.utime(path, ns=(0, 10**9 * (10 - k)))
    assert run(plus(4), 2) == (6, True)  # and the last is newer
    monkeypatch.setenv(compile_cache.LIMIT, str(3.6 * max(sizes) / 1e6))
    monkeypatch.setattr(compile_cache, "_unseen", {})
    run(plus(5), 2)
    assert len(files(folder)) == 3
    assert [run(plus(k), 2)[1] for k in (0, 4, 5)] == [True] * 3
    monkeypatch.setenv(compile_cache.LIMIT, "as much as you like")
    assert compile_cache._limit() == compile_cache.DEFAULT_LIMIT * 1e6


# Other processes.

OWN = """
from typing import NamedTuple

import numpy as np
from numba import njit


class Pair(NamedTuple):
    left: float
    right: float


values = np.arange(4.0)


def nested(k):
    inner = njit(lambda x: x + k)
    middle = njit(lambda x: inner(x) * values[2])
    return njit(lambda x: Pair(middle(x), inner(x)).left)


@njit
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


in_any_order = njit(lambda x: x in {"alpha", "beta", "gamma", "delta"})
array_sum = njit(lambda values: values.sum())
"""
CHILD = """
import json, multiprocessing, sys, types

# The package without its __init__, which imports PyMC.
package = types.ModuleType("pymc_austerity")
package.__path__ = [sys.argv[1]]
sys.modules["pymc_austerity"] = package

import own
from pymc_austerity.compile import code_key
from pymc_austerity.compile.cache import cached

code_key._OWN = "own"


def loaded(_):
    kept = cached(own.nested(2.0))
    return kept(3.0), bool(kept.stats.cache_hits)


if __name__ == "__main__":
    found = {}
    calls = {"nested": (own.nested(2.0), 3.0), "factorial": (own.factorial, 5), "sum": (own.array_sum, own.values)}
    for name, (function, argument) in calls.items():
        kept = cached(function)
        found[name] = [kept(argument), bool(kept.stats.cache_hits)]
    found["key"] = [code_key.code_key(f) for f in (own.in_any_order, own.nested(2.0))]
    for method in sys.argv[2:]:
        with multiprocessing.get_context(method).Pool(2) as pool:
            found[method] = pool.map(loaded, range(2))
    print(json.dumps(found))
"""


@pytest.fixture
def start(tmp_path):
    """Start a Python process of its own that keeps compiled code in the folder of the test."""
    (tmp_path / "child.py").write_text(CHILD)
    (tmp_path / "own.py").write_text(OWN)

    def start(*methods, package=PACKAGE, **environment):
        env = {**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={tmp_path / 'compiled'}", **environment}
        command = [sys.executable, str(tmp_path / "child.py"), str(package), *methods]
        env = {name: value for name, value in env.items() if value is not None}
        ran = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
        return json.loads(ran.stdout)

    return start


def results(found, loaded):
    return [found[name] for name in ("nested", "factorial", "sum")] == [[r, loaded] for r in (10.0, 120, 6.0)]


def test_another_process_and_its_workers_load_code(start, tmp_path):
    first = start(PYTHONHASHSEED="1")
    kept = files(tmp_path / "compiled" / "pymc_austerity")
    second = start("fork", "spawn", PYTHONHASHSEED="2", HOME=None)
    assert results(first, False)
    assert results(second, True)
    assert second["key"] == first["key"]
    assert second["fork"] == second["spawn"] == [[10.0, True]] * 2
    assert files(tmp_path / "compiled" / "pymc_austerity") == kept


@pytest.mark.slow
def test_a_changed_source_misses_in_another_process(start, tmp_path):
    """Of the function, or of a file that extends numba; where the package lies does not matter, nor other files."""
    start()
    copy = tmp_path / "elsewhere"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert results(start(package=copy), True)
    for changed, found_again in (("rows/pool.py", True), ("compile/addresses.py", False)):
        with (copy / changed).open("a") as file:
            file.write("# a remark\n")
        assert results(start(package=copy), found_again)
    (tmp_path / "own.py").write_text(OWN.replace("x + k", "x - k").replace("n < 2", "n < 3"))
    found = start()
    assert found["nested"] == [2.0, False]
    assert found["factorial"] == [60, False]
    assert found["sum"] == [6.0, True]


STEP = """
import json, sys

import numba
import numpy as np
from numba.core import event

import golden
from pymc_austerity.acceptance.decision import draw_log_uniform

compiled = []


class Ours(event.Listener):
    def on_start(self, happened):
        module = getattr(getattr(happened.data["dispatcher"], "py_func", None), "__module__", None) or ""
        if module.startswith("pymc_austerity"):
            compiled.append(module)

    def on_end(self, happened):
        pass


event.register("numba:compile", Ours())
run = golden.EVERYTHING[sys.argv[1]]
with run.model() as model:
    step = run.step(model)
step.start_chain(np.random.default_rng(3))
point, draws = model.initial_point(), []
for _ in range(100):
    point, _ = step.step(point)
    draws.append([float(x).hex() for name in sorted(point) for x in np.ravel(point[name])])
needed = [*compiled]
numba.njit(draw_log_uniform.py_func)(np.random.default_rng(1))  # which is kept in no file: compilation is seen
print(json.dumps([needed, compiled[len(needed):], draws]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MHSS", "groups, not centred"])
def test_a_step_in_another_process_compiles_nothing(name):
    """And makes the same draws; in the folder of every day, where `test_golden.py` has what it needs or finds it."""

    def run_program():
        command, env = [sys.executable, "-c", STEP, name], {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900, env=env)
        return json.loads(ran.stdout.splitlines()[-1])

    _, _, draws = run_program()
    needed, seen, again = run_program()
    assert needed == []
    assert len(seen) == 1
    assert again == draws
    assert len({tuple(d) for d in draws}) > 50
