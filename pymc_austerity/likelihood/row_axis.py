"""Prove from the graph that row i of a log-likelihood reads only row i of the data.

The row axis is followed from the batches through every op, and an op that mixes rows or is unknown is refused by name:
what passes is row-wise, what is refused may merely be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

import numpy as np
from pytensor import scalar
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp, ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import io_toposort, walk
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import ExtractDiag, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, SearchsortedOp
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor

from pymc_austerity.compat import SolveBase
from pymc_austerity.likelihood import axis_of_shape
from pymc_austerity.likelihood.axis import (
    LENGTH,
    Axes,
    NotRowWiseError,
    RowAxis,
    refuse,
    refuse_entries,
    single_axis,
)
from pymc_austerity.likelihood.axis_of_index import axis_of_assignment, axis_of_index
from pymc_austerity.likelihood.model_graph import constant_of


def prove_row_axis(output: Variable, seeds: Mapping[Variable, RowAxis]) -> RowAxis | None:
    """Follow the row axis from `seeds` to `output`; None where that does not depend on rows at all.

    Raises NotRowWiseError at the first op that mixes rows or is unknown.
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


for _rule in (
    axis_of_shape.axis_of_alloc, axis_of_shape.axis_of_arange, axis_of_shape.axis_of_shape,
    axis_of_shape.axis_of_shape_i, axis_of_shape.axis_of_make_vector, axis_of_shape.axis_of_join,
    axis_of_shape.axis_of_reshape,
):  # fmt: skip
    _through.register(_rule)


def _the_axis(axes: Axes) -> RowAxis:
    """Return the row axis of the first input, of an op of which no other has one."""
    axis = axes[0]
    assert axis is not None
    return axis


@_through.register(ViewOp)
@_through.register(DeepCopyOp)
@_through.register(ScalarFromTensor)
@_through.register(TensorFromScalar)
@_through.register(CheckAndRaise)
@_through.register(SpecifyShape)
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
    axis = _the_axis(axes)
    if axis.kind == "length":
        return [axis]
    if axis.kind == "shape" and not op.new_order:  # a shape of one length, which is that of the rows
        return [LENGTH]
    if axis.axis not in op.new_order:
        raise refuse(node, "the axis of the rows is dropped")
    return [axis._replace(axis=op.new_order.index(axis.axis))]


@_through.register
def _reduce(op: CAReduce, node: Apply, axes: Axes) -> Axes:
    axis = _the_axis(axes)
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
    axis = _the_axis(axes)
    if op.axis is None or op.axis == axis.axis:
        raise refuse(node, "rows are accumulated one after the other")
    return [axis.at(axis.axis)]


@_through.register(SortOp)
@_through.register(ArgSortOp)
def _sorted(op: SortOp | ArgSortOp, node: Apply, axes: Axes) -> Axes:
    axis = _the_axis(axes)
    along = op.axis if hasattr(op, "axis") else constant_of(node.inputs[1])  # an input of PyTensor 2
    if along is None or along % node.inputs[0].type.ndim == axis.axis:
        raise refuse(node, "rows are sorted among all rows")
    return [axis.at(axis.axis)]


@_through.register(Softmax)
@_through.register(LogSoftmax)
def _softmax(op: Softmax | LogSoftmax, node: Apply, axes: Axes) -> Axes:
    axis = _the_axis(axes)
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
    axis = _the_axis(axes)
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
