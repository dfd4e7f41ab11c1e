"""What a variable is indexed by, whichever PyTensor wrote it down."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.basic import get_scalar_constant_value
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor, indices_from_subtensor
from pytensor.tensor.type_other import MakeSlice

#: Ops that set or raise part of their first input by their second.
ASSIGNS = (IncSubtensor, AdvancedIncSubtensor)


def plain_indices(node: Apply) -> list[Any]:
    """Return what a variable is indexed by, an entry for each axis: variables, whole numbers, slices of either."""
    idx_list = getattr(node.op, "idx_list", None)
    inputs = index_inputs(node)
    return [_plain(i) for i in (inputs if idx_list is None else indices_from_subtensor(inputs, idx_list))]


def index_inputs(node: Apply) -> list[Variable]:
    """Return the inputs that indices are made of."""
    return node.inputs[2 if isinstance(node.op, ASSIGNS) else 1 :]


def constant_of(var: Any) -> int | None:
    """Return the number that an index stands for, where it is known from the graph."""
    if isinstance(var, int | np.integer):
        return int(var)
    try:
        return int(get_scalar_constant_value(var))
    except (NotScalarConstantError, TypeError, ValueError):
        return None


def bounds_of(index: slice) -> tuple[Any, Any, Any]:
    """Return start, stop and step of a slice, with None where the graph says so in a constant."""
    start, stop, step = (
        None if isinstance(b, Constant) and b.data is None else b for b in (index.start, index.stop, index.step)
    )
    return start, stop, step


def entries_taken(node: Apply, n: int) -> np.ndarray | None:
    """Return which entries of a vector of n an index takes, or None where the graph does not say."""
    (index,) = plain_indices(node)
    asked = bounds_of(index) if isinstance(index, slice) else (index,)
    known = [None if i is None else constant_of(i) for i in asked]
    if any(k is None for k, i in zip(known, asked) if i is not None):
        return None
    return np.atleast_1d(np.arange(n)[slice(*known) if isinstance(index, slice) else known[0]])


def _plain(index: Any) -> Any:
    """Return an index with slices as Python slices: PyTensor 2 also has constants and nodes that make them."""
    if isinstance(index, Constant) and isinstance(index.data, slice):
        return index.data
    if isinstance(index, Variable) and index.owner is not None and isinstance(index.owner.op, MakeSlice):
        return slice(*index.owner.inputs)
    return index
