"""Named tuples behind one pointer, and functions that are compiled apart from their callers."""

from types import FunctionType
from typing import NamedTuple

import numpy as np
import pytest
from numba import typeof, types
from numba.core.errors import TypingError

from pymc_austerity.compile import by_address
from pymc_austerity.compile import cache as compile_cache
from pymc_austerity.compile.by_address import compile_apart
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.compile.cache import cached
from pymc_austerity.compile.lean_njit import njit

VECTOR = types.float64[::1]


class Inner(NamedTuple):
    values: np.ndarray
    places: np.ndarray


class Outer(NamedTuple):
    inner: Inner
    matrix: np.ndarray
    number: float
    count: int


def outer():
    return Outer(Inner(np.arange(3.0), np.array([2, 0])), np.ones((2, 3), np.float32), 2.5, 7)


@njit
def read(of):
    return of.inner.values[of.inner.places].sum() + of.matrix.sum() + of.number * of.count


@njit
def write(of):
    of.inner.values[0] = -10.0
    return of.inner.values


def test_a_reference_has_the_fields_and_the_type_of_its_tuple():
    referred = by_reference(outer())
    assert read(referred) == read(outer()) == 2 + 6 + 17.5
    assert typeof(by_reference(outer())) == typeof(referred) != typeof(by_reference(outer()._replace(count=7.0)))
    assert by_reference(referred) is referred
    same = njit(lambda of: by_reference(by_reference(of)).number)
    assert same(referred) == same(outer()) == 2.5


def test_arrays_are_shared_and_outlive_the_tuple():
    given = outer()
    referred, values = by_reference(given), given.inner.values
    assert write(referred) is not None
    assert values[0] == -10.0
    del given, values
    assert write(referred)[0] == -10.0


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Let compiled code be kept in an empty folder."""
    monkeypatch.setattr(compile_cache, "FOLDER", tmp_path)


def as_in_the_package(build):
    """Let what a function builds be functions of the package, which have keys."""
    return FunctionType(build.__code__, {**globals(), "__name__": "pymc_austerity.built_by_tests"}, build.__name__)


@as_in_the_package
def scaled(k):
    @njit
    def function(x, of):
        if x[0] < 0:
            raise ValueError("below zero")
        return k * x.sum(), of.number

    return function


@as_in_the_package
def caller(function):
    return njit(lambda x, of: function(x, of)[0] + function(x, of)[1])


def given(first=1.0):
    return np.array([first, 2.0]), by_reference(outer())


def apart(k):
    return compile_apart(scaled(k), *map(typeof, given()))


def test_what_is_compiled_apart_returns_the_same(own):
    assert caller(apart(3.0))(*given()) == caller(scaled(3.0))(*given()) == 11.5
    assert caller(apart(4.0))(*given()) == 14.5
    assert apart(3.0)(*given()) == (9.0, 2.5)
    with pytest.raises(ValueError, match="below zero"):
        caller(apart(3.0))(*given(-1.0))


def test_arguments_of_other_types_are_refused(own):
    array, referred = given()
    others = np.ones((2, 2)), np.ones(4)[::2], np.ones(2, np.float32)
    for wrong in (*((other, referred) for other in others), (array, outer())):
        with pytest.raises(TypingError, match="was compiled for"):
            caller(apart(3.0))(*wrong)


def test_without_a_key_it_is_compiled_in_its_callers():
    function = njit(lambda x, y: x.sum())
    assert compile_apart(function, VECTOR, VECTOR) is function


def test_callers_find_it_when_their_code_was_kept(own):
    for loads in (False, True):
        of_caller = cached(caller(apart(5.0)))
        assert of_caller(*given()) == 17.5
        assert bool(of_caller.stats.cache_hits) == loads


def test_it_works_as_a_c_function_too(own, monkeypatch):
    """Without numba's private name for where a function lies, see `by_address`."""
    monkeypatch.setattr(by_address, "address_of", None)
    monkeypatch.setattr(by_address, "call_at", by_address._call_checked)
    assert caller(apart(7.0))(*given()) == 23.5
