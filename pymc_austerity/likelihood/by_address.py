"""The functions of a model, reached by their addresses: what calls them is compiled once, and serves every model.

Code that holds a model's functions is another code for another model, and compiled anew with it.  Code that is handed
their addresses, and those of the data, is the same for all models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_new_ref
from numba.extending import intrinsic

from pymc_austerity.compile.addresses import ADDRESSES, arrays_at
from pymc_austerity.compile.cache import cached
from pymc_austerity.compile.lean_njit import LeanDispatcher, njit
from pymc_austerity.likelihood.links import BothSides, LogPrior, OneSide, PriorSlope
from pymc_austerity.rows import build_gather

#: θ, and the values of the variables of other steps.
VECTOR = types.float64[::1]
#: What the graph of one vector returns, of two, and of a number and its gradient.
ONE_VECTOR, PAIR = types.UniTuple(VECTOR, 1), types.UniTuple(VECTOR, 2)
TOTAL_AND_SLOPE = types.Tuple((types.Array(types.float64, 0, "C"), VECTOR))
#: A number and its gradient.
VALUE_AND_SLOPE = types.Tuple((types.float64, VECTOR))
_NUMBER = types.float64
#: What is taken by what reads no row: θ, the variables of other steps, and where data that are not indexed by row are.
WITHOUT_ROWS = types.Tuple((VECTOR, VECTOR, ADDRESSES))


class Reached(NamedTuple):
    """A compiled function and where it lies.

    Attributes
    ----------
    function : callable
        Kept, because the address is as good as the function lives.
    address : int
    """

    function: Callable[..., Any]
    address: int


def _fits(typingctx: Any, given: types.Type, expected: types.Type) -> bool:
    """Whether values of one type can be taken for values of another: of a tuple numba itself asks for less."""
    if not isinstance(expected, types.BaseTuple):
        return typingctx.can_convert(given, expected) is not None
    if not isinstance(given, types.BaseTuple) or len(given) != len(expected):
        return False
    return all(_fits(typingctx, *pair) for pair in zip(given, expected, strict=True))


@intrinsic
def call_at(typingctx, address, result, expected, arguments):  # type: ignore[no-untyped-def]
    """Call what lies at an address with arguments of the expected types, as compiled code calls compiled code."""
    returned, taken = result.instance_type, expected.instance_type
    if not _fits(typingctx, arguments, taken):
        raise TypingError(f"arguments {arguments} for a function that was compiled for {taken}")

    def codegen(context, builder, signature, values):  # type: ignore[no-untyped-def]
        at, _, _, packed = values
        convention = context.call_conv
        with cgutils.if_unlikely(builder, cgutils.is_null(builder, at)):
            convention.return_user_exc(builder, RuntimeError, ("A function of the model that nobody has linked.",))
        pointer = builder.inttoptr(at, convention.get_function_type(returned, taken.types).as_pointer())
        unpacked = cgutils.unpack_tuple(builder, packed, len(taken.types))
        status, value = convention.call_function(builder, pointer, returned, taken.types, unpacked)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return impl_ret_new_ref(context, builder, returned, value)

    return returned(types.int64, result, expected, taken), codegen


def reach(function: Callable[..., Any], *arguments: types.Type) -> Reached:
    """Compile a function for arguments of these types, and find it.

    Parameters
    ----------
    function : callable
        Decorated with `numba.njit`, or better with `compile.lean_njit.njit`: only compiled code calls it.
    """
    return _compiled_for(cached(function.within if isinstance(function, LeanDispatcher) else function), arguments)


def _compiled_for(compiled: Any, arguments: tuple[types.Type, ...]) -> Reached:
    compiled.compile(arguments)
    machine_code, described = attrgetter("library", "fndesc")(compiled.overloads[arguments])
    return Reached(compiled, machine_code.get_pointer_to_function(described.llvm_func_name))


def reach_graph(
    graph: Callable[..., Any],
    result: types.Type,
    converted: Callable[..., Any],
    *arguments: types.Type,
    by_python: bool = False,
) -> Reached:
    """Compile a model's graph for arguments of these types, and find it.

    What is called around a graph is one more function of which numba makes machine code, with the graph in it; so there
    is none where the graph returns what is asked for.  Arguments lie one behind the other whether they are given as
    tuples or one by one.

    Parameters
    ----------
    graph : callable
        From `compile_part`, which takes the entries of tuples among the arguments one by one; or written around such,
        with ``*data``, which is called as it is.
    result : numba.types.Type
        What its callers expect.
    converted : callable
        Calls the graph with the arguments as they are, and returns that.
    by_python : bool
        Whether Python calls the graph as well: what it calls is then found too, and not compiled beside.
    """
    if any(p.kind is p.VAR_POSITIONAL for p in signature(attrgetter("py_func")(graph)).parameters.values()):
        return reach(converted, *arguments)
    taken = _one_by_one(arguments)
    reached = _compiled_for(graph, taken) if by_python else reach(graph, *taken)
    returned = attrgetter("overloads")(reached.function)[taken].signature.return_type
    return reached if returned == result else reach(converted, *arguments)


def _one_by_one(arguments: Sequence[types.Type]) -> tuple[types.Type, ...]:
    found: list[types.Type] = []
    for argument in arguments:
        found += _one_by_one(argument.types) if isinstance(argument, types.BaseTuple) else [argument]
    return tuple(found)


def reach_log_prior(log_prior: LogPrior, fixed: types.BaseTuple) -> Reached:
    """Compile ``log_prior(theta, others, fixed)``, which returns a number, and find it.

    Parameters
    ----------
    log_prior : LogPrior
    fixed : numba.types.BaseTuple
        Types of the data that are not indexed by row, which it is given the addresses of.
    """

    @njit
    def value_of(theta, others, fixed_at):  # type: ignore[no-untyped-def]
        return log_prior(theta, others, *arrays_at(fixed_at, fixed))[0].item()

    return reach(value_of, *WITHOUT_ROWS)


def reach_prior_slope(prior: PriorSlope, fixed: types.BaseTuple) -> Reached:
    """Compile the log prior as a number and its gradient, and find it."""

    @njit
    def value_and_slope(theta, others, fixed_at):  # type: ignore[no-untyped-def]
        value, slope = prior(theta, others, *arrays_at(fixed_at, fixed))
        return value.item(), np.ascontiguousarray(slope)

    return reach(value_and_slope, *WITHOUT_ROWS)


def reach_both_sides(both_sides: BothSides, inputs: types.BaseTuple, batch: types.BaseTuple) -> Reached:
    """Compile the row terms at both ends of a move, and find them."""

    @njit
    def new_and_old(theta_new, theta, others, inputs, batch):  # type: ignore[no-untyped-def]
        new, old = both_sides(theta_new, theta, others, *(inputs + batch))
        return np.ascontiguousarray(new), np.ascontiguousarray(old)

    return reach_graph(both_sides, PAIR, new_and_old, VECTOR, VECTOR, VECTOR, inputs, batch, by_python=True)


def reach_one_side(one_side: OneSide, inputs: types.BaseTuple, batch: types.BaseTuple) -> Reached:
    """Compile the row terms at one point, and find them."""

    @njit
    def of_rows(theta, others, inputs, batch):  # type: ignore[no-untyped-def]
        return (np.ascontiguousarray(one_side(theta, others, *(inputs + batch))[0]),)

    return reach_graph(one_side, ONE_VECTOR, of_rows, VECTOR, VECTOR, inputs, batch, by_python=True)


def _taken_by_reading(n_points: int) -> tuple[types.Type, ...]:
    points = types.UniTuple(VECTOR, n_points)
    return types.int64, points, VECTOR, ADDRESSES, ADDRESSES, types.int64[::1]


@cache
def reach_reading(
    result: types.Type, n_points: int, fixed: types.BaseTuple, batch: types.BaseTuple, expands: bool
) -> Reached:
    """Compile the reading of rows for a graph of them, which it is given the address of, and find it.

    Parameters
    ----------
    result : numba.types.Type
        What the graph returns.
    n_points : int
        Vectors that it takes first: θ′ or none, θ, and the variables of other steps.
    fixed, batch : numba.types.BaseTuple
        Types of what it takes then: data that are not indexed by row, and some rows.
    expands : bool
        Whether the centre of an expansion comes first among the data that are not indexed by row.
    """
    inputs = types.Tuple((VECTOR, *fixed.types)) if expands else fixed
    expected = types.Tuple((*(VECTOR,) * n_points, inputs, batch))
    gather = build_gather(tuple(array.ndim for array in batch.types))

    @njit
    def read(address, points, centre, fixed_at, rows_at, numbers):  # type: ignore[no-untyped-def]
        given = arrays_at(fixed_at, fixed)
        with_centre = (centre,) + given if expands else given
        some = gather(arrays_at(rows_at, batch), numbers)
        return call_at(address, result, expected, points + (with_centre, some))

    return reach(read, *_taken_by_reading(n_points))


@cache
def build_reading(result: types.Type, n_points: int) -> Callable[..., Any]:
    """Compile ``read(reading, address, points, centre, fixed, arrays, numbers)`` for data of all types.

    Parameters
    ----------
    result, n_points
        As for `reach_reading`, whose address `reading` is.
    """
    expected = types.Tuple(_taken_by_reading(n_points))

    @njit
    def read(reading, address, points, centre, fixed, arrays, numbers):  # type: ignore[no-untyped-def]
        return call_at(reading, result, expected, (address, points, centre, fixed, arrays, numbers))

    return read


@njit
def log_prior_at(links, theta, others, fixed):  # type: ignore[no-untyped-def]
    """Return the log prior of whichever model the links lead to; a `LinkedLogPrior`."""
    return call_at(links.log_prior, _NUMBER, WITHOUT_ROWS, (theta, others, fixed))


@njit
def prior_slope_at(links, theta, others, fixed):  # type: ignore[no-untyped-def]
    """Return the log prior of whichever model the links lead to and its gradient; a `LinkedPriorSlope`."""
    return call_at(links.prior_slope, VALUE_AND_SLOPE, WITHOUT_ROWS, (theta, others, fixed))


_read_pair = build_reading(PAIR, 3)


@njit
def both_sides_at(links, theta_new, theta, others, centre, fixed, arrays, numbers):  # type: ignore[no-untyped-def]
    """Return the row terms of whichever model the links lead to; a `LinkedBothSides`."""
    points = (theta_new, theta, others)
    return _read_pair(links.reading, links.both_sides, points, centre, fixed, arrays, numbers)


_read_one = build_reading(ONE_VECTOR, 2)


@njit
def one_side_at(links, theta, others, fixed, arrays, numbers):  # type: ignore[no-untyped-def]
    """Return the row terms at one point of whichever model the links lead to; a `LinkedOneSide`."""
    return _read_one(links.one_side_reading, links.one_side, (theta, others), others, fixed, arrays, numbers)[0]


@cache
def build_call(result: types.Type, *taken: types.Type) -> Callable[..., Any]:
    """Compile ``call(address, *arguments)`` for functions that take these types and return that one."""
    expected = types.Tuple(taken)

    @njit
    def call(address, *arguments):  # type: ignore[no-untyped-def]
        return call_at(address, result, expected, arguments)

    return call
