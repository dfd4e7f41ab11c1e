"""A model in which rows read entries of parameters by their numbers, where the user repeats and flattens them.

``pt.repeat(u, 3)``, ``pt.tile(u, 3)`` and ``pt.broadcast_to(u[:, None], (20, 3)).ravel()`` are written ``u[g]``, and
``(u[:, None] + v).ravel()`` is written ``u[g] + v[h]``.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pymc.model.fgraph import ModelDeterministic
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import Repeat
from pytensor.tensor.shape import Reshape, SpecifyShape

from pymc_austerity.likelihood.derived_model import derived_model, replacing
from pymc_austerity.likelihood.model_graph import is_product, value_of_constants

#: What makes an array with more axes or entries than another, or fewer axes.
_REPEATS = (Alloc, Join, Repeat, Reshape)
#: What puts the entries of its first input in other places, some of them more than once.
_MOVES = (Alloc, DimShuffle, Repeat, Reshape, SpecifyShape, ViewOp)

Shapes = Mapping[Variable, tuple[int, ...]]


def with_numbers_for_repeats(model: Model) -> Model | None:
    """Return a model with ``u[g]`` for an array in which entries of u stand more than once, or None without such."""
    shapes = shapes_of_free(model)
    written = numbers_for_repeats([*model.basic_RVs, *model.potentials], shapes)
    return derived_model(model, replacing(model, written), {}, {})[0] if written else None


def shapes_of_free(model: Model) -> dict[Variable, tuple[int, ...]]:
    """Return the shapes of the free variables, which PyTensor leaves open where these have dims."""
    if all(None not in rv.type.shape for rv in model.free_RVs):
        return {rv: rv.type.shape for rv in model.free_RVs}
    shapes = model.eval_rv_shapes()
    return {rv: tuple(map(int, shapes[rv.name])) for rv in model.free_RVs}


def numbers_for_repeats(terms: Sequence[Variable], free: Shapes) -> dict[Variable, Variable]:
    """Return ``u[g]`` for each array of some terms in which entries of u, computed from free variables, are repeated.

    Arrays come before those that are computed from them.
    """
    written = dict[Variable, Variable]()
    for node in toposort(terms):
        (*_, out) = node.outputs
        moves = isinstance(node.op, _REPEATS) and out.type.ndim and not free.keys().isdisjoint(ancestors([out]))
        if moves and (read := _by_numbers(out, free)) is not None and read.type.ndim:
            written[out] = read
    return written


def entries_of(var: Variable, free: Shapes, shape: tuple[int, ...]) -> Variable | None:
    """Return the entries of an array that is broadcast to a shape, in C order, by numbers; None where that fails."""
    if (own := _shape(var, free)) is None:
        return None
    numbers = np.broadcast_to(np.arange(int(np.prod(own))).reshape(own), shape)
    return _by_numbers(var, free, numbers.ravel())


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
    if taken.size >= 2 * places.size and not (numbers is not None and is_computed and len(shape) > 1):
        width = places[0].size
        first = taken.reshape(len(taken), -1)[:, 0] // width
        whole = taken.shape[1:] == places.shape[1:] and np.array_equal(places[first], taken)
        return source[pt.constant(first)] if whole else source.ravel()[pt.constant(taken)]
    if numbers is not None and is_product(source.owner) and len(shape) == 2:
        left, right = source.owner.inputs
        if (known := value_of_constants(left)) is not None and known.ndim == 2:
            row, column = divmod(taken, shape[1])
            return (known[row] * right.T[pt.constant(column)]).sum(axis=-1)
    if not is_computed:
        return None
    parts = []
    for part in source.owner.inputs:
        if (part_shape := _shape(part, free)) is None:
            return None
        own = np.arange(int(np.prod(part_shape))).reshape(part_shape)
        parts.append(_by_numbers(part, free, np.broadcast_to(own, places.shape).ravel()[taken]))
    return None if any(part is None for part in parts) else source.owner.op(*parts)


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
