"""A model in which rows read entries of parameters by their numbers, where the user repeats and flattens them.

``pt.repeat(u, 3)``, ``pt.tile(u, 3)`` and ``pt.broadcast_to(u[:, None], (20, 3)).ravel()`` are written ``u[g]``, and
``(u[:, None] + v).ravel()`` is written ``u[g] + v[h]``, as are ``(u[:, None] + v)[g, h]`` and the entries at a mask.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pymc.model.fgraph import ModelDeterministic
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import Repeat
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.likelihood.derived_model import with_replaced
from pymc_austerity.likelihood.model_graph import is_product, value_of_constants

#: What puts the entries of its first input in other places, some of them more than once.
_MOVES = (AdvancedSubtensor, Alloc, DimShuffle, Repeat, Reshape, SpecifyShape, ViewOp)

Shapes = Mapping[Variable, tuple[int, ...]]


def shapes_of_free(model: Model) -> dict[Variable, tuple[int, ...]]:
    """Return the shapes of the free variables, which PyTensor leaves open where these have dims."""
    if all(None not in rv.type.shape for rv in model.free_RVs):
        return {rv: rv.type.shape for rv in model.free_RVs}
    shapes = model.eval_rv_shapes()
    return {rv: tuple(map(int, shapes[rv.name])) for rv in model.free_RVs}


def _repeats(node: Apply) -> bool:
    """Whether a node makes an array with more axes or entries than another, or fewer axes."""
    return isinstance(node.op, Alloc | Join | Repeat | Reshape)


def _takes_entries(node: Apply) -> bool:
    """Whether a node takes entries of a table, each computed from what belongs to its row and to its column."""
    if not isinstance(node.op, AdvancedSubtensor):
        return False
    return node.outputs[0].type.ndim == 1 < node.inputs[0].type.ndim and _spread(node.inputs[0])


def _spread(table: Variable) -> bool:
    """Whether a table is computed entry by entry from rows, columns and constants, or from rows that are taken."""
    if any(table.type.broadcastable) or value_of_constants(table) is not None:
        return True
    op = None if table.owner is None else table.owner.op
    return isinstance(op, AdvancedSubtensor) or (isinstance(op, Elemwise) and all(map(_spread, table.owner.inputs)))


def numbers_for_repeats(
    terms: Sequence[Variable], free: Shapes, looked_for: Callable[[Apply], bool] = _repeats
) -> dict[Variable, Variable]:
    """Return ``u[g]`` for each array of some terms in which entries of u, computed from free variables, are repeated.

    Arrays come before those that are computed from them.
    """
    written = dict[Variable, Variable]()
    for node in toposort(terms):
        (*_, out) = node.outputs
        moves = looked_for(node) and out.type.ndim and not free.keys().isdisjoint(ancestors([out]))
        if moves and (read := _by_numbers(out, free)) is not None and read.type.ndim:
            written[out] = read
    return written


def with_numbers_for_repeats(model: Model, looked_for: Callable[[Apply], bool] = _repeats) -> Model:
    """Return a model with ``u[g]`` for the arrays in which entries of u stand more than once."""
    terms = [*model.basic_RVs, *model.potentials]
    if not any(map(looked_for, toposort(terms))):  # before shapes are computed, which compiles where they are dims
        return model
    return with_replaced(model, numbers_for_repeats(terms, shapes_of_free(model), looked_for))


def with_entries_taken(model: Model) -> Model:
    """Return a model with ``u[g] + v[h]`` for the entries that are taken of a table."""
    return with_numbers_for_repeats(model, _takes_entries)


def entries_of(var: Variable, free: Shapes, shape: tuple[int, ...]) -> Variable | None:
    """Return the entries of an array that is broadcast to a shape, in C order, by numbers; None where that fails.

    Axes of the array behind those of the shape are kept.
    """
    if (own := _shape(var, free)) is None:
        return None
    rest = own[len(shape) :]
    numbers = np.broadcast_to(np.arange(int(np.prod(own))).reshape(own), shape + rest)
    return _by_numbers(var, free, numbers.reshape(-1, *rest))


def _by_numbers(var: Variable, free: Shapes, numbers: np.ndarray | None = None) -> Variable | None:
    """Return an array, or entries of it in C order, read from smaller ones by their numbers; None where that fails."""
    if numbers is not None and (known := value_of_constants(var)) is not None:
        return pt.constant(np.ravel(known)[numbers])
    source = _moved(var)
    shape = None if source is None else _shape(source, free)
    if source is None or shape is None or not all(shape):
        return None
    places = np.arange(int(np.prod(shape))).reshape(shape)
    marked = pt.constant(places, dtype=source.type.dtype)
    moved = value_of_constants(graph_replace([var], {source: marked}, strict=False)[0])
    if moved is None or not np.array_equal(marked.data, places):  # in a type that does not hold them
        return None
    taken = (moved if numbers is None else np.ravel(moved)[numbers]).astype(np.int64)
    if places.size == 1:
        return source.squeeze()
    is_computed = source.owner is not None and isinstance(source.owner.op, Elemwise)
    n_taken = taken.size if numbers is None else len(taken)
    if n_taken >= 2 * places.size and not (numbers is not None and is_computed and len(shape) > 1):
        flat, width = taken.reshape(len(taken), -1), places[0].size
        if numbers is not None and taken.ndim > 1 and np.array_equal(flat, np.broadcast_to(flat[:, :1], flat.shape)):
            return source.ravel()[pt.constant(flat[:, 0])][(slice(None), *[None] * (taken.ndim - 1))]
        first = flat[:, 0] // width
        whole = taken.shape[1:] == places.shape[1:] and np.array_equal(places[first], taken)
        if whole:
            return source[pt.constant(first)]
        if len(shape) == 2 and taken.ndim == 1:
            return source[pt.constant(first), pt.constant(taken % width)]
        return source.ravel()[pt.constant(taken)]
    if numbers is not None and is_product(source.owner) and len(shape) == 2:
        return _of_product(*source.owner.inputs, *divmod(taken, shape[1]))
    if not is_computed:
        return None
    parts = []
    for part in source.owner.inputs:
        if (part_shape := _shape(part, free)) is None:
            return None
        own = np.arange(int(np.prod(part_shape))).reshape(part_shape)
        parts.append(_by_numbers(part, free, np.broadcast_to(own, places.shape).ravel()[taken]))
    return None if any(part is None for part in parts) else source.owner.op(*parts)


def _of_product(left: Variable, right: Variable, row: np.ndarray, column: np.ndarray) -> Variable | None:
    """Return entries of a product of two matrices of which one is constant."""
    known, known_right = value_of_constants(left), value_of_constants(right)
    if (known is None and known_right is None) or {left.type.ndim, right.type.ndim} != {2}:
        return None
    of_left = left[pt.constant(row)] if known is None else known[row]
    of_right = right.T[pt.constant(column)] if known_right is None else known_right.T[column]
    return (of_left * of_right).sum(axis=-1)


def _shape(var: Variable, free: Shapes) -> tuple[int, ...] | None:
    """Return the shape of an array computed entry by entry from those whose shapes are known, or None."""
    if None not in var.type.shape:
        return var.type.shape
    if var in free:
        return free[var]
    if var.owner is None or not isinstance(var.owner.op, Elemwise | DimShuffle | ViewOp | ModelDeterministic):
        return None
    inputs = var.owner.inputs[:1] if isinstance(var.owner.op, ModelDeterministic) else var.owner.inputs
    shapes = [shape for v in inputs if (shape := _shape(v, free)) is not None]
    if len(shapes) < len(inputs):
        return None
    if isinstance(var.owner.op, DimShuffle):
        return tuple(1 if k == "x" else shapes[0][k] for k in var.owner.op.new_order)
    return np.broadcast_shapes(*shapes)


def _moved(var: Variable) -> Variable | None:
    """Return the one variable that has the entries of another, or None where these come from several."""
    while var.owner is not None and isinstance(var.owner.op, _MOVES):
        var = var.owner.inputs[0]
    if var.owner is None or not isinstance(var.owner.op, Join):
        return var
    sources = {_moved(part) for part in var.owner.inputs if part.type.ndim}  # PyTensor 2 has the axis there
    return sources.pop() if len(sources) == 1 else None
