"""Graphs of single precision made again in double precision, for every ``floatX`` and every type of data.

A decision rests on small differences of sums over many rows, which vanish in the rounding of single precision.  Data
stay as they are, and a batch is converted when it is read.
"""

from collections.abc import Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor import scalar
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.type import TensorType

_LOW = ("float16", "float32")


def in_double(outputs: Sequence[Variable]) -> list[Variable]:
    """Return graphs that compute in double precision what the given ones compute in single precision.

    Conversions to single precision are left out.  An op that cannot be made again stays, between conversions.
    """
    memo: dict[Variable, Variable] = {}
    for node in toposort(outputs):
        memo.update({i: _leaf(i) for i in node.inputs if i.owner is None and i not in memo})
        inputs = [memo[i] for i in node.inputs]
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)) or any(map(_is_low, node.outputs)):
            made = _make_again(node, inputs)
        else:
            made = node.outputs
        memo.update(zip(node.outputs, made, strict=True))
    return [memo[o] if o in memo else _leaf(o) for o in outputs]


def left_in_single(output: Variable) -> str | None:
    """Return the first op of a graph of `in_double` that still computes in single precision, or None."""
    nodes = [node for node in toposort([output]) if any(map(_is_low, node.outputs))]
    return None if not nodes else str(getattr(nodes[0].op, "scalar_op", nodes[0].op))


def _is_low(var: Variable) -> bool:
    return isinstance(var.type, TensorType) and var.type.dtype in _LOW


def _leaf(var: Variable) -> Variable:
    if not _is_low(var):
        return var
    if isinstance(var, Constant):
        double: Any = var.type.clone(dtype="float64")  # dense or sparse
        return double.make_constant(var.data.astype("float64"), name=var.name)
    return pt.cast(var, "float64")


def _make_again(node: Apply, inputs: Sequence[Variable]) -> list[Variable]:
    op: Any = node.op
    if isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar.Cast) and _is_low(node.outputs[0]):
        return [pt.cast(inputs[0], "float64")]
    if isinstance(op, CAReduce):
        op = op.clone(dtype=None, acc_dtype=None)  # which were settled by the type of its first input
    try:
        made = op.make_node(*inputs).outputs
    except Exception:  # an op of a fixed type
        made = []
    due = ["float64" if _is_low(o) else getattr(o.type, "dtype", None) for o in node.outputs]
    if [getattr(o.type, "dtype", None) for o in made] == due:
        return list(made)
    lowered = [
        new if new is old or not _is_low(old) else pt.cast(new, old.type.dtype)
        for new, old in zip(inputs, node.inputs, strict=True)
    ]
    kept = node.clone_with_new_inputs(lowered, strict=False).outputs
    return [pt.cast(o, "float64") if _is_low(o) else o for o in kept]
