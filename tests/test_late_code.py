"""Machine code is made of what is entered, and what is called only by compiled code works as numba's own does."""

from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter

import numba
import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target
from numba.core.typing.templates import _OverloadFunctionTemplate

from pymc_austerity import late_code
from pymc_austerity.lean_njit import njit

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def root_of(x):
    if x < 0:
        raise ValueError("negative", x)
    return np.sqrt(x)


def chain(decorate):
    """Compile a function that calls one that calls `root_of`."""
    inner = decorate(root_of)

    @decorate
    def middle(x):
        return inner(x) + 1.0

    @decorate
    def outer(x):
        return 2.0 * middle(x)

    return outer, middle, inner


def is_made(dispatcher):
    (compiled,) = dispatcher.overloads.values()
    return attrgetter("library._is_made")(compiled)


def test_what_only_compiled_code_calls_has_no_machine_code_of_its_own():
    outer, middle, inner = chain(njit)
    assert outer(9.0) == 8.0
    assert [is_made(f) for f in (outer, middle.within, inner.within)] == [True, False, False]
    # When Python asks for it, it is made.
    assert middle(9.0) == 4.0
    assert is_made(middle)


def test_numba_itself_may_call_it():
    outer, middle, _ = chain(njit)
    assert outer(9.0) == 8.0
    ordinary = numba.njit(lambda x: middle(x) * 10.0)
    assert ordinary(9.0) == 40.0
    assert is_made(middle.within)
    assert type(attrgetter("library")(*ordinary.overloads.values())) is JITCodeLibrary


@pytest.mark.parametrize("ordinary", [False, True])
def test_an_exception_that_is_made_at_run_time_comes_through(ordinary):
    outer, middle, _ = chain(njit)
    assert outer(9.0) == 8.0
    call = numba.njit(lambda x: middle(x)) if ordinary else outer
    with pytest.raises(ValueError, match="negative") as raised:
        call(-4.0)
    assert raised.value.args == ("negative", -4.0)


def test_python_is_called_back_from_code_that_was_made_late():
    seen = []

    @njit
    def inner(x):
        with numba.objmode():
            seen.append(x)
        return x + 1.0

    @njit
    def outer(x):
        return inner(x) * 2.0

    assert outer(1.0) == 4.0
    assert numba.njit(lambda x: inner(x))(2.0) == 3.0
    assert seen == [1.0, 2.0]


def test_a_function_may_call_itself():
    @numba.njit
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    assert njit(lambda n: factorial(n))(5) == 120
    assert factorial(5) == 120


def test_numba_is_left_as_it_was():
    codegen, decorator = cpu_target.target_context.codegen(), _OverloadFunctionTemplate._get_jit_decorator

    @njit
    def wrong(x):
        return x.no_such_attribute

    with pytest.raises(numba.TypingError):
        wrong(1.0)
    chain(njit)[0](9.0)
    assert not {"_library_class", "set_env"} & set(vars(codegen))
    assert _OverloadFunctionTemplate._get_jit_decorator is decorator


def test_without_numbas_parts_code_is_made_as_numba_makes_it(monkeypatch):
    monkeypatch.setattr(late_code, "_HAS_PARTS", False)
    outer, middle, _ = chain(njit)
    assert outer(9.0) == 8.0
    assert type(attrgetter("library")(*middle.within.overloads.values())) is JITCodeLibrary


def test_kinds_of_functions_that_numba_knows():
    @numba.njit(parallel=True)
    def total(x):
        found = 0.0
        for i in numba.prange(x.size):
            found += x[i]
        return found

    @numba.guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
    def next_of(x, y):
        for i in range(x.size):
            y[i] = x[i] + 1

    doubled, tripled = numba.vectorize(["float64(float64)"])(lambda x: 2 * x), numba.vectorize(lambda x: 3 * x)

    @njit
    def inner(x, y):
        next_of(x, y)
        return total(x) + doubled(x).sum() + tripled(x).sum() + y.sum()

    x = np.arange(4.0)
    assert njit(lambda x: inner(x, np.empty_like(x)))(x) == 6 + 12 + 18 + 10
    assert total(x) == 6
    assert np.array_equal(tripled(x), 3 * x)


def test_threads_compile_at_once():
    def compiled(k):
        first = njit(lambda x: x * k)
        second = njit(lambda x: first(x) + 1)
        return second(2.0), numba.njit(lambda x: second(x) + first(x))(2.0)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(compiled, range(6))) == [(2.0 * k + 1, 4.0 * k + 1) for k in range(6)]
