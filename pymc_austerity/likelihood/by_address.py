"""The functions of a model, reached by their addresses: what calls them is compiled once, and serves every model.

Code that holds a model's functions is another code for another model, and compiled anew with it.  Code that is handed
their addresses beside the data is the same for all models whose data have the same types: it is built once in a
process, so that what is made of it finds its parts compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from inspect import signature
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_new_ref
from numba.extending import intrinsic
from pytensor.graph.basic import Variable

from pymc_austerity.compile_cache import cached
from pymc_austerity.lean_njit import LeanDispatcher, njit
from pymc_austerity.likelihood.signatures import (
    BothSides,
    LinkedBothSides,
    LinkedLogPrior,
    LinkedPriorSlope,
    LogPrior,
    PriorSlope,
)

#: θ, and the values of the variables of other steps.
VECTOR = types.float64[::1]
#: What the graph of one vector returns, of two, and of a number and its gradient.
ONE_VECTOR, _PAIR = types.UniTuple(VECTOR, 1), types.UniTuple(VECTOR, 2)
TOTAL_AND_SLOPE = types.Tuple((types.Array(types.float64, 0, "C"), VECTOR))
#: A number and its gradient.
VALUE_AND_SLOPE = types.Tuple((types.float64, VECTOR))


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
        Decorated with `numba.njit`, or better with `pymc_austerity.lean_njit.njit`: only compiled code calls it.
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


def tuple_of(variables: Sequence[Variable]) -> types.Type:
    """Return the type of a tuple of the values of some variables."""
    return types.Tuple([types.Array(from_dtype(np.dtype(v.type.dtype)), v.type.ndim, "C") for v in variables])


def reach_log_prior(log_prior: LogPrior, fixed: types.Type) -> Reached:
    """Compile ``log_prior(theta, others, fixed)``, which returns a number, and find it."""

    @njit
    def value_of(theta, others, fixed):  # type: ignore[no-untyped-def]
        return log_prior(theta, others, *fixed)[0].item()

    return reach(value_of, VECTOR, VECTOR, fixed)


def reach_prior_slope(prior: PriorSlope, fixed: types.Type) -> Reached:
    """Compile the log prior as a number and its gradient, and find it."""

    @njit
    def value_and_slope(theta, others, fixed):  # type: ignore[no-untyped-def]
        value, slope = prior(theta, others, *fixed)
        return value.item(), np.ascontiguousarray(slope)

    return reach(value_and_slope, VECTOR, VECTOR, fixed)


def reach_both_sides(both_sides: BothSides, inputs: types.Type, batch: types.Type) -> Reached:
    """Compile the row terms at both ends of a move, and find them."""

    @njit
    def new_and_old(theta_new, theta, others, inputs, batch):  # type: ignore[no-untyped-def]
        new, old = both_sides(theta_new, theta, others, *(inputs + batch))
        return np.ascontiguousarray(new), np.ascontiguousarray(old)

    return reach_graph(both_sides, _PAIR, new_and_old, VECTOR, VECTOR, VECTOR, inputs, batch, by_python=True)


@cache
def build_call(result: types.Type, *taken: types.Type) -> Callable[..., Any]:
    """Compile ``call(address, *arguments)`` for functions that take these types and return that one."""
    expected = types.Tuple(taken)

    @njit
    def call(address, *arguments):  # type: ignore[no-untyped-def]
        return call_at(address, result, expected, arguments)

    return call


@cache
def build_log_prior(fixed: types.Type) -> LinkedLogPrior:
    """Compile the log prior for any model whose fixed data have these types."""
    result, expected = types.float64, types.Tuple((VECTOR, VECTOR, fixed))

    @njit
    def log_prior(links, theta, others, fixed):  # type: ignore[no-untyped-def]
        return call_at(links.log_prior, result, expected, (theta, others, fixed))

    return log_prior


@cache
def build_prior_slope(fixed: types.Type) -> LinkedPriorSlope:
    """Compile the log prior and its gradient for any model whose fixed data have these types."""
    result, expected = VALUE_AND_SLOPE, types.Tuple((VECTOR, VECTOR, fixed))

    @njit
    def prior_slope(links, theta, others, fixed):  # type: ignore[no-untyped-def]
        return call_at(links.prior_slope, result, expected, (theta, others, fixed))

    return prior_slope


@cache
def build_both_sides(inputs: types.Type, batch: types.Type) -> LinkedBothSides:
    """Compile the row terms at both ends of a move for any model of such data."""
    result, expected = _PAIR, types.Tuple((VECTOR, VECTOR, VECTOR, inputs, batch))

    @njit
    def both_sides(links, theta_new, theta, others, inputs, batch):  # type: ignore[no-untyped-def]
        return call_at(links.both_sides, result, expected, (theta_new, theta, others, inputs, batch))

    return both_sides
