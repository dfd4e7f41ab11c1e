"""Entries of an array, read by their numbers from the variables that the array is computed from.

``pt.repeat(u, 3)``, ``pt.tile(u, 3)`` and ``pt.broadcast_to(u[:, None], (20, 3)).ravel()`` are read as ``u[g]``,
entries of ``u[:, None] + v`` as ``u[g] + v[h]``, those of ``concatenate([[0.0], u])`` as ``marks * u[h]``.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.timeseries import AutoRegressiveRV, RandomWalkRV
from pymc.model.fgraph import ModelDeterministic
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor

from pymc_austerity.likelihood.model_graph import is_product, plain_indices, value_of_constants

#: So many arrays behind one another are read; each row computes a term of each.
_MOST_JOINED = 8
#: Numbers in the columns of all rows, up to which rows read coefficients of groups by columns of their own: with more
#: a draw takes longer than its moves of the coefficients are worth (50,000 rows of 30 columns: 60 ms).
_MOST_NUMBERS = 2_000_000

Shapes = Mapping[Variable, tuple[int, ...]]
#: How an array of known values is written into a graph.
Constant = Callable[[np.ndarray], Variable]

#: What puts the entries of its first input in other places, some of them more than once.
_MOVES = (AdvancedSubtensor, Alloc, DimShuffle, Repeat, Reshape, SpecifyShape, ViewOp)


def entries_in_shape(var: Variable, free: Shapes, shape: tuple[int, ...]) -> Variable | None:
    """Return the entries of an array that is broadcast to a shape, in C order, where these repeat or are of a walk.

    Parameters
    ----------
    var
        The array; its axes behind those of the shape are kept.
    free
        The shapes of the free variables, which PyTensor leaves open where these have dims.
    shape
        What the array is broadcast to.

    Returns
    -------
    The entries, read by numbers from the variables that the array is computed from; None where that fails.
    """
    if (own := _shape(var, free)) is None:
        return None
    rest = own[len(shape) :]
    numbers = np.broadcast_to(np.arange(int(np.prod(own))).reshape(own), shape + rest)
    return _read(var, free, numbers.reshape(-1, *rest), only_repeated=True)


def entries_taken(node: Apply, free: Shapes) -> Variable | None:
    """Return what a node takes of an array by constant indices or by one of data, as above; None where that fails."""
    whole, indices = node.inputs[0], plain_indices(node)
    if all(isinstance(index, slice) or value_of_constants(pt.as_tensor(index)) is not None for index in indices):
        places = _places(node.outputs[0], [whole], free)
        return None if places is None else _read(whole, free, places[1][0], only_repeated=False)
    shape = _shape(whole, free)
    if shape is None or len(indices) > 1:
        return None
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    return _read(whole, free, numbers, only_repeated=False, put=lambda values: pt.constant(values)[indices[0]])


def entries_repeated(var: Variable, free: Shapes) -> Variable | None:
    """Return an array read from variables by numbers, where entries of each of them are repeated; otherwise None."""
    return None if len(_sources(var)) > 1 else _read(var, free, None, only_repeated=True)


def _read(
    var: Variable, free: Shapes, numbers: np.ndarray | None, only_repeated: bool, put: Constant = pt.constant
) -> Variable | None:
    """Return an array, or entries of it, read from the variables that it is computed from; None where that fails.

    What is known of the entries, as the numbers by which they are read, is written into the graph by `put`.
    """
    if (known := value_of_constants(var)) is not None:
        return put(known if numbers is None else np.ravel(known)[numbers])
    sources = _sources(var)
    read_by = [set(ancestors([source])) for source in sources] if len(sources) > 1 else []
    vectors = [rv for read in read_by for rv, shape in free.items() if np.prod(shape) > 1 and rv in read]
    if len(sources) > _MOST_JOINED or len(set(vectors)) < len(vectors):  # as concatenate([u, [-u.sum()]])
        return None
    if (places := _places(var, sources, free)) is None:
        return None
    constants, *of_sources = (of if numbers is None else np.ravel(of)[numbers] for of in (places[0], *places[1]))
    read = None
    for source, place in zip(sources, of_sources, strict=True):
        part = _of_source(source, place, free, numbers is None, only_repeated, put)
        if part is None or (only_repeated and np.any(place < 0)):
            return None
        part = part if np.all(place >= 0) else put(1.0 * (place >= 0)) * part
        read = part if read is None else read + part
    return put(constants) + read if np.any(constants) else read


def is_beside_others(var: Variable) -> bool:
    """Whether an array is computed entry by entry from vectors, or rows beside constant ones, behind one another."""
    if var.owner is not None and isinstance(var.owner.op, Elemwise):
        return any(map(is_beside_others, var.owner.inputs))
    if len(parts := _joined(var)) < 2 or var.type.ndim == 1:
        return len(parts) > 1
    whole_rows = all(
        part.type.ndim == var.type.ndim
        and all(own in (None, n) for own, n in zip(part.type.shape[1:], var.type.shape[1:], strict=True))
        for part in parts
    )
    return whole_rows and any(value_of_constants(part) is not None for part in parts)


def _joined(var: Variable) -> list[Variable]:
    """Return the arrays that another is made of, as ``concatenate([[0.0], u])``; none of others."""
    op = None if var.owner is None else var.owner.op
    if isinstance(op, Join):
        return [part for part in var.owner.inputs if part.type.ndim]  # PyTensor 2 has the axis there
    return var.owner.inputs[:2] if isinstance(op, IncSubtensor) and op.set_instead_of_inc else []


def _sources(var: Variable) -> list[Variable]:
    """Return the variables that have the entries of another which are not constant."""
    while var.owner is not None and isinstance(var.owner.op, _MOVES):
        var = var.owner.inputs[0]
    if not (parts := _joined(var)):
        return [var]
    return list(dict.fromkeys(s for part in parts if value_of_constants(part) is None for s in _sources(part)))


def is_product_with_constant(table: Variable) -> bool:
    """Whether a table is the product of two matrices of which one is constant."""
    if not is_product(table.owner) or [factor.type.ndim for factor in table.owner.inputs] != [2, 2]:
        return False
    return any(value_of_constants(factor) is not None for factor in table.owner.inputs)


def reads_scaled_columns(vector: Variable) -> bool:
    """Whether a vector is computed entry by entry from a constant matrix times coefficients with a scale."""
    source = _only_source(vector)
    if source is None or source.owner is None:
        return False
    if isinstance(source.owner.op, Elemwise):
        return any(map(reads_scaled_columns, source.owner.inputs))
    return _scaled_columns(source) is not None


def _scaled_columns(product: Variable) -> tuple[np.ndarray, Variable] | None:
    """Return a constant matrix, and coefficients that are computed, as those of a Gaussian process, of their product.

    ``X @ b`` is a matrix of one column.
    """
    if not is_product(product.owner) or not all(product.type.broadcastable[1:]):
        return None
    columns, coefficients = product.owner.inputs
    vector = _only_source(coefficients)
    if vector is None or vector.owner is None or not isinstance(vector.owner.op, Elemwise):
        return None
    if vector.type.ndim != 1 or columns.type.ndim != 2:
        return None
    return None if (known := value_of_constants(columns)) is None else (known, vector)


def _only_source(var: Variable) -> Variable | None:
    """Return the variable that has all entries of another which are not constant; None of several."""
    sources = _sources(var)
    return sources[0] if len(sources) == 1 else None


def _places(var: Variable, sources: Sequence[Variable], free: Shapes) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Return the constants in a variable, 0 elsewhere, and the places of the entries of each source, -1 elsewhere."""
    zeros, marks = dict[Variable, Variable](), dict[Variable, Variable]()
    for source in sources:
        shape = _shape(source, free)
        if shape is None or not all(shape):
            return None
        numbers = np.arange(1, np.prod(shape) + 1).reshape(shape)
        zeros[source] = pt.constant(np.zeros(shape), dtype=source.type.dtype)
        marks[source] = pt.constant(numbers, dtype=source.type.dtype)
        if not np.array_equal(marks[source].data, numbers):  # in a type that does not hold them
            return None
    filled = [zeros, *(zeros | {source: marks[source]} for source in sources)]
    constants, *marked = (value_of_constants(graph_replace([var], of, strict=False)[0]) for of in filled)
    if constants is None or any(of_source is None for of_source in marked):
        return None
    found = np.isfinite(constants)  # a constant may be infinite, as the ends of cutpoints
    added = [np.subtract(of_source, constants, where=found, out=np.zeros(constants.shape)) for of_source in marked]
    return constants, [np.rint(of_source).astype(np.int64) - 1 for of_source in added]


def _of_source(
    source: Variable, place: np.ndarray, free: Shapes, as_a_whole: bool, only_repeated: bool, put: Constant
) -> Variable | None:
    """Return entries of a variable by their places in C order, any entry for -1, each from what it is computed from."""
    if (shape := _shape(source, free)) is None:
        return None
    if (size := int(np.prod(shape))) == 1:
        return source.squeeze()
    places = np.arange(size).reshape(shape)
    place = np.where(place < 0, places[0] if place.shape[1:] == shape[1:] else 0, place)
    if not as_a_whole and (scaled := _scaled_columns(source)) is not None and place.ndim == 1:
        columns, coefficients = scaled
        return pt.dot(put(columns[place]), coefficients) if place.size * columns.shape[1] <= _MOST_NUMBERS else None
    if not as_a_whole and is_product_with_constant(source):
        return _of_product(source, place // shape[1], place % shape[1], put)
    is_computed = source.owner is not None and isinstance(source.owner.op, Elemwise)
    of_parts = is_computed and (
        is_beside_others(source) or (not as_a_whole and (len(shape) > 1 or reads_scaled_columns(source)))
    )
    n_read = place.size if as_a_whole else len(place)
    is_flattened = source in free and len(shape) > 1 and place.ndim == 1  # a table that rows read, one entry each
    if not of_parts and (not only_repeated or is_flattened or n_read >= 2 * size or _is_walk(source, free)):
        return _indexed(source, place, places, put)
    if source.owner is None or not is_computed:
        return None
    parts = []
    for part in source.owner.inputs:
        if (own := _shape(part, free)) is None:
            return None
        of_part = np.arange(int(np.prod(own)))
        numbers = np.broadcast_to(of_part.reshape(own), shape).ravel()[place]
        for_all = place.ndim > 1 and np.array_equal(numbers[0].ravel(), of_part) and np.all(numbers == numbers[0])
        parts.append(part if for_all else _read(part, free, numbers, only_repeated, put))
    return None if any(part is None for part in parts) else source.owner.op(*parts)


def _is_walk(source: Variable, free: Shapes) -> bool:
    """Whether a table is a variable whose entries follow each other by their prior, or has sums of steps of its own."""
    op = None if source.owner is None else source.owner.op
    if not isinstance(op, CumOp):
        return isinstance(op, AutoRegressiveRV | RandomWalkRV)
    shapes = {free[rv] for rv in ancestors([source], blockers=free) if rv in free}
    return _shape(source.owner.inputs[0], free) in shapes


def _indexed(source: Variable, place: np.ndarray, places: np.ndarray, put: Constant) -> Variable:
    """Return entries by an index of whole rows where these are taken, otherwise of each axis of a matrix."""
    flat = place.reshape(len(place), -1)
    if flat.shape[1] > 1 and np.all(flat == flat[:, :1]):  # the same in all columns
        return source.ravel()[put(flat[:, 0])][(slice(None), *[None] * (place.ndim - 1))]
    first = flat[:, 0] // places[0].size
    if place.shape[1:] == places.shape[1:] and np.array_equal(places[first], place):
        return source if len(places) == 1 else source[put(first)]
    if places.ndim == 2 and place.ndim == 1:
        return source[put(first), put(place % places.shape[1])]
    return source.ravel()[put(place)]


def _of_product(table: Variable, row: np.ndarray, column: np.ndarray, put: Constant) -> Variable:
    """Return entries of a product of two matrices of which one is constant."""
    left, right = table.owner.inputs
    known, known_right = value_of_constants(left), value_of_constants(right)
    of_left = left[put(row)] if known is None else put(known[row])
    of_right = right.T[put(column)] if known_right is None else put(known_right.T[column])
    return (of_left * of_right).sum(axis=-1)


def _shape(var: Variable, free: Shapes) -> tuple[int, ...] | None:
    """Return the shape of an array computed entry by entry from those whose shapes are known, or None."""
    if None not in var.type.shape:
        return var.type.shape
    if var in free or var.owner is None:
        return free.get(var)
    if not isinstance(var.owner.op, Elemwise | DimShuffle | ViewOp | ModelDeterministic):
        sources = _sources(var)
        places = None if sources == [var] else _places(var, sources, free)
        return None if places is None else places[0].shape
    inputs = var.owner.inputs[:1] if isinstance(var.owner.op, ModelDeterministic) else var.owner.inputs
    shapes = [shape for v in inputs if (shape := _shape(v, free)) is not None]
    if len(shapes) < len(inputs):
        return None
    if isinstance(var.owner.op, DimShuffle):
        return tuple(1 if k == "x" else shapes[0][k] for k in var.owner.op.new_order)
    return np.broadcast_shapes(*shapes)
