"""A model in which rows read entries of parameters by their numbers, where the user repeats and flattens them.

``pt.repeat(u, 3)``, ``pt.tile(u, 3)`` and ``pt.broadcast_to(u[:, None], (20, 3)).ravel()`` are written ``u[g]``, and
``(u[:, None] + v).ravel()`` is written ``u[g] + v[h]``, as are ``(u[:, None] + v)[g, h]`` and the entries at a mask.
``pt.concatenate([[0.0], u])[g]``, with an effect that is known, is written ``marks * u[h]``.
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
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor

from pymc_austerity.likelihood.derived_model import with_replaced
from pymc_austerity.likelihood.model_graph import is_product, plain_indices, value_of_constants

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
    """Whether a node takes entries of a table, each computed from its row and column, or of a vector of known ones."""
    if not isinstance(node.op, AdvancedSubtensor) or node.outputs[0].type.ndim != 1:
        return False
    whole = node.inputs[0]
    return _spread(whole) if whole.type.ndim > 1 else _is_beside_constants(whole)


def _is_beside_constants(whole: Variable) -> bool:
    """Whether a vector is computed entry by entry from one that is made of another and of constants."""
    if whole.owner is not None and isinstance(whole.owner.op, Elemwise):
        return any(map(_is_beside_constants, whole.owner.inputs))
    return _beside_constants(whole) is not None


def _beside_constants(whole: Variable) -> Variable | None:
    """Return the vector that a longer one is made of beside constants, as ``concatenate([[0.0], u])``, or None."""
    op = None if whole.owner is None or whole.type.ndim != 1 else whole.owner.op
    if isinstance(op, IncSubtensor) and op.set_instead_of_inc and value_of_constants(whole.owner.inputs[0]) is not None:
        return whole.owner.inputs[1]
    if not isinstance(op, Join):
        return None
    parts = [part for part in whole.owner.inputs if part.type.ndim and value_of_constants(part) is None]
    return parts[0] if len(parts) == 1 else None


def _entries_beside_constants(node: Apply, free: Shapes) -> Variable | None:
    """Return the entries that a node takes of a vector that is made of constants, too; None of other nodes."""
    (index,) = plain_indices(node) if node.inputs[0].type.ndim == 1 else [None]
    numbers = value_of_constants(index) if isinstance(index, Variable) else None
    return None if numbers is None else _taken(node.inputs[0], numbers, free)


def _taken(whole: Variable, numbers: np.ndarray, free: Shapes) -> Variable | None:
    """Return entries of a vector, as ``c + marks * u[g]`` of what is made of constants and a vector u; or None."""
    if (known := value_of_constants(whole)) is not None:
        return pt.constant(known if known.shape == (1,) else known[numbers])
    if whole.type.broadcastable[0]:
        return whole
    if whole.owner is not None and isinstance(whole.owner.op, Elemwise):
        parts = [_taken(part, numbers, free) for part in whole.owner.inputs]
        return None if any(part is None for part in parts) else whole.owner.op(*parts)
    if (source := _beside_constants(whole)) is None:
        return whole[pt.constant(numbers)]
    if (length := _shape(source, free)) is None:
        return None
    beside, marked = (
        value_of_constants(graph_replace([whole], {source: pt.constant(of, dtype=source.type.dtype)}, strict=False)[0])
        for of in (np.zeros(length), np.arange(1.0, length[0] + 1))
    )
    if beside is None or marked is None:
        return None
    place = np.rint(marked - beside).astype(np.int64)[numbers]  # from 1 on, 0 of constants
    return beside[numbers] + (place > 0) * source[pt.constant(np.maximum(place - 1, 0))]


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
        if not (looked_for(node) and out.type.ndim) or free.keys().isdisjoint(ancestors([out])):
            continue
        read = _entries_beside_constants(node, free) if _takes_entries(node) else None
        read = _by_numbers(out, free) if read is None else read
        if read is not None and read.type.ndim:
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
