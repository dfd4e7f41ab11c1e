"""The arrays of a model as one value, of the same type whatever theirs are: where they lie, and their shapes.

Code that is handed arrays is another code for arrays of other types.  What only passes them on, to a function of the
model that knows their types, is handed this instead, and is compiled once for all models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.imputils import impl_ret_new_ref
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import as_dtype
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

    Parameters
    ----------
    arrays : sequence of numpy.ndarray
    expected : numba.types.BaseTuple
        Types that compiled code will take them for: of any others it would read something else.

    Raises
    ------
    TypeError
        For arrays that are not of these types, or whose entries do not lie one behind the other.
    """
    found = [(a.dtype, a.ndim) for a in arrays]
    due = [(as_dtype(t.dtype), t.ndim) for t in expected.types]
    if found != due or not all(a.flags.c_contiguous and a.flags.aligned for a in arrays):
        raise TypeError(f"Data of types {found}, where {due}, contiguous, are expected.")
    table = np.array([word for a in arrays for word in (a.ctypes.data, *a.shape)], dtype=np.int64)
    return np.asarray(_Kept(table, tuple(arrays)))


#: Of no arrays.
NOWHERE: Addresses = addresses((), types.Tuple(()))


@intrinsic
def arrays_at(typingctx, addresses, expected):  # type: ignore[no-untyped-def]
    """Return the arrays that lie there as a tuple of the expected type, which owns none of them."""
    result = expected.instance_type

    def codegen(context, builder, signature, values):  # type: ignore[no-untyped-def]
        table, n_words = make_array(ADDRESSES)(context, builder, values[0]).data, 0
        word = context.get_value_type(types.intp)

        def next_word() -> Any:
            nonlocal n_words
            n_words += 1
            return builder.load(cgutils.gep_inbounds(builder, table, n_words - 1))

        found = []
        for of in result.types:
            array = make_array(of)(context, builder)
            data = builder.inttoptr(next_word(), context.get_data_type(of.dtype).as_pointer())
            size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(of.dtype)))
            shape = [next_word() for _ in range(of.ndim)]
            strides = [size] * of.ndim
            for k in reversed(range(of.ndim - 1)):
                strides[k] = builder.mul(strides[k + 1], shape[k + 1])
            packed = (cgutils.pack_array(builder, of_axes, word) for of_axes in (shape, strides))
            populate_array(array, data, *packed, size, None)
            found.append(array._getvalue())
        return impl_ret_new_ref(context, builder, result, context.make_tuple(builder, result, found))

    return result(ADDRESSES, expected), codegen


@njit
def n_rows_at(arrays: Addresses) -> int:
    """Return the length of the first of the arrays that lie there, along its first axis."""
    return arrays[1]
