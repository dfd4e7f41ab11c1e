"""What becomes of the row axis where a variable is indexed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.basic import (
    get_scalar_constant_value,
)
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor
from pytensor.tensor.type_other import MakeSlice

from pymc_austerity.likelihood.axis import LENGTH, Axes, RowAxis, refuse, refuse_entries, single_axis


def axis_of_index(op: Subtensor | AdvancedSubtensor, node: Apply, axes: Axes) -> RowAxis | None:
    """Return the row axis of an indexed variable, given those of the variable and of its indices."""
    indices = plain_indices(node)
    of = dict(zip(node.inputs[1:], axes[1:], strict=True))
    source = axes[0]
    if source is not None and source.kind == "shape":
        return _index_shape(indices[0], source, node.inputs[0].type.shape[0])
    full = [*indices, *[slice(None)] * (node.inputs[0].type.ndim - len(indices))]
    own_row = source is not None and _picks_own_row(full[source.axis], of)
    if source is not None and not own_row and not _is_full_slice(full[source.axis]):
        raise refuse(node, "rows are picked or shifted inside the model (a lag, or an index over rows)")
    arrays = [i for i, v in enumerate(full) if isinstance(v, Variable) and not isinstance(v, slice) and v.type.ndim]
    scalars = [i for i, v in enumerate(full) if not isinstance(v, slice) and i not in arrays]
    advanced = bool(arrays)
    index_ndim = max((full[i].type.ndim for i in arrays), default=0)
    row_in_index = [of[full[i]].axis + index_ndim - full[i].type.ndim for i in arrays if of.get(full[i])]
    consumed = sorted([*arrays, *scalars]) if advanced else scalars
    adjacent = not consumed or consumed[-1] - consumed[0] + 1 == len(consumed)
    start = consumed[0] if adjacent and consumed else 0
    if source is None and any(_picks_own_row(full[i], of) for i in arrays):
        raise refuse_entries(node, node.inputs[0], 0)
    if source is None or own_row:
        return RowAxis(single_axis(node, row_in_index).axis + start)
    if row_in_index:
        raise refuse(node, "rows are indexed by another row-wise variable")
    kept = [i for i in range(len(full)) if i not in consumed]
    position = kept.index(source.axis)
    if advanced and (not adjacent or source.axis > consumed[0]):
        position += index_ndim
    return RowAxis(position)


def plain_indices(node: Apply) -> list[Any]:
    """Return what a variable is indexed by, an entry for each axis: variables, whole numbers, slices of either."""
    idx_list = getattr(node.op, "idx_list", None)
    indices = node.inputs[1:] if idx_list is None else indices_from_subtensor(node.inputs[1:], idx_list)
    return [_plain(i) for i in indices]


def _picks_own_row(index: Any, axes: Mapping[Variable, RowAxis | None]) -> bool:
    axis = axes.get(index) if isinstance(index, Variable) else None
    return axis is not None and axis.kind == "number"


def _index_shape(index: Any, shape: RowAxis, length: int | None) -> RowAxis | None:
    """Follow the number of rows through an index or a slice of a shape vector."""
    positions = range(length or shape.axis + 1)
    if not isinstance(index, slice):
        found = constant_of(index)
        return LENGTH if found is None or positions[found] == shape.axis else None
    bounds = [None if v is None else constant_of(v) for v in (index.start, index.stop, index.step)]
    kept = positions[slice(*bounds)]
    return RowAxis(kept.index(shape.axis), "shape") if shape.axis in kept else None


def constant_of(var: Any) -> int | None:
    """Return the number that an index stands for, where it is known from the graph."""
    if isinstance(var, int | np.integer):
        return int(var)
    try:
        return int(get_scalar_constant_value(var))
    except (NotScalarConstantError, TypeError, ValueError):
        return None


def _plain(index: Any) -> Any:
    """Return an index with slices as Python slices: PyTensor 2 also has constants and nodes that make them."""
    if isinstance(index, Constant) and isinstance(index.data, slice):
        return index.data
    if isinstance(index, Variable) and index.owner is not None and isinstance(index.owner.op, MakeSlice):
        return slice(*index.owner.inputs)
    return index


def _is_full_slice(index: Any) -> bool:
    if not isinstance(index, slice):
        return False
    start, stop, step = (
        None if isinstance(b, Constant) and b.data is None else b for b in (index.start, index.stop, index.step)
    )
    return start is None and stop is None and (step is None or constant_of(step) == 1)
