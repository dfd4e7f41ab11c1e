"""The arrays of a model as one value, of the same type whatever theirs are: where they lie, and their shapes.

Code that is handed arrays is another code for arrays of other types.  What only passes them on, to a function of the
model that knows their types, is handed this instead, and is compiled once for all models.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numba import carray, from_dtype, types
from numba.extending import intrinsic, overload
from pytensor.graph.basic import Variable

from pymc_austerity.compile.lean_njit import njit

#: Of one array after the other: where its first entry lies, and its length along every axis; of int64.
Addresses: TypeAlias = np.ndarray
#: Its type in compiled code.
ADDRESSES = types.int64[::1]


def tuple_of(variables: Sequence[Variable]) -> types.BaseTuple:
    """Return the type of a tuple of the values of some variables."""
    return types.Tuple([types.Array(from_dtype(np.dtype(v.type.dtype)), v.type.ndim, "C") for v in variables])


class _Kept:
    """The memory of `Addresses`, and the arrays that lie there: these live as long as that is in use."""

    def __init__(self, table: np.ndarray, arrays: tuple[np.ndarray, ...]):
        self.table, self.arrays = table, arrays
        self.__array_interface__ = table.__array_interface__


def addresses(arrays: Sequence[np.ndarray], expected: types.BaseTuple) -> Addresses:
    """Return where some arrays lie, which live as long as what is returned; good in this process.

    Raises TypeError for arrays that compiled code would not take for those of the expected types, contiguous.
    """
    found = [(a.dtype, a.ndim) for a in arrays]
    due = [(np.dtype(t.dtype.name), t.ndim) for t in expected.types]
    if found != due or not all(a.flags.c_contiguous and a.flags.aligned for a in arrays):
        raise TypeError(f"Data of types {found}, where {due}, contiguous, are expected.")
    table = np.array([word for a in arrays for word in (a.ctypes.data, *a.shape)], dtype=np.int64)
    return np.asarray(_Kept(table, tuple(arrays)))


#: Of no arrays.
NOWHERE: Addresses = addresses((), types.Tuple(()))


def arrays_at(table: Addresses, expected: types.BaseTuple) -> Any:
    """Return the arrays that lie there as a tuple of the expected type, which owns none of them; in compiled code."""
    raise NotImplementedError


@overload(arrays_at)
def _arrays_at(table, expected):  # type: ignore[no-untyped-def]
    of_table = _build_arrays(expected.instance_type, 0)
    return lambda table, expected: of_table(table)


def _build_arrays(expected: types.BaseTuple, at: int) -> Callable[..., Any]:
    """Compile what makes a tuple of arrays of a table, the first of which is described from its entry `at` on."""
    if not len(expected):
        return njit(lambda table: ())
    dtype, ndim = expected.types[0].dtype, expected.types[0].ndim
    shape_of, others = _build_lengths(at + 1, ndim), _build_arrays(types.Tuple(expected.types[1:]), at + 1 + ndim)

    @njit
    def arrays(table):  # type: ignore[no-untyped-def]
        return (carray(_pointer(table[at], dtype), shape_of(table)), *others(table))

    return arrays


def _build_lengths(at: int, n: int) -> Callable[..., Any]:
    if n == 0:
        return njit(lambda table: ())
    others = _build_lengths(at + 1, n - 1)
    return njit(lambda table: (table[at], *others(table)))


@intrinsic
def _pointer(typingctx, address, dtype):  # type: ignore[no-untyped-def]
    """Return an address as a pointer to numbers of a type."""
    pointer = types.CPointer(dtype.instance_type)

    def codegen(context, builder, signature, values):  # type: ignore[no-untyped-def]
        return builder.inttoptr(values[0], context.get_value_type(pointer))

    return pointer(types.int64, dtype), codegen


@njit
def n_rows_at(arrays: Addresses) -> int:
    """Return the length of the first of the arrays that lie there, along its first axis."""
    return arrays[1]
