"""What becomes of the row axis where the shape of a variable is asked for, set or changed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.basic import Alloc, ARange, Join, MakeVector, get_scalar_constant_value
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape, Shape, Shape_i

from pymc_austerity.likelihood.axis import (
    LENGTH,
    Axes,
    RowAxis,
    entry_is_number_of_rows,
    is_number_of_rows,
    refuse,
    refuse_entries,
    single_axis,
)
from pymc_austerity.likelihood.model_graph import constant_of


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


def axis_of_arange(op: ARange, node: Apply, axes: Axes) -> Axes:
    """Return the axis of numbers that are counted up to the number of rows."""
    start, stop, step = node.inputs
    if constant_of(start) != 0 or constant_of(step) != 1 or axes[0] or axes[2] or not is_number_of_rows(stop):
        raise refuse(node, "rows are numbered with an offset or a stride")
    return [RowAxis(0, "number")]


def axis_of_shape(op: Shape, node: Apply, axes: Axes) -> Axes:
    """Return where the number of rows stands in a shape."""
    (axis,) = axes
    if axis and axis.shared:
        raise refuse(node, "the length of an axis that holds more than the rows is asked for")
    return [RowAxis(axis.axis, "shape") if axis and axis.per_row else None]


def axis_of_shape_i(op: Shape_i, node: Apply, axes: Axes) -> Axes:
    """Return whether one length is the number of rows."""
    (axis,) = axes
    if axis and axis.shared and axis.axis == op.i:
        raise refuse(node, "the length of an axis that holds more than the rows is asked for")
    return [LENGTH if axis and axis.per_row and axis.axis == op.i else None]


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
