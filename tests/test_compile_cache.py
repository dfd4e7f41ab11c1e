"""Compiled code on disk: found again by another process, and never in place of code that differs from it."""

import contextlib
import enum
import errno
import itertools
import json
import logging
import os
import resource
import subprocess
import sys
import textwrap
import types
from collections import namedtuple
from importlib.metadata import distribution, packages_distributions, version
from pathlib import Path

import numba
import numpy as np
import pytensor
import pytest
from numba import njit
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import IndexDataCacheFile
from numba.core.typing.templates import builtin_registry
from numba.experimental import jitclass
from numba.extending import intrinsic, overload, overload_method, register_jitable

from pymc_austerity import code_key, compile_cache, foreign_code
from pymc_austerity.code_key import NotDescribedError, cache_key
from pymc_austerity.compile_cache import cached

PACKAGE = Path(compile_cache.__file__).parent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Let compiled code be kept in an empty folder."""
    if compile_cache.CACHED_SRC_FUNCTIONS is None:
        pytest.skip("this PyTensor keeps no compiled code, so neither does the package")
    monkeypatch.setattr("pytensor.link.numba.cache.NUMBA_CACHE_PATH", tmp_path)
    return tmp_path


def run(function, *arguments):
    """Call a function through the cache; return its result and whether its code was loaded."""
    kept = cached(function)
    assert kept is not function
    return kept(*arguments), bool(kept.stats.cache_hits)


def files(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".nbc")


def plus(k):
    @njit
    def function(x):
        return x + k

    return function


def test_without_a_cache_to_keep_it_in_a_function_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(compile_cache, "CACHED_SRC_FUNCTIONS", None)
    function = plus(1)
    assert cached(function) is function


def test_code_is_loaded_by_the_next_to_need_it(folder):
    assert run(plus(1), 2) == (3, False)
    kept = files(folder)
    assert len(kept) == 1
    assert run(plus(1), 2) == (3, True)
    assert files(folder) == kept


def test_other_arguments_have_code_of_their_own(folder):
    assert run(plus(1), 2) == (3, False)
    assert run(plus(1), 0.5) == (1.5, False)
    assert run(plus(1), 0.5) == (1.5, True)
    assert run(plus(1), 2) == (3, True)
    assert len(files(folder)) == 2


def test_code_for_any_number_of_arguments_is_kept_by_their_types(folder):
    def last():
        @njit
        def function(x, *more):
            return (more[-1] if len(more) else x), len(more)

        return function

    assert run(last(), 1, 2, 3) == ((3, 2), False)
    assert run(last(), 1, 2, 3) == ((3, 2), True)
    assert run(last(), 1, 2) == ((2, 1), False)
    assert run(last(), 1, 2, 0.5) == ((0.5, 2), False)
    assert run(last(), 1) == ((1, 0), False)
    assert run(last(), 1, 2, 0.5) == ((0.5, 2), True)
    # Compiled code that calls it has code of its own, beside what is kept.
    kept = cached(last())
    assert njit(lambda: kept(1, 2, 4))() == (4, 2)
    assert kept(1, 2, 4) == (4, 2)


def test_a_stale_key_would_run_the_old_code(folder, monkeypatch):
    """What a key that says too little does: the tests of the key can fail."""
    monkeypatch.setattr(compile_cache, "cache_key", lambda function: "the same")
    assert run(plus(1), 2) == (3, False)
    assert run(plus(10), 2) == (3, True)


# What makes codes different.  Each pair is two functions of no arguments that a poorer description takes for one.


def source(text, **names):
    """Compile `f` from text, in a module of its own that holds some names."""
    namespace = {"__name__": __name__, "njit": njit, "np": np, "numba": numba, **names}
    exec(textwrap.dedent(text), namespace)
    return namespace["f"]


def captured(value, text="lambda: value"):
    return source(f"def build(value):\n    return njit({text})\nf = build(given)", given=value)


def global_(value, text="value"):
    return source(f"@njit\ndef f():\n    return {text}", value=value)


def pair(**fields):
    return namedtuple("Pair", fields)(**fields)


def number(kind, **members):
    return kind("Number", members)


def module(**attributes):
    found = types.ModuleType("elsewhere")
    vars(found).update(attributes)
    return found


def called(text):
    return source(f"""
    @njit
    def inner(x):
        return {text}

    @njit
    def between(x):
        return inner(x)

    @njit
    def f():
        return between(3.0)
    """)


def stand_in(k):
    def stub():
        raise NotImplementedError

    @overload(stub)
    def _():
        return lambda: k

    return captured(stub, "lambda: value()")


def jitable(k):
    @register_jitable
    def stub():
        return k

    return captured(stub, "lambda: value()")


def record(*names):
    values = np.zeros(2, dtype=[(name, "f8") for name in names])
    values[names[0]] = 1.0
    return captured(values, "lambda: value[0]['a']")


def guarded(text):
    return source(f"@njit\ndef f():\n{textwrap.indent(textwrap.dedent(text), '    ')}")


def given_type(signature):
    inner = njit(signature)(lambda x: x + 0)
    return captured(inner, "lambda: value(0.1)")


def shadowed(k):
    """A captured number, and a global number of the name of an attribute that is read."""
    return source(
        "def build(right):\n    return njit(lambda: right + both.right)\nf = build(given)",
        given=k,
        both=pair(left=1, right=2),
        right=7,
    )


PAIRS = {
    "captured number": lambda k: captured(k),
    "global number": lambda k: global_(k),
    "default": lambda k: source(f"@njit\ndef f(x={k}):\n    return x"),
    "a global of the same name": shadowed,
    "constant": lambda k: source(f"@njit\ndef f():\n    return {k}"),
    "kind of constant": lambda k: source(f"@njit\ndef f():\n    return {[True, 1][k - 1]}"),
    "sign of zero": lambda k: captured([0.0, -0.0][k - 1], "lambda: np.copysign(1.0, value)"),
    "kind of number": lambda k: captured([np.float32(0.1), np.float64(0.1)][k - 1]),
    "called function": lambda k: called(f"x + {k}"),
    "called function's operator": lambda k: called(["x + 1", "x * 1"][k - 1]),
    "tuple": lambda k: captured((k, 2.0), "lambda: value[0]"),
    "array": lambda k: captured(np.arange(3.0) * k, "lambda: value[2]"),
    "kind of array": lambda k: captured(np.ones(3, ["f4", "f8"][k - 1]), "lambda: value[2] + np.float32(0.1)"),
    "shape of array": lambda k: captured(np.arange(6.0).reshape([(2, 3), (3, 2)][k - 1]), "lambda: value[1, 0]"),
    "fields of records": lambda k: record(*[("a", "b"), ("b", "a")][k - 1]),
    "order of fields": lambda k: captured([pair(left=1, right=2), pair(right=1, left=2)][k - 1], "lambda: value.left"),
    "class of fields": lambda k: captured(
        type([pair(left=1, right=2), pair(right=1, left=2)][k - 1]), "lambda: value(1, 2).left"
    ),
    "members": lambda k: captured(number(enum.IntEnum, ONE=k, TWO=5), "lambda: value.ONE + 0"),
    "module's number": lambda k: global_(module(scale=k), "value.scale"),
    "module's function": lambda k: global_(module(function=plus(k)), "value.function(1)"),
    "module within a module": lambda k: global_(module(inner=module(scale=k)), "value.inner.scale"),
    "registered implementation": stand_in,
    "registered function": jitable,
    "argument type": lambda k: given_type(["float32(float32)", "float64(float64)"][k - 1]),
    "what is guarded": lambda k: guarded(
        [
            """
            n = 0
            try:
                n += 1
                np.zeros(-1)
            except Exception:
                n += 2
            return n
            """,
            """
            n = 0
            n += 1
            try:
                np.zeros(-1)
            except Exception:
                n += 2
            return n
            """,
        ][k - 1]
    ),
    **{
        f"option {name}": lambda k, options=options: captured(
            njit(**options[k - 1])(lambda x: 1.0 / (x + 1.0)), "lambda: value(1.0)"
        )
        for name, options in {
            "fastmath": [{}, {"fastmath": True}],
            "fastmath's parts": [{"fastmath": {"nsz"}}, {"fastmath": {"nnan"}}],
            "boundscheck": [{}, {"boundscheck": True}],
            "error_model": [{}, {"error_model": "numpy"}],
            "locals": [{}, {"locals": {"x": numba.float32}}],
        }.items()
    },
}


@pytest.mark.parametrize("build", PAIRS.values(), ids=PAIRS)
def test_different_functions_have_different_keys_and_equal_ones_the_same(folder, build):
    one, again, other = build(1), build(1), build(2)
    assert cache_key(one) != cache_key(other)
    if build not in (stand_in, jitable):  # each is compiled by a function of its own name, so it may miss
        assert cache_key(one) == cache_key(again)
    assert cache_key(one) == cache_key(one)


@pytest.mark.parametrize(
    "name",
    [
        "captured number",
        "a global of the same name",
        "called function",
        "fields of records",
        "order of fields",
        "class of fields",
        "members",
        "module's number",
        "registered implementation",
        "argument type",
    ],
)
def test_each_of_two_that_are_easily_confused_runs_its_own_code(folder, name):
    functions = [PAIRS[name](k) for k in (1, 2)]
    expected = [function() for function in map(PAIRS[name], (1, 2))]
    assert expected[0] != expected[1]
    assert [run(function) for function in functions] == [(expected[0], False), (expected[1], False)]
    assert [run(PAIRS[name](k)) for k in (1, 2)] == [(expected[0], True), (expected[1], True)]


def test_the_place_within_a_module_does_not_matter(folder):
    moved = "\n\n\n# a comment\n@njit\ndef f():\n    return 1\n"
    assert cache_key(source(moved)) == cache_key(source("@njit\ndef f():\n    return 1"))


def test_another_module_has_code_of_its_own_and_one_that_cannot_be_imported_has_none(folder):
    """Loading code imports the modules of all that it calls."""
    text = "@njit\ndef f():\n    return 1"
    assert cache_key(source(text)) != cache_key(source(text, __name__="json"))
    nowhere = source(text, __name__="a_module_of_another_layout")
    assert cached(nowhere) is nowhere


@pytest.mark.parametrize("package", ["numba", "pytensor", "pymc_austerity"])
def test_another_version_of_what_compiles_misses(folder, monkeypatch, package):
    assert run(plus(1), 2) == (3, False)
    real = code_key.version
    monkeypatch.setattr(code_key, "version", lambda name: "0.0" if name == package else real(name))
    code_key._versions.cache_clear()
    try:
        assert run(plus(1), 2) == (3, False)
    finally:
        monkeypatch.undo()
        code_key._versions.cache_clear()


@pytest.mark.parametrize(("setting", "value"), [("OPT", 0), ("BOUNDSCHECK", 1), ("LOOP_VECTORIZE", 0)])
def test_another_setting_of_numba_misses(folder, monkeypatch, setting, value):
    key = cache_key(plus(1))
    monkeypatch.setattr(numba.config, setting, value)
    assert cache_key(plus(1)) != key
    monkeypatch.undo()
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 77)
    assert cache_key(plus(1)) == key


def test_a_package_that_numba_loads_is_in_every_key_by_its_release(folder, monkeypatch):
    # Its types cannot be described; without a release in their place nothing would be kept wherever it is installed.
    pytest.importorskip("sparse")
    key = cache_key(plus(1))
    ((name, _),) = foreign_code._releases_with("sparse")
    monkeypatch.setattr(foreign_code, "_releases_with", lambda package: ((name, "another"),))
    assert cache_key(plus(1)) != key


def test_packages_are_part_of_what_was_installed_with_them():
    released = {
        package: {(name, version(name)) for name in names}
        for package, names in packages_distributions().items()
        if not any(distribution(name).read_text("direct_url.json") for name in names)
    }
    assert "numpy" in released
    assert {package: set(foreign_code._releases_with(package)) for package in released} == released
    assert foreign_code._releases_with("no_such_package") == ()


def test_an_implementation_for_what_is_not_ours_is_part_of_every_key(folder, monkeypatch):
    for name in ("functions", "attributes"):
        monkeypatch.setattr(builtin_registry, name, [*getattr(builtin_registry, name)])
    keys = [cache_key(plus(1))]

    @overload(np.busday_count)
    def _(first, last):
        return lambda first, last: 3

    keys.append(cache_key(plus(1)))

    @overload_method(numba.types.Array, "twice")
    def _(array):
        return lambda array: array * 2

    keys.append(cache_key(plus(1)))
    assert len(set(keys)) == 3


@njit
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@njit
def is_even(n):
    return True if n == 0 else is_odd(n - 1)


@njit
def is_odd(n):
    return False if n == 0 else is_even(n - 1)


@pytest.mark.parametrize(("function", "result"), [(factorial, 120), (is_odd, True)])
def test_functions_that_call_themselves(folder, function, result):
    assert run(function, 5) == (result, False)
    assert run(function, 5) == (result, True)


def depth_of(kind):
    return 0 if not isinstance(kind, numba.types.BaseTuple) else 1 + max((depth_of(k) for k in kind), default=0)


@intrinsic
def nesting(typingctx, value):
    depth = depth_of(value)
    return numba.types.int64(value), lambda context, builder, sig, args: context.get_constant(sig.return_type, depth)


def test_what_an_intrinsic_is_made_of_is_described_wherever_it_is_met(folder):
    """Its helper calls itself: what that is called must not hang on what was described before."""

    @njit
    def nested(x):
        return nesting((x, (x, x)))

    @njit
    def after_others(x):
        return plus_one(x) + nested(x)

    plus_one = plus(1)
    assert run(nested, 1) == (2, False)
    assert run(after_others, 1) == (4, False)
    assert run(nested, 1) == (2, True)
    assert run(after_others, 1) == (4, True)


def test_a_large_array_is_compiled_in_but_not_kept(folder):
    """numba keeps its address, which means nothing to another process."""
    large = np.arange(200_000.0)
    for _ in range(2):
        assert run(captured(large, "lambda: value[-1]")) == (199_999.0, False)
    assert files(folder) == []
    large[-1] = 0
    assert run(captured(large, "lambda: value[-1]")) == (0.0, False)


# What is refused: it is compiled anew, in every process.


@jitclass([("x", numba.float64)])
class Jitted:
    def __init__(self):
        self.x = 1.0


class Level(float):
    def __repr__(self):
        return "a level"


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Jitted,
        Jitted.class_type.instance_type,
        Level(1.0),
        numba.typeof(plus(1)),
        numba.cfunc("float64(float64)")(lambda x: x),
        numba.typed.List([1.0]),
        np.array([None]),
        np.ma.array([1.0], mask=[True]),
        np.frompyfunc(lambda x: x, 1, 1),
        [].append,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_full_description_is_refused(folder, value, caplog):
    function = captured(value)
    with pytest.raises(NotDescribedError, match="has no description that holds in another process"):
        cache_key(function)
    with caplog.at_level(logging.DEBUG, logger="pymc_austerity"):
        assert cached(function) is function
    assert "Compiled anew in every process" in caplog.text


def test_a_global_that_changes_before_it_is_compiled_keeps_nothing(folder):
    function = global_(1)
    kept = cached(function)
    function.py_func.__globals__["value"] = 2
    assert kept() == 2
    assert files(folder) == []
    assert run(global_(1)) == (1, False)


def test_a_global_that_changes_after_it_was_compiled_keeps_nothing_new(folder):
    """Numba goes on with the first value, and must not leave that for a process that starts with the second."""
    function = global_(1)
    assert run(function) == (1, False)
    assert function() == 1
    function.py_func.__globals__["value"] = 2
    assert cached(function) is function
    assert function() == 1
    assert run(global_(2)) == (2, False)


def test_a_global_that_changes_before_it_is_compiled_is_the_new_one(folder):
    function = global_(1)
    assert run(function) == (1, False)
    function.py_func.__globals__["value"] = 2
    assert run(function) == (2, False)


def test_a_helper_that_is_redefined_after_it_was_compiled_keeps_nothing_new(folder):
    function = called("x + 1")
    assert run(function) == (4.0, False)
    between = function.py_func.__globals__["between"]
    between.py_func.__globals__["inner"] = njit(lambda x: x + 2)
    assert cached(function) is function


def test_a_session_may_have_changed_what_it_compiled_before(folder):
    in_session = source("@njit\ndef f():\n    return value", value=1, __name__="__main__")
    assert in_session() == 1
    assert cached(in_session) is in_session
    independent = source("@njit\ndef f():\n    return np.exp(0.0)", __name__="__main__")
    assert independent() == 1
    assert run(independent) == (1.0, False)


def test_numbers_in_symbols_that_another_process_may_reuse_keep_nothing(folder, monkeypatch):
    early, later = plus(1), plus(2)
    with monkeypatch.context() as patch:
        patch.setattr(FunctionIdentity, "_unique_ids", itertools.count(1))
        early(1)
        assert cached(later) is later
    assert cached(early) is early
    later(1)
    assert run(later, 1) == (3, False)


def test_names_that_the_wrapper_uses_itself_and_functions_without_one(folder):
    named = source("@njit\ndef f(_compiled, compiled, f):\n    return _compiled + compiled + f")
    assert run(named, 1, 2, 3) == (6, False)
    assert run(njit(lambda x: x + 1), 1) == (2, False)
    by_name = source("@njit\ndef f(*, number):\n    return number")
    assert cached(by_name) is by_name


def test_what_is_switched_off_stays_off(folder, monkeypatch):
    function = plus(1)
    with pytensor.config.change_flags(numba__cache=False):
        assert cached(function) is function
    assert cached(function.py_func) is function.py_func  # what `njit` returns under NUMBA_DISABLE_JIT
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "InTreeCacheLocator")
    assert cached(function) is function


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


def test_a_folder_that_cannot_be_written_costs_a_line(folder, monkeypatch, said):
    place = folder / "taken"
    place.write_text("a file where a folder should be")
    monkeypatch.setattr("pytensor.link.numba.cache.NUMBA_CACHE_PATH", place)
    assert run(plus(1), 2) == (3, False)
    assert any(line.startswith(f"Compiled code cannot be kept in {place} (NotADirectoryError") for line in said())


def test_a_folder_without_permission_costs_a_line(folder, monkeypatch, said):
    def refuse(self, path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "_open_for_write", refuse)
        assert run(plus(1), 2) == (3, False)
    assert [line.partition(" (")[2][:15] for line in said()] == ["PermissionError"]
    assert list(folder.iterdir()) == []


@contextlib.contextmanager
def room(n_bytes):
    """Let no file become larger, as on a disk that is almost full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_costs_a_line_and_is_used_again_when_there_is_room(folder, said):
    with room(2_000):
        assert run(plus(1), 2) == (3, False)
    assert any("Compiled code cannot be kept" in line for line in said())
    assert files(folder) == []
    assert run(plus(1), 2) == (3, False)
    assert run(plus(1), 2) == (3, True)
    assert said() == []


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("share", [0, 0.5])
def test_a_truncated_file_is_said_and_repaired(folder, said, ending, share):
    assert run(plus(1), 2) == (3, False)
    (damaged,) = folder.glob(f"*{ending}")
    damaged.write_bytes(damaged.read_bytes()[: int(share * damaged.stat().st_size)])
    assert run(plus(1), 2) == (3, False)
    assert any("cannot be used and is made anew" in line for line in said())
    assert run(plus(1), 2) == (3, True)
    assert said() == []


def test_a_file_with_the_code_for_other_arguments_is_not_run(folder, said):
    """Two processes that write at once can leave it: both take the first free name."""
    run(plus(1), 2)
    run(plus(1), 0.5)
    first, second = (folder / name for name in files(folder))
    first.write_bytes(second.read_bytes())
    assert run(plus(1), 2) == (3, False)
    assert any("it is for arguments (float64,)" in line for line in said())
    assert run(plus(1), 2) == (3, True)


# Other processes.

CHILD = """
import json, multiprocessing, sys, types

# The package without its __init__, which imports PyMC.
package = types.ModuleType("pymc_austerity")
package.__path__ = [sys.argv[1]]
sys.modules["pymc_austerity"] = package

from collections import namedtuple

import numpy as np
from numba import njit

from pymc_austerity.code_key import cache_key
from pymc_austerity.compile_cache import cached

Pair = namedtuple("Pair", ["left", "right"])
both = Pair(1.0, np.arange(4.0))


def nested(k):
    @njit
    def inner(x):
        return x + k

    @njit
    def middle(x):
        return inner(x) * both.right[2]

    return njit(lambda x: Pair(middle(x), inner(x)).left)


@njit
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


@njit
def in_any_order(x):
    return x in {"alpha", "beta", "gamma", "delta"}


@njit
def array_sum(values):
    return values.sum()


def loaded(_):
    kept = cached(nested(2.0))
    return kept(3.0), bool(kept.stats.cache_hits)


if __name__ == "__main__":
    found = {}
    calls = {"nested": (nested(2.0), 3.0), "factorial": (factorial, 5), "sum": (array_sum, both.right)}
    for name, (function, argument) in calls.items():
        kept = cached(function)
        found[name] = [kept(argument), bool(kept.stats.cache_hits)]
    found["key"] = [cache_key(in_any_order), cache_key(nested(2.0))]
    for method in sys.argv[2:]:
        with multiprocessing.get_context(method).Pool(2) as pool:
            found[method] = pool.map(loaded, range(2))
    print(json.dumps(found))
"""


@pytest.fixture
def start(folder):
    """Start a Python process of its own that keeps compiled code in the folder of the test."""
    script = folder / "child.py"
    script.write_text(CHILD)

    def start(*methods, **environment):
        env = {**os.environ, "PYTENSOR_FLAGS": f"base_compiledir={folder / 'compiled'}", **environment}
        command = [sys.executable, str(script), str(PACKAGE), *methods]
        env = {name: value for name, value in env.items() if value is not None}
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)

    return start


def finished(process):
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(out)


RESULTS = {"nested": 10.0, "factorial": 120, "sum": 6.0}


def results(found, were_loaded):
    return {name: found[name] for name in RESULTS} == {name: [r, were_loaded] for name, r in RESULTS.items()}


def test_another_process_loads_whatever_its_hash_seed_and_so_do_its_workers(start, folder):
    first = finished(start(PYTHONHASHSEED="1"))
    kept = files(folder / "compiled" / "numba")
    second = finished(start("fork", "spawn", PYTHONHASHSEED="2", HOME=None))
    assert results(first, False)
    assert results(second, True)
    assert second["key"] == first["key"]
    assert second["fork"] == second["spawn"] == [[10.0, True]] * 2
    assert files(folder / "compiled" / "numba") == kept


def test_two_processes_that_start_at_once_leave_code_that_runs(start):
    for process in [start(), start()]:
        assert {name: result for name, (result, _) in finished(process).items() if name in RESULTS} == RESULTS
    assert results(finished(start()), True)


def test_a_changed_constant_in_the_source_misses_in_another_process(start, folder):
    finished(start())
    script = folder / "child.py"
    script.write_text(CHILD.replace("x + k", "x - k").replace("n < 2", "n < 3"))
    found = finished(start())
    assert found["nested"] == [2.0, False]
    assert found["factorial"] == [60, False]
    assert found["sum"] == [6.0, True]


STEP = """
import json

import numpy as np
import pymc as pm
from numba.core import event

import pymc_austerity as pma
from pymc_austerity.acceptance.metropolis import draw_log_uniform

compiled = []


class Ours(event.Listener):
    def on_start(self, happened):
        module = getattr(getattr(happened.data["dispatcher"], "py_func", None), "__module__", None) or ""
        if module.startswith("pymc_austerity"):
            compiled.append(module)

    def on_end(self, happened):
        pass


event.register("numba:compile", Ours())
rng = np.random.default_rng(1)
x = rng.normal(size=(2_000, 2))
with pm.Model() as model:
    pm.Bernoulli("y", logit_p=x @ pm.Normal("beta", shape=2), observed=rng.random(2_000) < 0.4)
step = pma.PenaltyMH(model=model, rng=3)
point, draws = model.initial_point(), []
for _ in range(100):
    point, _ = step.step(point)
    draws.append([float(b).hex() for b in point["beta"]])
needed = [*compiled]
draw_log_uniform(rng)  # a part that is kept in no file of its own: compilation is seen
print(json.dumps([needed, compiled[len(needed):], draws]))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_step_in_another_process_makes_the_same_draws_and_compiles_nothing():
    """In the folder of every day: in an empty one this would take minutes, most of them PyMC's and PyTensor's."""
    found = []
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", STEP], capture_output=True, text=True, check=True, timeout=900)
        found.append(json.loads(ran.stdout.splitlines()[-1]))
    (_, _, draws), (needed, seen, again) = found
    assert needed == []
    assert len(seen) == 1
    assert again == draws
    assert len({tuple(d) for d in draws}) > 50
