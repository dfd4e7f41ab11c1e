"""The functions of a model, called by their addresses by code that is compiled once for all models."""

from collections.abc import Callable, Iterable
from functools import cache
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from numba import types

from pymc_austerity.compile.addresses import ADDRESSES, arrays_at
from pymc_austerity.compile.by_address import Reached, call_at, reach, reach_as_called, returned_by
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.rows import build_gather

#: ``log_prior(theta, others, *fixed)``: log ρ(θ) as an array of no dimension, in a tuple.
LogPrior = Callable[..., tuple[np.ndarray]]
#: ``prior_slope(theta, others, *fixed)``: log ρ(θ) as an array of no dimension, and its gradient by θ.
PriorSlope = Callable[..., tuple[np.ndarray, np.ndarray]]
#: ``both_sides(theta_new, theta, others, *fixed, *batch)``: ℓ_i(θ′) and ℓ_i(θ) for the rows of a batch.
BothSides = Callable[..., tuple[np.ndarray, np.ndarray]]
#: ``one_side(theta, others, *fixed, *batch)``: ℓ_i(θ) for the rows of a batch, in a tuple.
OneSide = Callable[..., tuple[np.ndarray]]


class Links(NamedTuple):
    """Addresses of the functions of one model in this process; 0 for one that nobody calls."""

    log_prior: int = 0
    both_sides: int = 0  # the row terms at both ends of a move
    reading: int = 0  # reads rows for them
    one_side: int = 0  # the row terms at one point, for a test that remembers those at the other end
    one_side_reading: int = 0  # reads rows for them
    prior_slope: int = 0  # the log prior and its gradient
    prior_gradient: int = 0  # the gradient of the log prior, for a proposal that moves along it
    row_gradient: int = 0  # that of the sum of row terms
    gradient_reading: int = 0  # reads rows for it
    excluded_law: int = 0  # the law of coefficients that are left out, for a proposal that draws them


# The same for whichever model the links lead to; `fixed` and `arrays` are `Addresses`.
#: ``log_prior(links, theta, others, fixed)``: log ρ(θ).
LinkedLogPrior = Callable[..., float]
#: ``prior_slope(links, theta, others, fixed)``: log ρ(θ) and its gradient by θ.
LinkedPriorSlope = Callable[..., tuple[float, np.ndarray]]
#: ``both_sides(links, theta_new, theta, others, centre, fixed, arrays, numbers)``: ℓ_i(θ′) and ℓ_i(θ) for the rows with
#: these numbers; with a proxy remainders from an expansion with that centre, which nobody reads without one.
LinkedBothSides = Callable[..., tuple[np.ndarray, np.ndarray]]
#: ``one_side(links, theta, others, fixed, arrays, numbers)``: ℓ_i(θ) for the rows with these numbers.
LinkedOneSide = Callable[..., np.ndarray]


#: θ, and the values of the variables of other steps.
VECTOR, MATRIX = types.float64[::1], types.float64[:, ::1]
#: What the graph of one vector returns, of two, and of a number and its gradient.
ONE_VECTOR, PAIR = types.UniTuple(VECTOR, 1), types.UniTuple(VECTOR, 2)
TOTAL_AND_SLOPE = types.Tuple((types.Array(types.float64, 0, "C"), VECTOR))
#: A number and its gradient.
VALUE_AND_SLOPE = types.Tuple((types.float64, VECTOR))
_NUMBER = types.float64
#: What is taken by what reads no row: θ, the variables of other steps, and where data that are not indexed by row are.
WITHOUT_ROWS = types.Tuple((VECTOR, VECTOR, ADDRESSES))


def reach_graph(
    graph: Callable[..., Any],
    result: types.Type,
    converted: Callable[..., Any],
    *arguments: types.Type,
    by_python: bool = False,
) -> Reached:
    """Compile a model's graph for arguments of these types, and find it.

    `graph`, from `compile_part`, takes the entries of tuples among the arguments one by one.  `converted` takes the
    tuples and returns `result`, which callers expect: numba compiles the graph in it once more, so that it is only used
    where the graph returns another type, or takes ``*data``.  One that is called `by_python` too is compiled for both.
    """
    if any(p.kind is p.VAR_POSITIONAL for p in signature(getattr(graph, "py_func", graph)).parameters.values()):
        return reach(converted, *arguments)
    taken = _one_by_one(arguments)
    reached = reach_as_called(graph, taken) if by_python else reach(graph, *taken)
    return reached if returned_by(reached.function, taken) == result else reach(converted, *arguments)


def _one_by_one(arguments: Iterable[types.Type]) -> tuple[types.Type, ...]:
    found: list[types.Type] = []
    for argument in arguments:
        found += _one_by_one(argument.types) if isinstance(argument, types.BaseTuple) else [argument]
    return tuple(found)


def reach_log_prior(log_prior: LogPrior, fixed: types.BaseTuple) -> Reached:
    """Compile ``log_prior(theta, others, fixed)``, which returns a number, and find it."""

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

    The graph returns `result` and takes `n_points` vectors first (θ′ or none, θ, and the variables of other steps),
    then data that are not indexed by row, among which the centre of an expansion comes first where it `expands`, and
    some rows.
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

    `reading` is the address from `reach_reading`, with the same `result` and `n_points`.
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
