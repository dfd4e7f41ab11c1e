"""Prove from the graph that row i of a log-likelihood reads only row i of the data.

The row axis is followed from the batches through every op.  An op whose effect on the axis is known maps it
to an axis of its outputs; an op that mixes rows, or that is unknown here, is refused by name.
The analysis is conservative: what passes is row-wise, what is refused may merely be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any, Literal, NamedTuple

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp, ViewOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import io_toposort, walk
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import (
    Alloc,
    ARange,
    Join,
    MakeVector,
    ScalarFromTensor,
    TensorFromScalar,
    get_scalar_constant_value,
)
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor
from pytensor.tensor.type_other import MakeSlice

from pymc_austerity.compat import SolveBase
from pymc_austerity.likelihood.rebuild import NotRowWiseError


class RowAxis(NamedTuple):
    """How a variable depends on the rows.

    ``axis`` is the axis along which entry i belongs to row i.  A variable of kind "length" is the number of
    rows itself, one of kind "shape" is a shape vector that holds it at position ``axis``, and one of kind
    "number" holds i itself in entry i, as the index of a row's own entry does.
    """

    axis: int
    kind: Literal["rows", "length", "shape", "number"] = "rows"

    @property
    def per_row(self) -> bool:
        """Whether there is one entry per row."""
        return self.kind in ("rows", "number")


Axes = Sequence[RowAxis | None]
LENGTH = RowAxis(0, "length")


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


def _refuse(node: Apply, what: str) -> NotRowWiseError:
    named = next((v.name for v in (*node.outputs, *node.inputs) if v.name), None)
    where = f" (near {named!r})" if named else ""
    return NotRowWiseError(f"{what} in op {node.op}{where}")


def _single(node: Apply, axes: Sequence[int]) -> RowAxis:
    if len(set(axes)) > 1:
        raise _refuse(node, "rows meet rows along different axes, so every row reads every other,")
    return RowAxis(axes[0])


@singledispatch
def _through(op: Op, node: Apply, axes: Axes) -> Axes:
    """Return the row axes of the outputs of `node`, given those of its inputs."""
    raise _refuse(node, "it is not known whether rows stay apart")


@_through.register(ViewOp)
@_through.register(DeepCopyOp)
@_through.register(ScalarFromTensor)
@_through.register(TensorFromScalar)
@_through.register(CheckAndRaise)
def _same(op: Op, node: Apply, axes: Axes) -> Axes:
    return [axes[0]]


@_through.register
def _elemwise(op: Elemwise, node: Apply, axes: Axes) -> Axes:
    row_axes = [a.axis for a in axes if a and a.per_row]
    if not row_axes:
        # Arithmetic on lengths happens where shapes are broadcast.
        return [next(a for a in axes if a)] * len(node.outputs)
    if any(a and not a.per_row for a in axes):
        raise _refuse(node, "the number of rows enters as a number, and a batch has fewer rows,")
    result = _single(node, row_axes)
    for var, axis in zip(node.inputs, axes, strict=True):
        if axis is None and var.type.ndim and not var.type.broadcastable[result.axis]:
            raise _refuse(node, f"a variable of shape {var.type.shape} that is not indexed by row meets the rows")
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
        return [axis if axis.kind == "length" else None]
    reduced = range(node.inputs[0].type.ndim) if op.axis is None else op.axis
    if axis.axis in reduced:
        raise _refuse(node, "all rows are reduced to one number (a statistic over rows)")
    return [RowAxis(axis.axis - sum(a < axis.axis for a in reduced))] * len(node.outputs)


@_through.register
def _argmax(op: Argmax, node: Apply, axes: Axes) -> Axes:
    return _reduce(op, node, axes)


@_through.register
def _cumulate(op: CumOp, node: Apply, axes: Axes) -> Axes:
    (axis,) = axes
    assert axis is not None
    if op.axis is None or op.axis == axis.axis:
        raise _refuse(node, "rows are accumulated one after the other")
    return [axis]


@_through.register(Softmax)
@_through.register(LogSoftmax)
def _softmax(op: Softmax | LogSoftmax, node: Apply, axes: Axes) -> Axes:
    axis = axes[0]
    assert axis is not None
    normalised = range(node.inputs[0].type.ndim) if op.axis is None else np.atleast_1d(op.axis)
    if axis.axis in [a % node.inputs[0].type.ndim for a in normalised]:
        raise _refuse(node, "rows are normalised against each other")
    return [axis]


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
    rows = [names[a.axis] for a, names in zip(axes, labels, strict=True) if a and a.kind == "rows"]
    everywhere = [name for names in labels for name in names]
    if len(rows) != 1 or everywhere.count(rows[0]) > 1 or rows[0] not in out:
        raise _refuse(node, "rows are summed over, or meet each other, in a matrix product,")
    present = [name for name in out if name in everywhere]
    return [RowAxis(present.index(rows[0]))]


@_through.register
def _blockwise(op: Blockwise, node: Apply, axes: Axes) -> Axes:
    core_in, core_out = op.inputs_sig, op.outputs_sig
    n_batch = node.outputs[0].type.ndim - len(core_out[0])
    batch, core = [], []
    for var, axis, sig in zip(node.inputs, axes, core_in, strict=True):
        if axis is None:
            continue
        if axis.axis < var.type.ndim - len(sig):
            batch.append(axis.axis + n_batch - (var.type.ndim - len(sig)))
        else:
            core.append(axis)
    if not core:
        result = _single(node, batch)
        for var, axis, sig in zip(node.inputs, axes, core_in, strict=True):
            position = result.axis - n_batch + (var.type.ndim - len(sig))
            if axis is None and position >= 0 and not var.type.broadcastable[position]:
                raise _refuse(node, "a variable that is not indexed by row meets the rows")
        return [result] * len(node.outputs)
    if batch or not isinstance(op.core_op, Dot | SolveBase):
        raise _refuse(node, "rows enter a matrix operation as a whole")
    offsets = [v.type.ndim - len(s) for v, s in zip(node.inputs, core_in, strict=True)]
    inner = [a and a._replace(axis=a.axis - o) for a, o in zip(axes, offsets, strict=True)]
    (found,) = _contract(node, inner, core_in, core_out[0], op)
    assert found is not None
    return [RowAxis(found.axis + n_batch)]


@_through.register
def _solve(op: SolveBase, node: Apply, axes: Axes) -> Axes:
    if axes[0] is not None or node.inputs[1].type.ndim != 2:
        raise _refuse(node, "rows enter a linear solve as a whole")
    return _contract(node, axes, [("m", "m"), ("m", "n")], ["m", "n"], op)


@_through.register
def _alloc(op: Alloc, node: Apply, axes: Axes) -> Axes:
    value, *lengths = axes
    rows = [i for i, a in enumerate(lengths) if a]
    if value is not None:
        rows.append(value.axis + node.outputs[0].type.ndim - node.inputs[0].type.ndim)
    return [_single(node, rows)]


@_through.register
def _arange(op: ARange, node: Apply, axes: Axes) -> Axes:
    start, _, step = node.inputs
    if _constant(start) != 0 or _constant(step) != 1 or axes[0] or axes[2]:
        raise _refuse(node, "rows are numbered with an offset or a stride")
    return [RowAxis(0, "number")]


@_through.register
def _shape(op: Shape, node: Apply, axes: Axes) -> Axes:
    (axis,) = axes
    return [RowAxis(axis.axis, "shape") if axis and axis.per_row else None]


@_through.register
def _shape_i(op: Shape_i, node: Apply, axes: Axes) -> Axes:
    (axis,) = axes
    return [LENGTH if axis and axis.per_row and axis.axis == op.i else None]


@_through.register
def _specify_shape(op: SpecifyShape, node: Apply, axes: Axes) -> Axes:
    return [axes[0]]


@_through.register
def _make_vector(op: MakeVector, node: Apply, axes: Axes) -> Axes:
    where = [i for i, a in enumerate(axes) if a]
    if len(where) > 1 or any(a and a.kind != "length" for a in axes):
        raise _refuse(node, "several entries depend on the number of rows")
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
    result = _single(node, [a.axis for a in axes if a])
    if along == result.axis:
        raise _refuse(node, "rows are put behind one another")
    if not all(axes):
        raise _refuse(node, "a variable that is not indexed by row is joined to the rows")
    return [result]


def _join_shapes(node: Apply, tensors: Sequence[Variable], axes: Axes) -> RowAxis:
    position = 0
    found: list[int] = []
    for var, axis in zip(tensors, axes, strict=True):
        if axis:
            found.append(position + axis.axis)
        length = var.type.shape[0]
        if length is None:
            raise _refuse(node, "a shape of unknown length")
        position += length
    return _single(node, found)._replace(kind="shape")


@_through.register
def _reshape(op: Reshape, node: Apply, axes: Axes) -> Axes:
    value, shape = axes
    if value is None:
        return [RowAxis(shape.axis)] if shape else [None]
    old = node.inputs[0].type.shape
    keeps_first = shape is not None and shape.axis == 0
    new_tail = node.outputs[0].type.shape[1:]
    if value.axis == 0 and shape is None and None not in (*old[1:], *new_tail):
        keeps_first = int(np.prod(old[1:])) == int(np.prod(new_tail))
    if value.axis != 0 or not keeps_first:
        raise _refuse(node, "a reshape does not keep the rows on the first axis")
    return [value]


@_through.register(Subtensor)
@_through.register(AdvancedSubtensor)
def _index(op: Subtensor | AdvancedSubtensor, node: Apply, axes: Axes) -> Axes:
    idx_list = getattr(op, "idx_list", None)
    indices = node.inputs[1:] if idx_list is None else indices_from_subtensor(node.inputs[1:], idx_list)
    indices = [_plain(i) for i in indices]
    of = dict(zip(node.inputs[1:], axes[1:], strict=True))
    source = axes[0]
    if source is not None and source.kind == "shape":
        return [_index_shape(indices[0], source, node.inputs[0].type.shape[0])]
    full = [*indices, *[slice(None)] * (node.inputs[0].type.ndim - len(indices))]
    own_row = source is not None and _picks_own_row(full[source.axis], of)
    if source is not None and not own_row and not _is_full_slice(full[source.axis]):
        raise _refuse(node, "rows are picked or shifted inside the model (a lag, or an index over rows)")
    arrays = [i for i, v in enumerate(full) if isinstance(v, Variable) and not isinstance(v, slice) and v.type.ndim]
    scalars = [i for i, v in enumerate(full) if not isinstance(v, slice) and i not in arrays]
    advanced = bool(arrays)
    index_ndim = max((full[i].type.ndim for i in arrays), default=0)
    row_in_index = [of[full[i]].axis + index_ndim - full[i].type.ndim for i in arrays if of.get(full[i])]
    consumed = sorted([*arrays, *scalars]) if advanced else scalars
    adjacent = not consumed or consumed[-1] - consumed[0] + 1 == len(consumed)
    start = consumed[0] if adjacent and consumed else 0
    if source is None or own_row:
        return [RowAxis(_single(node, row_in_index).axis + start)]
    if row_in_index:
        raise _refuse(node, "rows are indexed by another row-wise variable")
    kept = [i for i in range(len(full)) if i not in consumed]
    position = kept.index(source.axis)
    if advanced and (not adjacent or source.axis > consumed[0]):
        position += index_ndim
    return [RowAxis(position)]


def _picks_own_row(index: Any, axes: Mapping[Variable, RowAxis | None]) -> bool:
    axis = axes.get(index) if isinstance(index, Variable) else None
    return axis is not None and axis.kind == "number"


def _index_shape(index: Any, shape: RowAxis, length: int | None) -> RowAxis | None:
    """Follow the number of rows through an index or a slice of a shape vector."""
    positions = range(length or shape.axis + 1)
    if not isinstance(index, slice):
        found = _constant(index)
        return LENGTH if found is None or positions[found] == shape.axis else None
    bounds = [None if v is None else _constant(v) for v in (index.start, index.stop, index.step)]
    kept = positions[slice(*bounds)]
    return RowAxis(kept.index(shape.axis), "shape") if shape.axis in kept else None


def _constant(var: Any) -> int | None:
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
    return start is None and stop is None and (step is None or _constant(step) == 1)


@_through.register
def _inner_graph(op: OpFromGraph, node: Apply, axes: Axes) -> Axes:
    seeds = {inner: axis for inner, axis in zip(op.inner_inputs, axes, strict=True) if axis}
    return [prove_row_axis(out, seeds) for out in op.inner_outputs]
