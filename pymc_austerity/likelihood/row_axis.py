"""Prove from the graph that row i of a log-likelihood reads only row i of the data.

The row axis is followed from the batches through every op.  An op whose effect on the axis is known maps it
to an axis of its outputs; an op that mixes rows, or that is unknown here, is refused by name.
The analysis is conservative: what passes is row-wise, what is refused may merely be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from math import prod

import numpy as np
from pytensor import scalar
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp, ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import io_toposort, walk
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import (
    Alloc,
    ARange,
    ExtractDiag,
    Join,
    MakeVector,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
    get_scalar_constant_value,
)
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, SearchsortedOp
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor

from pymc_austerity.compat import SolveBase
from pymc_austerity.likelihood.axis import LENGTH, Axes, RowAxis, refuse, refuse_entries, single_axis
from pymc_austerity.likelihood.axis_of_index import axis_of_assignment, axis_of_index
from pymc_austerity.likelihood.indices import constant_of
from pymc_austerity.likelihood.number_of_rows import entry_is_number_of_rows, is_number_of_rows
from pymc_austerity.likelihood.rebuild import NotRowWiseError


def prove_row_axis(output: Variable, seeds: Mapping[Variable, RowAxis]) -> RowAxis | None:
    """Follow the row axis from `seeds` to `output`.

    Returns
    -------
    RowAxis or None
        None where `output` does not depend on rows at all.

    Raises
    ------
    NotRowWiseError
        At the first op that mixes rows or is unknown.
    """
    found = _follow(output, seeds)
    if found is not None and found.shared:
        raise NotRowWiseError("a reshape does not keep the rows apart on an axis of their own")
    return found


def _follow(output: Variable, seeds: Mapping[Variable, RowAxis]) -> RowAxis | None:
    known: dict[Variable, RowAxis | None] = dict(seeds)
    needed = set(walk([output], _value_inputs, bfs=False))
    for node in io_toposort(list(seeds), [output]):
        if needed.isdisjoint(node.outputs):
            continue
        axes = [known.get(i) for i in node.inputs]
        if any(axes):
            known.update(zip(node.outputs, _through(node.op, node, axes), strict=True))
    return known.get(output)


def _value_inputs(var: Variable) -> list[Variable]:
    """Return what the value of `var` is computed from, leaving out conditions that only guard it."""
    if var.owner is None:
        return []
    if isinstance(var.owner.op, CheckAndRaise):
        return var.owner.inputs[:1]
    return list(var.owner.inputs)


@singledispatch
def _through(op: Op, node: Apply, axes: Axes) -> Axes:
    """Return the row axes of the outputs of `node`, given those of its inputs."""
    raise refuse(node, "it is not known whether rows stay apart")


@_through.register(ViewOp)
@_through.register(DeepCopyOp)
@_through.register(ScalarFromTensor)
@_through.register(TensorFromScalar)
@_through.register(CheckAndRaise)
def _same(op: Op, node: Apply, axes: Axes) -> Axes:
    return [axes[0]]


@_through.register
def _elemwise(op: Elemwise, node: Apply, axes: Axes) -> Axes:
    row_axes = [a for a in axes if a and a.per_row]
    if not row_axes:
        # Arithmetic on lengths happens where shapes are broadcast.
        return [next(a for a in axes if a)] * len(node.outputs)
    if any(a and not a.per_row for a in axes):
        raise refuse(node, "the number of rows enters as a number, and a batch has fewer rows,")
    result = single_axis(node, row_axes)
    if any(a.kind == "number" for a in row_axes):
        if not isinstance(op.scalar_op, scalar.Cast | scalar.Identity):
            raise refuse(node, "the numbers of the rows enter as numbers, and a batch numbers its own,")
        return [row_axes[0]]
    for var, axis in zip(node.inputs, axes, strict=True):
        if axis is None and var.type.ndim and not var.type.broadcastable[result.axis]:
            raise refuse_entries(node, var, result.axis)
    return [result] * len(node.outputs)


@_through.register
def _dimshuffle(op: DimShuffle, node: Apply, axes: Axes) -> Axes:
    (axis,) = axes
    assert axis is not None
    if axis.kind == "length":
        return [axis]
    return [axis._replace(axis=op.new_order.index(axis.axis))]


@_through.register
def _reduce(op: CAReduce, node: Apply, axes: Axes) -> Axes:
    (axis,) = axes
    assert axis is not None
    if not axis.per_row:
        return [LENGTH]  # a product of lengths is a number of rows too
    reduced = range(node.inputs[0].type.ndim) if op.axis is None else op.axis
    if axis.axis in reduced:
        raise refuse(node, "all rows are reduced to one number (a statistic over rows)")
    return [axis.at(axis.axis - sum(a < axis.axis for a in reduced))] * len(node.outputs)


@_through.register
def _argmax(op: Argmax, node: Apply, axes: Axes) -> Axes:
    return _reduce(op, node, axes)


@_through.register
def _cumulate(op: CumOp, node: Apply, axes: Axes) -> Axes:
    (axis,) = axes
    assert axis is not None
    if op.axis is None or op.axis == axis.axis:
        raise refuse(node, "rows are accumulated one after the other")
    return [axis.at(axis.axis)]


@_through.register(Softmax)
@_through.register(LogSoftmax)
def _softmax(op: Softmax | LogSoftmax, node: Apply, axes: Axes) -> Axes:
    axis = axes[0]
    assert axis is not None
    normalised = range(node.inputs[0].type.ndim) if op.axis is None else np.atleast_1d(op.axis)
    if axis.axis in [a % node.inputs[0].type.ndim for a in normalised]:
        raise refuse(node, "rows are normalised against each other")
    return [axis.at(axis.axis)]


@_through.register
def _dot(op: Dot, node: Apply, axes: Axes) -> Axes:
    return _contract(
        node,
        axes,
        [("m", "k")[-x.type.ndim :] for x in node.inputs[:1]] + [("k", "n")[: node.inputs[1].type.ndim]],
        ["m", "n"],
        op,
    )


def _contract(node: Apply, axes: Axes, labels: Sequence[Sequence[str]], out: Sequence[str], op: Op) -> Axes:
    """Rows of a product stay apart when their core dimension belongs to one operand and survives."""
    found = [(names[a.axis], a) for a, names in zip(axes, labels, strict=True) if a and a.kind == "rows"]
    everywhere = [name for names in labels for name in names]
    if len(found) != 1 or everywhere.count(found[0][0]) > 1 or found[0][0] not in out:
        raise refuse(node, "rows are summed over, or meet each other, in a matrix product,")
    name, axis = found[0]
    return [axis.at([n for n in out if n in everywhere].index(name))]


@_through.register
def _blockwise(op: Blockwise, node: Apply, axes: Axes) -> Axes:
    core_in, core_out = op.inputs_sig, op.outputs_sig
    n_batch = node.outputs[0].type.ndim - len(core_out[0])
    batch, core = [], []
    for var, axis, sig in zip(node.inputs, axes, core_in, strict=True):
        if axis is None:
            continue
        if axis.axis < var.type.ndim - len(sig):
            batch.append(axis.at(axis.axis + n_batch - (var.type.ndim - len(sig))))
        else:
            core.append(axis)
    if not core:
        result = single_axis(node, batch)
        for var, axis, sig in zip(node.inputs, axes, core_in, strict=True):
            position = result.axis - n_batch + (var.type.ndim - len(sig))
            if axis is None and position >= 0 and not var.type.broadcastable[position]:
                raise refuse_entries(node, var, position)
        return [result] * len(node.outputs)
    if batch or not isinstance(op.core_op, Dot | SolveBase):
        raise refuse(node, "rows enter a matrix operation as a whole")
    offsets = [v.type.ndim - len(s) for v, s in zip(node.inputs, core_in, strict=True)]
    inner = [a and a._replace(axis=a.axis - o) for a, o in zip(axes, offsets, strict=True)]
    (found,) = _contract(node, inner, core_in, core_out[0], op)
    assert found is not None
    return [found.at(found.axis + n_batch)]


@_through.register
def _solve(op: SolveBase, node: Apply, axes: Axes) -> Axes:
    if axes[0] is not None or node.inputs[1].type.ndim != 2:
        raise refuse(node, "rows enter a linear solve as a whole")
    return _contract(node, axes, [("m", "m"), ("m", "n")], ["m", "n"], op)


@_through.register
def _alloc(op: Alloc, node: Apply, axes: Axes) -> Axes:
    value, *lengths = axes
    source = node.inputs[0]
    rows = [RowAxis(i) for i, a in enumerate(lengths) if a]
    added = node.outputs[0].type.ndim - source.type.ndim
    if value is None and any(r.axis >= added and not source.type.broadcastable[r.axis - added] for r in rows):
        raise refuse_entries(node, source, rows[0].axis - added)
    if value is not None:
        rows.append(value.at(value.axis + added))
    return [single_axis(node, rows)]


@_through.register
def _arange(op: ARange, node: Apply, axes: Axes) -> Axes:
    start, stop, step = node.inputs
    if constant_of(start) != 0 or constant_of(step) != 1 or axes[0] or axes[2] or not is_number_of_rows(stop):
        raise refuse(node, "rows are numbered with an offset or a stride")
    return [RowAxis(0, "number")]


@_through.register
def _shape(op: Shape, node: Apply, axes: Axes) -> Axes:
    (axis,) = axes
    if axis and axis.shared:
        raise refuse(node, "the length of an axis that holds more than the rows is asked for")
    return [RowAxis(axis.axis, "shape") if axis and axis.per_row else None]


@_through.register
def _shape_i(op: Shape_i, node: Apply, axes: Axes) -> Axes:
    (axis,) = axes
    if axis and axis.shared and axis.axis == op.i:
        raise refuse(node, "the length of an axis that holds more than the rows is asked for")
    return [LENGTH if axis and axis.per_row and axis.axis == op.i else None]


@_through.register
def _specify_shape(op: SpecifyShape, node: Apply, axes: Axes) -> Axes:
    return [axes[0]]


@_through.register
def _make_vector(op: MakeVector, node: Apply, axes: Axes) -> Axes:
    where = [i for i, a in enumerate(axes) if a]
    if len(where) > 1 or any(a and a.kind != "length" for a in axes):
        raise refuse(node, "several entries depend on the number of rows")
    return [RowAxis(where[0], "shape")]


@_through.register
def _join(op: Join, node: Apply, axes: Axes) -> Axes:
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


@_through.register
def _reshape(op: Reshape, node: Apply, axes: Axes) -> Axes:
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
    """Return the length of an axis where the graph says it, if not of the variable then of what it is turned from."""
    if var.owner is None or not isinstance(var.owner.op, DimShuffle) or var.type.shape[axis] is not None:
        return var.type.shape[axis]
    return _static_length(var.owner.inputs[0], var.owner.op.new_order[axis])


def _known_length(node: Apply, axis: int) -> int | None:
    """Return the length of an axis of what is reshaped, where it does not depend on the number of rows."""
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


@_through.register(Subtensor)
@_through.register(AdvancedSubtensor)
def _index(op: Subtensor | AdvancedSubtensor, node: Apply, axes: Axes) -> Axes:
    return [axis_of_index(op, node, axes)]


@_through.register(IncSubtensor)
@_through.register(AdvancedIncSubtensor)
def _assign(op: IncSubtensor | AdvancedIncSubtensor, node: Apply, axes: Axes) -> Axes:
    return [axis_of_assignment(node, axes)]


@_through.register
def _searchsorted(op: SearchsortedOp, node: Apply, axes: Axes) -> Axes:
    if axes[0] or any(axes[2:]):
        raise refuse(node, "rows are ranked among all rows")
    (_, sought, *_) = axes
    if sought is None or not sought.per_row:
        raise refuse(node, "the number of rows is ranked")
    return [sought.at(sought.axis)]


@_through.register
def _inner_graph(op: OpFromGraph, node: Apply, axes: Axes) -> Axes:
    seeds = {inner: axis for inner, axis in zip(op.inner_inputs, axes, strict=True) if axis}
    return [_follow(out, seeds) for out in op.inner_outputs]


@_through.register
def _diagonal(op: ExtractDiag, node: Apply, axes: Axes) -> Axes:
    (axis,) = axes
    assert axis is not None
    if axis.axis in (op.axis1, op.axis2):
        raise refuse(node, "row i is read at column i, which ties it to the number of the row,")
    return [axis.at(axis.axis - sum(a < axis.axis for a in (op.axis1, op.axis2)))]


@_through.register
def _split(op: Split, node: Apply, axes: Axes) -> Axes:
    axis = axes[0]
    # PyTensor 2 passes the axis as the second input.
    along = getattr(op, "axis", None)
    along = constant_of(node.inputs[1]) if along is None else along
    if axis is None or any(axes[1:]) or along is None or along % node.inputs[0].type.ndim == axis.axis:
        raise refuse(node, "rows are split into parts")
    return [axis.at(axis.axis)] * len(node.outputs)
