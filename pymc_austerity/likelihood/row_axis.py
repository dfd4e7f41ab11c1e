"""Prove from the graph that row i of a log-likelihood reads only row i of the data.

The row axis is followed from the batches through every op, and an op that mixes rows or is unknown is refused by name:
what passes is row-wise, what is refused may merely be unknown.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from typing import Any, NamedTuple

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

from pymc_austerity.compat import SolveBase
from pymc_austerity.likelihood import axis_rules
from pymc_austerity.likelihood.axis import (
    ALONG_DIFFERENT_AXES,
    LENGTH,
    Axes,
    NotRowWiseError,
    RowAxis,
    refuse,
    refuse_entries,
)
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
            names = next((names for kind, names in _NAMES.items() if isinstance(node.op, kind)), None)
            found = _through(node.op, node, axes) if names is None else _by_names(node, axes, *names(node.op, node))
            known.update(zip(node.outputs, found, strict=True))
    return known.get(output)


def _value_inputs(var: Variable) -> list[Variable]:
    """Return what the value of `var` is computed from, leaving out conditions that only guard it."""
    if var.owner is None:
        return []
    if isinstance(var.owner.op, CheckAndRaise):
        return var.owner.inputs[:1]
    return list(var.owner.inputs)


class _Names(NamedTuple):
    """Names for the axes of the inputs of an op and of its output: rows stay apart where an axis keeps its name."""

    inputs: Sequence[Sequence[Any]]  # of the first inputs; no other may have rows
    output: Sequence[Any]
    lost: str  # what becomes of rows along an axis whose name is not among those of the output


@singledispatch
def _through(op: Op, node: Apply, axes: Axes) -> Axes:
    """Return the row axes of the outputs of `node`, given those of its inputs."""
    raise refuse(node, "it is not known whether rows stay apart")


def _by_names(
    node: Apply, axes: Axes, inputs: Sequence[Sequence[Any]], output: Sequence[Any], lost: str
) -> list[RowAxis | None]:
    """Follow the rows along the axis that has one name in all inputs and in the output."""
    if any(a and not a.per_row for a in axes):
        raise refuse(node, "the number of rows enters as a number, and a batch has fewer rows,")
    if any(a and a.kind == "number" for a in axes):
        raise refuse(node, "the numbers of the rows enter as numbers, and a batch numbers its own,")
    found = {(names[a.axis], a.at(0)) for a, names in zip(axes, inputs) if a}
    name, axis = next(iter(found), (None, LENGTH))
    if len(found) != 1 or name not in output or any(axes[len(inputs) :]):
        raise refuse(node, lost)
    for var, own, names in zip(node.inputs, axes, inputs):
        if own is None and name in names and not var.type.broadcastable[names.index(name)]:
            raise refuse_entries(node, var, names.index(name))
    return [axis.at(output.index(name))] * len(node.outputs)


for _rule in (
    axis_rules.axis_of_alloc, axis_rules.axis_of_arange, axis_rules.axis_of_shape, axis_rules.axis_of_make_vector,
    axis_rules.axis_of_join, axis_rules.axis_of_reshape, axis_rules.axis_of_index, axis_rules.axis_of_assignment,
    axis_rules.axis_of_alloc_empty,
):  # fmt: skip
    _through.register(_rule)


@_through.register
def _same(
    op: ViewOp | DeepCopyOp | ScalarFromTensor | TensorFromScalar | CheckAndRaise | SpecifyShape,
    node: Apply,
    axes: Axes,
) -> Axes:
    return [axes[0]]


@_through.register
def _elemwise(op: Elemwise, node: Apply, axes: Axes) -> Axes:
    of_rows = [a for a in axes if a and a.per_row]
    if not of_rows:  # arithmetic on lengths happens where shapes are broadcast
        return [next(a for a in axes if a)] * len(node.outputs)
    if of_rows[0].kind == "number" and isinstance(op.scalar_op, scalar.Cast | scalar.Identity):
        return [of_rows[0]]
    each = range(node.outputs[0].type.ndim)
    lost = f"{ALONG_DIFFERENT_AXES},"
    return _by_names(node, axes, [each] * len(axes), each, lost)


@_through.register
def _dimshuffle(op: DimShuffle, node: Apply, axes: Axes) -> Axes:
    (axis,) = axes
    assert axis is not None
    if axis.kind == "length":
        return [axis]
    if axis.kind == "shape" and not op.new_order:  # a shape of one length, which is that of the rows
        return [LENGTH]
    if axis.axis not in op.new_order:
        raise refuse(node, "the axis of the rows is dropped")
    return [axis._replace(axis=op.new_order.index(axis.axis))]


@_through.register
def _reduce(op: CAReduce, node: Apply, axes: Axes) -> Axes:
    if axes[0] is not None and not axes[0].per_row:
        return [LENGTH]  # a product of lengths is a number of rows too
    return _by_names(node, axes, *_reduced(op, node))


def _reduced(op: Any, node: Apply) -> _Names:
    each, along = _along(node, op.axis)
    lost = "all rows are reduced to one number (a statistic over rows)"
    return _Names([each], [name for name in each if name not in along], lost)


def _along(node: Apply, axis: Any) -> tuple[list[int], list[int]]:
    """Return the numbers of the axes of the first input, and of those along which an op goes: None stands for all."""
    each = list(range(node.inputs[0].type.ndim))
    return each, each if axis is None else [int(a) % len(each) for a in np.atleast_1d(axis)]


def _mixed_along(node: Apply, axis: Any, lost: str) -> _Names:
    """Return the names for an op whose output has the shape of its first input, and mixes its entries along an axis."""
    each, along = _along(node, axis)
    return _Names([each], ["mixed" if name in along else name for name in each], lost)


def _axis_of(op: Any, node: Apply) -> Any:
    """Return the axis of an op, which is an input of it in PyTensor 2."""
    return op.axis if hasattr(op, "axis") else constant_of(node.inputs[1])


def _diagonal(op: ExtractDiag, node: Apply) -> _Names:
    each, along = _along(node, (op.axis1, op.axis2))
    lost = "row i is read at column i, which ties it to the number of the row,"
    return _Names([each], [*(name for name in each if name not in along), "mixed"], lost)


def _searched(op: SearchsortedOp, node: Apply) -> _Names:
    each = range(node.inputs[1].type.ndim)
    return _Names([["mixed"], each], each, "rows are ranked among all rows")


def _product(inputs: Sequence[Sequence[Any]], output: Sequence[Any]) -> _Names:
    """Return the names of a product: only an axis of one operand keeps its rows apart."""
    everywhere = [name for names in inputs for name in names]
    kept = [name if everywhere.count(name) == 1 else "mixed" for name in output]
    return _Names(inputs, kept, "rows are summed over, or meet each other, in a matrix product,")


def _dot(op: Dot, node: Apply) -> _Names:
    x, y = ("m", "k")[-node.inputs[0].type.ndim :], ("k", "n")[: node.inputs[1].type.ndim]
    return _product([x, y], [name for name in ("m", "n") if name in (*x, *y)])


def _blockwise(op: Blockwise, node: Apply) -> _Names:
    core_in, (core_out, *_) = op.inputs_sig, op.outputs_sig
    batch = range(node.outputs[0].type.ndim - len(core_out))
    core = _Names([["whole"] * len(names) for names in core_in], core_out, "rows enter a matrix operation as a whole")
    if isinstance(op.core_op, Dot | SolveBase):
        core = _product(core_in, core_out)
    own = [batch[len(batch) + len(names) - v.type.ndim :] for v, names in zip(node.inputs, core_in, strict=True)]
    inputs = [[*first, *names] for first, names in zip(own, core.inputs, strict=True)]
    return _Names(inputs, [*batch, *core.output], core.lost)


#: The names of the axes of each op, given the node.
_NAMES: dict[type, Callable[[Any, Apply], _Names]] = {
    Argmax: _reduced,
    CumOp: lambda op, node: _mixed_along(node, op.axis, "rows are accumulated one after the other"),
    Softmax: lambda op, node: _mixed_along(node, op.axis, "rows are normalised against each other"),
    LogSoftmax: lambda op, node: _mixed_along(node, op.axis, "rows are normalised against each other"),
    SortOp: lambda op, node: _mixed_along(node, _axis_of(op, node), "rows are sorted among all rows"),
    ArgSortOp: lambda op, node: _mixed_along(node, _axis_of(op, node), "rows are sorted among all rows"),
    Split: lambda op, node: _mixed_along(node, _axis_of(op, node), "rows are split into parts"),
    ExtractDiag: _diagonal,
    SearchsortedOp: _searched,
    Dot: _dot,
    SolveBase: lambda op, node: _product([("m", "m"), ("m", "n")[: node.inputs[1].type.ndim]], ("m", "n")),
    Blockwise: _blockwise,
}


@_through.register
def _inner_graph(op: OpFromGraph, node: Apply, axes: Axes) -> Axes:
    seeds = {inner: axis for inner, axis in zip(op.inner_inputs, axes, strict=True) if axis}
    return [_follow(out, seeds) for out in op.inner_outputs]
