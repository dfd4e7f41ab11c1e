"""A model in which rows read entries of parameters by their numbers, where the user repeats and flattens them.

``pt.repeat(u, 3)``, ``pt.tile(u, 3)`` and ``pt.broadcast_to(u[:, None], (20, 3)).ravel()`` are written ``u[g]``, and
``(u[:, None] + v).ravel()`` is written ``u[g] + v[h]``.
"""

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import Repeat
from pytensor.tensor.shape import Reshape, SpecifyShape

from pymc_austerity.likelihood.derived_model import derived_model, replacing
from pymc_austerity.likelihood.model_graph import value_of_constants

#: What puts the entries of its first input in other places, some of them more than once.
_MOVES = (Alloc, DimShuffle, Repeat, Reshape, SpecifyShape)


def with_numbers_for_repeats(model: Model) -> Model | None:
    """Return a model with ``u[g]`` for an array in which entries of u stand more than once, or None without such."""
    free, written = set(model.free_RVs), dict[Variable, Variable]()
    for node in toposort([*model.basic_RVs, *model.potentials]):
        (*_, out) = node.outputs
        moves = isinstance(node.op, (*_MOVES, Join)) and out.type.ndim
        if (
            moves
            and not free.isdisjoint(ancestors([out]))
            and (read := _by_numbers(out)) is not None
            and read.type.ndim
        ):
            written[out] = read
    return derived_model(model, replacing(model, written), {}, {})[0] if written else None


def _by_numbers(var: Variable, numbers: np.ndarray | None = None) -> Variable | None:
    """Return an array, or entries of it in C order, read from smaller ones by their numbers; None where that fails."""
    if numbers is not None and (known := value_of_constants(var)) is not None:
        return pt.constant(np.ravel(known)[numbers])
    source = _moved(var)
    if source is None or not all(source.type.shape):
        return None
    places = np.arange(int(np.prod(source.type.shape))).reshape(source.type.shape)
    marked = pt.constant(places, dtype=source.type.dtype)
    moved = value_of_constants(graph_replace([var], {source: marked}, strict=False)[0])
    if moved is None or not np.array_equal(marked.data, places):  # in a type that does not hold them
        return None
    taken = (moved if numbers is None else np.ravel(moved)[numbers]).astype(np.int64)
    if places.size == 1:
        return source.squeeze()
    if taken.size >= 2 * places.size:
        width = places[0].size
        first = taken.reshape(len(taken), -1)[:, 0] // width
        whole = taken.shape[1:] == places.shape[1:] and np.array_equal(places[first], taken)
        return source[pt.constant(first)] if whole else source.ravel()[pt.constant(taken)]
    if source.owner is None or not isinstance(source.owner.op, Elemwise):
        return None
    parts = []
    for part in source.owner.inputs:
        if None in part.type.shape:
            return None
        own = np.arange(int(np.prod(part.type.shape))).reshape(part.type.shape)
        parts.append(_by_numbers(part, np.broadcast_to(own, places.shape).ravel()[taken]))
    return None if any(part is None for part in parts) else source.owner.op(*parts)


def _moved(var: Variable) -> Variable | None:
    """Return the one variable that has the entries of another, or None where these come from several."""
    while var.owner is not None and isinstance(var.owner.op, _MOVES):
        var = var.owner.inputs[0]
    if var.owner is None or not isinstance(var.owner.op, Join):
        return var
    sources = {_moved(part) for part in var.owner.inputs if part.type.ndim}  # PyTensor 2 has the axis there
    return sources.pop() if len(sources) == 1 else None
