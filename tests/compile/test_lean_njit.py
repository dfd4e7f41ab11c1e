"""Compiled code that is made callable from Python only when Python calls it."""

import importlib
import pkgutil
from operator import attrgetter

import numba
import numpy as np
import pytest
from compilations import compilations
from numba.extending import is_jitted

import pymc_austerity
from pymc_austerity.compile.cache import njit_on_disk
from pymc_austerity.compile.lean_njit import njit

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

FACTOR = 2.0


def doubled(x):
    return FACTOR * x


def call_of(function):
    @numba.njit
    def call(x):
        return function(x) + 1.0

    return call


def symbols(dispatcher):
    """Whether what was compiled can be called from Python, and from C."""
    (compiled,) = dispatcher.overloads.values()
    machine_code, described = attrgetter("library", "fndesc")(compiled)
    names = {f.name for f in machine_code.get_defined_functions()}
    return described.llvm_cpython_wrapper_name in names, described.llvm_cfunc_wrapper_name in names


def test_compiled_code_calls_what_python_could_not():
    function = njit(doubled)
    with compilations() as first:
        assert call_of(function)(1.5) == 4.0
    with compilations() as second:
        assert call_of(function)(2.5) == 6.0
    assert [names.count("doubled") for names in (first, second)] == [1, 0]  # nothing is compiled twice
    assert not function.overloads
    assert symbols(function.within) == (False, False)
    # numba itself makes it callable from everywhere.
    ordinary = numba.njit(doubled)
    assert call_of(ordinary)(1.5) == 4.0
    assert symbols(ordinary) == (True, True)


@pytest.mark.parametrize("python_first", [True, False])
def test_python_and_compiled_code_call_the_same_function(python_first):
    function = njit(doubled)
    call = call_of(function)
    for one in (function, call) if python_first else (call, function):
        one(1.5)
    assert (function(1.5), call(1.5)) == (3.0, 4.0)
    assert symbols(function) == (True, False)
    # What Python has called already, compiled code calls too.
    assert len(function.within.overloads) == (0 if python_first else 1)
    assert np.array_equal(function(np.ones(2)), [2.0, 2.0])


def test_defaults_keywords_and_options():
    @njit(nogil=True)
    def power(x, k=2):
        return x**k

    @numba.njit
    def call(x):
        return power(x), power(x, k=3)

    assert power.targetoptions["nogil"]
    assert call(2.0) == (4.0, 8.0)
    assert power(2.0) == 4.0


def reciprocal(x):
    return 1.0 / x


@pytest.mark.parametrize("compile_it", [njit, njit_on_disk()], ids=["njit", "njit_on_disk"])
def test_division_by_zero_is_numpys(compile_it):
    function = compile_it(reciprocal)
    assert (function(0.0), call_of(function)(-0.0)) == (np.inf, -np.inf)
    with pytest.raises(ZeroDivisionError):  # numba's own
        numba.njit(reciprocal)(0.0)


def test_no_compiled_function_of_the_package_raises_on_zero():
    names = [m.name for m in pkgutil.walk_packages(pymc_austerity.__path__, "pymc_austerity.")]
    members = [member for name in names for member in vars(importlib.import_module(name)).values()]
    compiled = [m for m in members if is_jitted(m) and m.py_func.__module__.startswith("pymc_austerity")]
    assert len(compiled) > 100
    assert {m.py_func.__qualname__ for m in compiled if m.targetoptions.get("error_model") != "numpy"} == set()
