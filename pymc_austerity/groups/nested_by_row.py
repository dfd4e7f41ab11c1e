"""A model in which rows read effects of nested groups by one index for each, where it adds them up by finer group.

``(tau_s * z_s)[school] + tau_c * z_c``, of which row i reads the entry of its class, is written
``(tau_s * z_s)[school[class_]] + (tau_c * z_c)[class_]``: classes and schools are then factors of their own.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import pytensor.tensor as pt
from pymc.model import Model
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import Add, Identity
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.likelihood.derived_model import derived_model, replacing
from pymc_austerity.likelihood.model_graph import array_of, constant_of, is_array_leaf, plain_indices


class Taken(NamedTuple):
    """Entries of effects along their first axis."""

    effects: Variable
    numbers: Variable  # of the entries, int vector of the data
    beside: tuple[Any, ...]  # further indices, of one coefficient of several


def with_nested_by_row(model: Model) -> Model:
    """Return a model with the same log density, variables and names; the model itself where no effects are nested."""
    free = set(model.free_RVs)
    terms = [*model.observed_RVs, *model.potentials]
    moved: dict[Variable, Variable] = {}
    for node in reversed(list(toposort(terms, blockers=[*free]))):  # what holds others first
        read = node.outputs[0]
        taken = taken_by_numbers(read)
        if taken is None or any(read in ancestors([of]) for of in moved):
            continue
        if any(is_coarser(part, free) for part in parts_of(taken.effects)):
            moved[read] = _by_row(taken)
    return derived_model(model, replacing(model, moved), {}, {})[0] if moved else model


def is_coarser(part: Variable, free: Container[Variable]) -> bool:
    """Return whether effects are those of a coarser group, an entry for each finer one."""
    taken = taken_by_numbers(part)
    if taken is None or taken.beside or not isinstance(taken.numbers, Constant):
        return False
    return any(var in free for var in ancestors([part]))


def _by_row(taken: Taken) -> Variable:
    """Return entries of a sum, those of coarser groups by the numbers of these."""
    by_row, rest = [], []
    for part in parts_of(taken.effects):
        coarser = taken_by_numbers(part)
        if coarser is None or coarser.beside or not isinstance(coarser.numbers, Constant):
            rest.append(part)
        else:
            of_coarser = coarser.numbers.data
            known = isinstance(taken.numbers, Constant)
            numbers = pt.constant(of_coarser[taken.numbers.data]) if known else pt.constant(of_coarser)[taken.numbers]
            by_row.append(_by_row(Taken(coarser.effects, numbers, taken.beside)))
    if rest:
        together = reduce(add, rest)
        by_row.append(
            together[(0, *taken.beside)][None]
            if together.type.broadcastable[0]
            else together[(taken.numbers, *taken.beside)]
        )
    return reduce(add, by_row)


def taken_by_numbers(var: Variable) -> Taken | None:
    """Return what a graph takes entries of along its first axis, if their numbers are data; also behind a scale."""
    while var.owner is not None and _is_copy(var):
        (var,) = var.owner.inputs
    node = var.owner
    if node is not None and isinstance(node.op, Elemwise) and var.type.ndim:
        of_rows = [i for i in node.inputs if not i.type.broadcastable[0]]
        taken = taken_by_numbers(of_rows[0]) if len(of_rows) == 1 else None
        if taken is None or taken.beside:
            return None
        return taken._replace(effects=node.op(*(taken.effects if i is of_rows[0] else i for i in node.inputs)))
    if node is None or not isinstance(node.op, AdvancedSubtensor):
        return None
    numbers, *beside = plain_indices(node)
    is_vector = isinstance(numbers, Variable) and numbers.type.ndim == 1 and is_array_leaf(numbers)
    # One entry alone is the same for all that it is added to.
    if not is_vector or numbers.type.dtype[0] not in "iu" or array_of(numbers).size == 1:
        return None
    if any(constant_of(i) is None for i in beside):
        return None
    return Taken(node.inputs[0], numbers, tuple(beside))


def parts_of(var: Variable) -> Iterator[Variable]:
    """Yield the terms of a sum."""
    if _is_copy(var) or _is_elemwise(var, Add):
        for part in var.owner.inputs:
            yield from parts_of(part)
    else:
        yield var


def _is_copy(var: Variable) -> bool:
    return _is_elemwise(var, Identity) or (var.owner is not None and isinstance(var.owner.op, ViewOp))


def _is_elemwise(var: Variable, op: type) -> bool:
    return var.owner is not None and isinstance(var.owner.op, Elemwise) and isinstance(var.owner.op.scalar_op, op)
