"""What becomes of the row axis where a variable is indexed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_austerity.likelihood.axis import (
    LAG,
    LENGTH,
    Axes,
    OneEntryARowError,
    RowAxis,
    is_number_of_rows,
    refuse,
    refuse_entries,
    single_axis,
)
from pymc_austerity.likelihood.model_graph import bounds_of, constant_of, index_inputs, plain_indices


def axis_of_index(op: Subtensor | AdvancedSubtensor, node: Apply, axes: Axes) -> RowAxis | None:
    """Return the row axis of an indexed variable, given those of the variable and of its indices."""
    indices = plain_indices(node)
    of = dict(zip(node.inputs[1:], axes[1:], strict=True))
    source = axes[0]
    if source is not None and source.kind == "shape":
        return _index_shape(indices[0], source, node.inputs[0].type.shape[0])
    full = [*indices, *[slice(None)] * (node.inputs[0].type.ndim - len(indices))]
    own_row = source is not None and not source.shared and _picks_own_row(full[source.axis], of)
    if source is not None and not own_row and not _is_full_slice(full[source.axis], of):
        raise refuse(node, _what_is_picked(full[source.axis], of))
    arrays = [i for i, v in enumerate(full) if isinstance(v, Variable) and not isinstance(v, slice) and v.type.ndim]
    scalars = [i for i, v in enumerate(full) if not isinstance(v, slice) and i not in arrays]
    advanced = bool(arrays)
    index_ndim = max((full[i].type.ndim for i in arrays), default=0)
    row_in_index = [a.at(a.axis + index_ndim - full[i].type.ndim) for i in arrays if (a := of.get(full[i]))]
    consumed = sorted([*arrays, *scalars]) if advanced else scalars
    adjacent = not consumed or consumed[-1] - consumed[0] + 1 == len(consumed)
    start = consumed[0] if adjacent and consumed else 0
    if source is None and any(_picks_own_row(full[i], of) for i in arrays):
        raise refuse_entries(node, node.inputs[0], 0)
    if source is None or own_row:
        rows = single_axis(node, row_in_index)
        for index in (full[i] for i in arrays if not of.get(full[i])):
            position = rows.axis - index_ndim + index.type.ndim
            if position >= 0 and not index.type.broadcastable[position]:
                raise refuse_entries(node, index, position)
        return rows.at(rows.axis + start)
    if row_in_index:
        raise refuse(node, "rows are indexed by another row-wise variable")
    kept = [i for i in range(len(full)) if i not in consumed]
    position = kept.index(source.axis)
    if advanced and (not adjacent or source.axis > consumed[0]):
        position += index_ndim
    return source.at(position)


def _picks_own_row(index: Any, axes: Mapping[Variable, RowAxis | None]) -> bool:
    axis = axes.get(index) if isinstance(index, Variable) else None
    return axis is not None and axis.kind == "number"


def _what_is_picked(index: Any, axes: Mapping[Variable, RowAxis | None]) -> str:
    if isinstance(index, slice):
        return f"rows are shifted or left out inside the model {LAG}"
    if isinstance(index, Variable) and axes.get(index):
        return "rows are picked by numbers that the data hold (np.arange(n) in the model picks an entry of each row)"
    return "a part of the rows is picked for all of them (as in x[0])"


def _index_shape(index: Any, shape: RowAxis, length: int | None) -> RowAxis | None:
    """Follow the number of rows through an index or a slice of a shape vector."""
    positions = range(length or shape.axis + 1)
    if not isinstance(index, slice):
        found = constant_of(index)
        return LENGTH if found is None or positions[found] == shape.axis else None
    bounds = [None if v is None else constant_of(v) for v in (index.start, index.stop, index.step)]
    kept = positions[slice(*bounds)]
    return RowAxis(kept.index(shape.axis), "shape") if shape.axis in kept else None


def _is_full_slice(index: Any, axes: Mapping[Variable, RowAxis | None]) -> bool:
    if not isinstance(index, slice):
        return False
    start, stop, step = bounds_of(index)
    to_the_end = stop is None or (axes.get(stop) == LENGTH and is_number_of_rows(stop))
    return to_the_end and (start is None or constant_of(start) == 0) and (step is None or constant_of(step) == 1)


def axis_of_assignment(node: Apply, axes: Axes) -> RowAxis:
    """Return the row axis of a variable of which some entries of every row are set or raised, as columns are."""
    source, value, *indices = axes
    full = [*plain_indices(node), *[slice(None)] * (node.inputs[0].type.ndim - len(plain_indices(node)))]
    of = dict(zip(index_inputs(node), indices, strict=True))
    if source is None:
        raise refuse_entries(node, node.inputs[0], 0)
    if not source.per_row:
        raise refuse(node, "part of a shape is set")
    given = node.inputs[1]
    if not _is_full_slice(full[source.axis], of):
        if value is None and given.type.ndim and isinstance(own := refuse_entries(node, given, 0), OneEntryARowError):
            raise own
        raise refuse(
            node,
            "some rows are set or raised to a value of its own each: give it for all rows, as "
            "pt.switch(mask, value, others) takes it,",
        )
    if any(a and a != LENGTH for a in indices) or any(isinstance(v, Variable) and v.type.ndim for v in full):
        raise refuse(node, "it is not known whether rows stay apart")
    written = node.inputs[0].type.ndim - sum(not isinstance(v, slice) for v in full)
    place = source.axis - sum(not isinstance(v, slice) for v in full[: source.axis])
    position = place - (written - given.type.ndim)
    if value is None and position >= 0 and not given.type.broadcastable[position]:
        raise refuse_entries(node, given, position)
    if value is not None:
        single_axis(node, [value, source.at(position)])
    return source.at(source.axis)
