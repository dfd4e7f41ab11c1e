"""What is read off the graph of a model: arrays, draws, the axis of the rows, and indices."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, walk
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import get_scalar_constant_value
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, indices_from_subtensor
from pytensor.tensor.type import DenseTensorType, TensorType
from pytensor.tensor.type_other import MakeSlice

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.rows import require_whole

#: Ops that set or raise part of their first input by their second.
ASSIGNS = (IncSubtensor, AdvancedIncSubtensor)
#: An axis that is longer than the first by this factor has the rows.
_MUCH_LONGER = 10


def variables_in(graphs: Sequence[Variable], stop: Iterable[Variable] = ()) -> list[Variable]:
    """Return all variables of some graphs, depth first, without what the variables `stop` are computed from."""
    blocked = set(stop)

    def inputs(var: Variable) -> list[Variable]:
        return [] if var in blocked or var.owner is None else list(var.owner.inputs)

    return list(walk(graphs, inputs, bfs=False))


def values_read(variable: Variable) -> list[Variable]:
    """Return the inputs whose values a variable depends on: not what is checked, nor what has a shape asked for."""
    node = variable.owner
    if node is None or isinstance(node.op, Shape | Shape_i):
        return []
    return node.inputs[:1] if isinstance(node.op, CheckAndRaise) else node.inputs


def array_of(leaf: Variable) -> np.ndarray:
    """Return the array behind a constant or a shared variable, without a copy; refuse a file that became shorter."""
    array = leaf.get_value(borrow=True) if isinstance(leaf, SharedVariable) else _data_of(leaf)
    require_whole((array,))
    return array


def _data_of(constant: Constant) -> Any:
    """Return what a constant holds; of an np.matrix, which has two axes in whatever is taken of it, the array."""
    return np.asarray(constant.data) if isinstance(constant.data, np.matrix) else constant.data


def is_array_leaf(var: Variable) -> bool:
    """Return whether a variable is a constant or shared dense array."""
    return isinstance(var, Constant | SharedVariable) and isinstance(var.type, DenseTensorType)


def value_of_constants(var: Variable) -> Any:
    """Return what a constant holds, or the value of what is computed from constants alone, and None of others."""
    if isinstance(var, Constant):
        return _data_of(var)
    roots = [v for v in ancestors([var]) if v.owner is None]
    return var.eval(mode=BY_NUMPY) if all(isinstance(v, Constant) for v in roots) else None


def is_elementwise(var: Variable, *kinds: type) -> bool:
    """Return whether a variable is computed entry by entry by a scalar operation of one of these kinds."""
    op = None if var.owner is None else var.owner.op
    return isinstance(op, Elemwise) and isinstance(op.scalar_op, kinds)


def is_product(node: Apply | None) -> bool:
    """Whether a node multiplies matrices or vectors, ``pt.dot(a, b)`` or ``a @ b``."""
    return node is not None and isinstance(getattr(node.op, "core_op", node.op), Dot)


def name_of_data(var: Variable, array: np.ndarray, variables: Iterable[Variable]) -> str:
    """Return the name of data among the `variables` of a graph; without one, what they index or multiply there."""
    if var.name:
        return repr(var.name)
    kind = {"i": "whole numbers", "u": "whole numbers", "b": "True or False"}.get(array.dtype.kind, "numbers")
    wide = f" ({' x '.join(map(str, array.shape))})" if array.ndim > 1 else ""
    for node in (v.owner for v in variables if v.owner is not None and var in v.owner.inputs):
        other = _named_input(node, var)
        if other is not None and isinstance(node.op, AdvancedSubtensor) and var in index_inputs(node):
            return f"the index of {other!r}"
        if other is not None and (node.op == pt.mul or is_product(node)):
            return f"{kind}{wide} times {other!r}"
    return f"{kind}{wide} without a name"


def _named_input(node: Apply, data: Variable) -> str | None:
    """Return the name of the one input beside `data`, or of what it is with its axes arranged anew."""
    others = [v for v in node.inputs if v is not data]
    if len(others) != 1:
        return None
    (var,) = others
    while var.name is None and var.owner is not None and isinstance(var.owner.op, DimShuffle):
        (var,) = var.owner.inputs
    return None if isinstance(var, Constant) else var.name


def leaf_identity(leaf: Variable) -> Hashable:
    """Return what is equal for leaves that hold the same data: a shared variable itself, of a constant its memory."""
    if isinstance(leaf, SharedVariable):
        return leaf
    array = np.asarray(array_of(leaf))
    memory = array.__array_interface__
    # The type too: a view of floats as integers lies in the same memory.
    return memory["data"], memory["strides"], array.shape, array.dtype.str


def row_axis_in(shape: Sequence[int | None], n_rows: int) -> int | None:
    """Return the axis of an array that has its rows: the first if that is as long, else the last that is."""
    axes = [axis for axis, length in enumerate(shape) if length == n_rows]
    return None if not axes else 0 if axes[0] == 0 else axes[-1]


def longest_first(shape: Sequence[int]) -> int:
    """Return the length of the first axis, unless it is short beside another."""
    return max(shape) if max(shape) > _MUCH_LONGER * shape[0] else shape[0]


def sum_within_rows(term: Variable, axis: int) -> Variable:
    """Return the sum of a term over all axes but that of the rows."""
    others = tuple(a for a in range(term.type.ndim) if a != axis)
    return term.sum(axis=others) if others else term


def plain_draw(rv: Variable) -> Variable:
    """Return a random variable without what was said about its shape, or about the number of rows it stands for."""
    while isinstance(rv.owner.op, SpecifyShape | MinibatchRandomVariable):
        rv = rv.owner.inputs[0]
    return rv


def plain_indices(node: Apply) -> list[Any]:
    """Return what a variable is indexed by, an entry for each axis: variables, whole numbers, slices of either."""
    idx_list = getattr(node.op, "idx_list", None)
    inputs = index_inputs(node)
    return [_plain(i) for i in (inputs if idx_list is None else indices_from_subtensor(inputs, idx_list))]


def index_inputs(node: Apply) -> list[Variable]:
    """Return the inputs that indices are made of."""
    return node.inputs[2 if isinstance(node.op, ASSIGNS) else 1 :]


def constant_of(var: Any) -> int | None:
    """Return the number that an index stands for, where it is known from the graph."""
    if isinstance(var, int | np.integer):
        return int(var)
    try:
        return int(get_scalar_constant_value(var))
    except (NotScalarConstantError, TypeError, ValueError):
        return None


def bounds_of(index: slice) -> tuple[Any, Any, Any]:
    """Return start, stop and step of a slice, with None where the graph says so in a constant."""
    bounds = index.start, index.stop, index.step
    start, stop, step = (None if isinstance(b, Constant) and b.data is None else b for b in bounds)
    return start, stop, step


def constant_index(index: Any) -> Any:
    """Return the rows that an index names as NumPy takes them, or None where that depends on anything."""
    if isinstance(index, slice):
        bounds = [b if b is None else constant_of(b) for b in bounds_of(index)]
        unknown = any(b is None and given is not None for b, given in zip(bounds, bounds_of(index), strict=True))
        return None if unknown else slice(*bounds)
    if isinstance(index, Constant) and isinstance(index.type, TensorType) and index.type.ndim == 1:
        return np.asarray(index.data) if np.dtype(index.type.dtype).kind in "iu" else None
    return None


def entries_taken(node: Apply, n: int) -> np.ndarray | None:
    """Return which entries of a vector of n an index takes, or None where the graph does not say."""
    (index,) = plain_indices(node)
    known = constant_index(index) if isinstance(index, slice) else constant_of(index)
    return None if known is None else np.atleast_1d(np.arange(n)[known])


def _plain(index: Any) -> Any:
    """Return an index with slices as Python slices: PyTensor 2 also has constants and nodes that make them."""
    if isinstance(index, Constant) and isinstance(index.data, slice):
        return index.data
    if isinstance(index, Variable) and index.owner is not None and isinstance(index.owner.op, MakeSlice):
        return slice(*index.owner.inputs)
    return index
