"""What becomes of the row axis where a variable is indexed, and where its shape is asked for, set or changed."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.basic import Alloc, AllocEmpty, ARange, Join, MakeVector, get_scalar_constant_value
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor

from pymc_austerity.likelihood.axis import (
    LAG,
    LENGTH,
    Axes,
    OneEntryARowError,
    RowAxis,
    entry_is_number_of_rows,
    is_number_of_rows,
    refuse,
    refuse_entries,
    single_axis,
)
from pymc_austerity.likelihood.model_graph import bounds_of, constant_of, index_inputs, plain_indices


def axis_of_index(op: Subtensor | AdvancedSubtensor, node: Apply, axes: Axes) -> Axes:
    """Return the row axis of an indexed variable, given those of the variable and of its indices."""
    indices = plain_indices(node)
    of = dict(zip(node.inputs[1:], axes[1:], strict=True))
    source = axes[0]
    if source is not None and source.kind == "shape":
        return [_index_shape(indices[0], source, node.inputs[0].type.shape[0])]
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
            if position >= 0 and not index.type.broadcastable[position] and not _is_one_zero(index):
                raise refuse_entries(node, index, position)
        return [rows.at(rows.axis + start)]
    if row_in_index:
        raise refuse(node, "rows are indexed by another row-wise variable")
    kept = [i for i in range(len(full)) if i not in consumed]
    position = kept.index(source.axis)
    if advanced and (not adjacent or source.axis > consumed[0]):
        position += index_ndim
    return [source.at(position)]


def _is_one_zero(index: Variable) -> bool:
    """Whether an index is the range of one entry: PyMC numbers rows so where all of them share one vector."""
    node = index.owner
    while node is not None and isinstance(node.op, Reshape | DimShuffle):
        node = node.inputs[0].owner
    return node is not None and isinstance(node.op, ARange) and [constant_of(i) for i in node.inputs] == [0, 1, 1]


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
    kept = positions[slice(*(None if v is None else constant_of(v) for v in (index.start, index.stop, index.step)))]
    return RowAxis(kept.index(shape.axis), "shape") if shape.axis in kept else None


def _is_full_slice(index: Any, axes: Mapping[Variable, RowAxis | None]) -> bool:
    if not isinstance(index, slice):
        return False
    start, stop, step = bounds_of(index)
    to_the_end = stop is None or (axes.get(stop) == LENGTH and is_number_of_rows(stop))
    return to_the_end and (start is None or constant_of(start) == 0) and (step is None or constant_of(step) == 1)


def axis_of_assignment(op: IncSubtensor | AdvancedIncSubtensor, node: Apply, axes: Axes) -> Axes:
    """Return the row axis of a variable of which some entries of every row are set or raised, as columns are."""
    source, value, *indices = axes
    full = [*plain_indices(node), *[slice(None)] * (node.inputs[0].type.ndim - len(plain_indices(node)))]
    of = dict(zip(index_inputs(node), indices, strict=True))
    if source is None and any(a and a.per_row for a in indices):
        raise refuse(node, "rows are added up by their numbers (a statistic over the rows of each group)")
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
    return [source.at(source.axis)]


def axis_of_alloc(op: Alloc, node: Apply, axes: Axes) -> Axes:
    """Return the row axis of an array filled with a value."""
    value, *lengths = axes
    source = node.inputs[0]
    rows = [RowAxis(i) for i, a in enumerate(lengths) if a]
    added = node.outputs[0].type.ndim - source.type.ndim
    if value is None and any(r.axis >= added and not source.type.broadcastable[r.axis - added] for r in rows):
        raise refuse_entries(node, source, rows[0].axis - added)
    if value is not None:
        rows.append(value.at(value.axis + added))
    return [single_axis(node, rows)]


def axis_of_alloc_empty(op: AllocEmpty, node: Apply, axes: Axes) -> Axes:
    """Return the row axis of an array of which all entries are still to be set, as ordered cutpoints are computed."""
    return [single_axis(node, [RowAxis(i) for i, a in enumerate(axes) if a])]


def axis_of_arange(op: ARange, node: Apply, axes: Axes) -> Axes:
    """Return the axis of numbers that are counted up to the number of rows."""
    start, stop, step = node.inputs
    if constant_of(start) != 0 or constant_of(step) != 1 or axes[0] or axes[2] or not is_number_of_rows(stop):
        raise refuse(node, "rows are numbered with an offset or a stride")
    return [RowAxis(0, "number")]


def axis_of_shape(op: Shape | Shape_i, node: Apply, axes: Axes) -> Axes:
    """Return where the number of rows stands in a shape, or whether one length is that number."""
    (axis,) = axes
    if axis is None or (isinstance(op, Shape_i) and axis.axis != op.i):
        return [None]
    if axis.shared:
        raise refuse(node, "the length of an axis that holds more than the rows is asked for")
    found = RowAxis(axis.axis, "shape") if isinstance(op, Shape) else LENGTH
    return [found if axis.per_row else None]


def axis_of_make_vector(op: MakeVector, node: Apply, axes: Axes) -> Axes:
    """Return where the number of rows stands in a shape that is put together."""
    where = [i for i, a in enumerate(axes) if a]
    if len(where) > 1 or any(a and a.kind != "length" for a in axes):
        raise refuse(node, "several entries depend on the number of rows")
    return [RowAxis(where[0], "shape")]


def axis_of_join(op: Join, node: Apply, axes: Axes) -> Axes:
    """Return the row axis of joined arrays, or of joined shapes."""
    given = getattr(op, "axis", None)
    if given is None:  # PyTensor 2 passes the axis as the first input
        given = int(get_scalar_constant_value(node.inputs[0]))
        tensors, axes = node.inputs[1:], axes[1:]
    else:
        tensors = node.inputs
    along = given % node.outputs[0].type.ndim
    if any(a and a.kind != "rows" for a in axes):
        return [_join_shapes(node, tensors, axes)]
    result = single_axis(node, [a for a in axes if a])
    if along == result.axis:
        raise refuse(node, "rows are put behind one another")
    if not all(axes):
        raise refuse(node, "a variable that is not indexed by row is joined to the rows")
    return [result]


def _join_shapes(node: Apply, tensors: Sequence[Variable], axes: Axes) -> RowAxis:
    position = 0
    found: list[RowAxis] = []
    for var, axis in zip(tensors, axes, strict=True):
        if axis:
            found.append(RowAxis(position + axis.axis))
        length = var.type.shape[0]
        if length is None:
            raise refuse(node, "a shape of unknown length")
        position += length
    return single_axis(node, found)._replace(kind="shape")


def axis_of_reshape(op: Reshape, node: Apply, axes: Axes) -> Axes:
    """Return the row axis of a reshaped array, where the rows keep an axis of their own."""
    value, shape = axes
    if value is None or not value.per_row:
        raise refuse_entries(node, node.inputs[0], 0)
    new = [_known_length(node, axis) for axis in range(node.outputs[0].type.ndim)]
    place = shape.axis if shape and shape.kind == "shape" else new.index(None) if new.count(None) == 1 else None
    if place is not None:
        old = [_static_length(node.inputs[0], axis) for axis in range(node.inputs[0].type.ndim)]
        # Entries keep their order, so that as many lie before and behind the rows as did.
        blocks = _left([*old[: value.axis], value.before], new[:place])
        within = _left([value.after, *old[value.axis + 1 :]], new[place + 1 :])
        if within is None and not value.shared and shape and entry_is_number_of_rows(node.inputs[1], place):
            within = 1
        if blocks and within:
            return [RowAxis(place, "rows" if blocks * within > 1 else value.kind, blocks, within)]
    raise refuse(node, "a reshape does not keep the rows apart on an axis of their own")


def _static_length(var: Variable, axis: int) -> int | None:
    """Return the length of an axis where the graph says it, of the variable or of what it is a transpose of."""
    if var.owner is None or not isinstance(var.owner.op, DimShuffle) or var.type.shape[axis] is not None:
        return var.type.shape[axis]
    return _static_length(var.owner.inputs[0], var.owner.op.new_order[axis])


def _known_length(node: Apply, axis: int) -> int | None:
    """Return the length of an axis of a reshaped variable, where it is known."""
    static = node.outputs[0].type.shape[axis]
    if static is not None:
        return static
    found = constant_of(node.inputs[1][axis])
    return None if found == -1 else found


def _left(old: Sequence[int | None], new: Sequence[int | None]) -> int | None:
    """Return how many of the entries of axes are left for an axis beside those of some lengths; None where unclear."""
    had, given = [n for n in old if n is not None], [n for n in new if n is not None]
    if len(had) < len(old) or len(given) < len(new):
        return None
    left, rest = divmod(prod(had), prod(given))
    return None if rest else left
