"""Graphs of fewer and simpler operations, which compile sooner and compute the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

from pytensor.compile import optdb
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.link.numba.dispatch import basic as numba_basic
from pytensor.link.utils import compile_function_src
from pytensor.raise_op import Assert
from pytensor.tensor.basic import Split, tensor_copy
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.type_other import NoneTypeT

#: How PyTensor begins what it says of lengths that do not fit.
_LENGTHS_DIFFER = "Could not broadcast dimensions"


@node_rewriter([Assert])
def trust_lengths(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Leave out what checks that arrays of a batch have the same number of rows: they do.

    Derivatives ask for the shape of all that they are taken of, and of each of these checks comes a dozen operations.
    """
    return [node.inputs[0]] if node.op.msg.startswith(_LENGTHS_DIFFER) else None


class KnownShape(SpecifyShape):
    """The check that an array has the shape that is known of it.

    PyTensor's own says in compiled code what the lengths are, and numba takes three seconds to compile how numbers are
    written.
    """


@node_rewriter([SpecifyShape])
def say_less_of_shapes(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Let a check of lengths that fails say no more than that."""
    return None if isinstance(node.op, KnownShape) else list(KnownShape().make_node(*node.inputs).outputs)


@numba_basic.register_funcify_default_op_cache_key(KnownShape)
def _compile_known_shape(op: KnownShape, node: Apply, **options: Any) -> tuple[Callable[..., Any], int]:
    names = [f"length_{axis}" for axis in range(len(node.inputs) - 1)]
    known = [axis for axis, length in enumerate(node.inputs[1:]) if not isinstance(length.type, NoneTypeT)]
    checks = [f"    assert x.shape[{axis}] == {names[axis]}.item(), 'an axis has another length'" for axis in known]
    source = "\n".join([f"def known_shape({', '.join(['x', *names])}):", *checks, "    return x"])
    return numba_basic.numba_njit(compile_function_src(source, "known_shape")), 1


@node_rewriter([Split])
def slice_parts(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Take parts of known lengths as slices: compiled, what splits an array is mostly words for what may go wrong."""
    x, *given, lengths = node.inputs  # the axis is an input in PyTensor 2
    if not all(isinstance(v, Constant) for v in (*given, lengths)):
        return None
    axis = given[0].data if given else node.op.axis
    before = (slice(None),) * (int(axis) % x.type.ndim)
    return [x[(*before, slice(*ends))] for ends in pairwise(accumulate(map(int, lengths.data), initial=0))]


@node_rewriter([DimShuffle])
def join_views(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Let one change of axes do for two."""
    (x,) = node.inputs
    if x.owner is None or not isinstance(x.owner.op, DimShuffle):
        return None
    (first,) = x.owner.inputs
    order = ["x" if axis == "x" else x.owner.op.new_order[axis] for axis in node.op.new_order]
    lengths = first.type.shape
    same = len(order) == len(lengths) and all(
        axis in (i, "x") and (axis == i or lengths[i] == 1) for i, axis in enumerate(order)
    )
    return [first if same else first.dimshuffle(order)]


@node_rewriter([CAReduce])
def reduce_elementwise(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Reduce a copy along some axes: of both PyTensor makes one loop, and of any array one for all orders of axes."""
    (x,) = node.inputs
    along = node.op.axis
    if along is None or len(along) == x.type.ndim or (x.owner is not None and isinstance(x.owner.op, Elemwise)):
        return None
    return [node.op(tensor_copy(x))]


@node_rewriter([Elemwise])
def own_outputs(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Write no output in place of a view: it would be one, with gaps, and callers expect arrays without."""
    written = (node.inputs[i].owner for i in node.op.inplace_pattern.values())
    if not any(o is not None and o.op.view_map for o in written) or not set(node.outputs) & set(fgraph.outputs):
        return None
    return list(type(node.op)(node.op.scalar_op).make_node(*node.inputs).outputs)


def register_plain_graphs(name: str) -> None:
    """Register the rewrites for modes that include `name`."""
    # Operations are put together at 49, and made to work in place at 50.5.
    places = {
        trust_lengths: 48.9, say_less_of_shapes: 48.9, slice_parts: 48.9, join_views: 49.05, reduce_elementwise: 49.06,
        own_outputs: 50.6,
    }  # fmt: skip
    for rewrite, position in places.items():
        optdb.register(rewrite.__name__, dfs_rewriter(rewrite), name, position=position)
