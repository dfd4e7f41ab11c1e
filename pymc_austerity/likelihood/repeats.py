"""A model in which rows read entries of parameters by their numbers, where the user repeats, flattens or takes them.

``pt.repeat(u, 3)`` is written ``u[g]``; ``(u[:, None] + v).ravel()`` is written ``u[g] + v[h]``, and so are
``(u[:, None] + v)[g, h]`` and the entries of this table at a mask.
"""

from collections.abc import Callable, Sequence

from pymc.model import Model
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.extra_ops import Repeat
from pytensor.tensor.shape import Reshape
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.likelihood.derived_model import with_replaced
from pymc_austerity.likelihood.entries import (
    Shapes,
    entries_repeated,
    entries_taken,
    is_beside_others,
    is_product_with_constant,
    reads_scaled_columns,
)
from pymc_austerity.likelihood.model_graph import value_of_constants


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
    """Whether a node takes entries of a table, each computed from its row and column, or of what is beside others."""
    if not isinstance(node.op, AdvancedSubtensor):
        return False
    whole, taken = node.inputs[0], node.outputs[0]
    if whole.type.ndim == taken.type.ndim == 1 and reads_scaled_columns(whole):
        return bool(whole.type.shape[0])
    return is_beside_others(whole) or (whole.type.ndim > 1 == taken.type.ndim and _spread(whole))


def _spread(table: Variable) -> bool:
    """Whether a table is computed entry by entry from rows, columns, products and constants, or rows that are taken."""
    if any(table.type.broadcastable) or value_of_constants(table) is not None or is_product_with_constant(table):
        return True
    op = None if table.owner is None else table.owner.op
    return isinstance(op, AdvancedSubtensor) or (isinstance(op, Elemwise) and all(map(_spread, table.owner.inputs)))


def numbers_for_repeats(terms: Sequence[Variable], free: Shapes) -> dict[Variable, Variable]:
    """Return ``u[g]`` for each array of some terms in which entries of u, computed from free variables, are repeated.

    Arrays come before those that are computed from them.
    """
    return _written(terms, free, _repeats, lambda node: entries_repeated(node.outputs[-1], free))


def with_numbers_for_repeats(model: Model) -> Model:
    """Return a model with ``u[g]`` for the arrays in which entries of u stand more than once."""
    terms = [*model.basic_RVs, *model.potentials]
    if not any(map(_repeats, toposort(terms))):  # before shapes are computed, which compiles where they are dims
        return model
    return with_replaced(model, numbers_for_repeats(terms, shapes_of_free(model)))


def with_entries_taken(model: Model) -> Model:
    """Return a model with ``u[g] + v[h]`` for the entries that are taken of a table."""
    terms = [*model.basic_RVs, *model.potentials]
    if not any(map(_takes_entries, toposort(terms))):
        return model
    free = shapes_of_free(model)
    taken = _written(terms, free, _takes_entries, lambda node: entries_taken(node, free))
    return with_replaced(model, taken)


def _written(
    terms: Sequence[Variable],
    free: Shapes,
    looked_for: Callable[[Apply], bool],
    read: Callable[[Apply], Variable | None],
) -> dict[Variable, Variable]:
    """Return how arrays that are looked for are read by numbers, of those that are computed from free variables."""
    written = dict[Variable, Variable]()
    for node in toposort(terms):
        (*_, out) = node.outputs
        if not (looked_for(node) and out.type.ndim) or free.keys().isdisjoint(ancestors([out])):
            continue
        instead = read(node)
        if instead is not None and instead.type.ndim and instead.type.broadcastable == out.type.broadcastable:
            written[out] = instead
    return written
