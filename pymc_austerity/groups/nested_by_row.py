"""A model in which rows read effects of nested groups by one index for each, where it adds them up by finer group.

``(tau_s * z_s)[school] + tau_c * z_c``, of which row i reads the entry of its class, is written
``(tau_s * z_s)[school[class_]] + (tau_c * z_c)[class_]``: classes and schools are then factors of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add

import pytensor.tensor as pt
from pymc.model import Model
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import Add, Identity
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorConstant

from pymc_austerity.likelihood.derived_model import derived_model, replacing


def with_nested_by_row(model: Model) -> Model:
    """Return a model with the same log density, variables and names; the model itself where no effects are nested."""
    free = set(model.free_RVs)
    terms = [*model.observed_RVs, *model.potentials]
    moved: dict[Variable, Variable] = {}
    for node in reversed(list(toposort(terms, blockers=[*free]))):  # what holds others first
        read = node.outputs[0]
        taken = _taken(read)
        if taken is None or any(read in ancestors([of]) for of in moved):
            continue
        effects, index = taken
        if any(_taken(part) is not None and not free.isdisjoint(ancestors([part])) for part in _parts(effects)):
            moved[read] = _by_row(effects, index)
    return derived_model(model, replacing(model, moved), {}, {})[0] if moved else model


def _by_row(effects: Variable, index: TensorConstant) -> Variable:
    """Return entries of a sum, those of coarser groups by the numbers of these."""
    by_row, rest = [], []
    for part in _parts(effects):
        taken = _taken(part)
        if taken is None:
            rest.append(part)
        else:
            coarser, of_finer = taken
            by_row.append(_by_row(coarser, pt.constant(of_finer.data[index.data])))
    if rest:
        together = reduce(add, rest)
        by_row.append(together if together.type.broadcastable[0] else together[index])
    return reduce(add, by_row)


def _taken(var: Variable) -> tuple[Variable, TensorConstant] | None:
    """Return what a graph takes entries of along its first axis, and their numbers, if these are constant."""
    while var.owner is not None and _is_copy(var):
        (var,) = var.owner.inputs
    if var.owner is None or not isinstance(var.owner.op, AdvancedSubtensor) or len(var.owner.inputs) != 2:
        return None
    of, index = var.owner.inputs
    is_vector = isinstance(index, TensorConstant) and index.type.ndim == 1 and index.data.dtype.kind in "iu"
    # One entry alone is the same for all that it is added to.
    return (of, index) if is_vector and index.data.size != 1 and of.type.ndim == var.type.ndim else None


def _parts(var: Variable) -> Iterator[Variable]:
    """Yield the terms of a sum."""
    if _is_copy(var) or _is_elemwise(var, Add):
        for part in var.owner.inputs:
            yield from _parts(part)
    else:
        yield var


def _is_copy(var: Variable) -> bool:
    return _is_elemwise(var, Identity) or (var.owner is not None and isinstance(var.owner.op, ViewOp))


def _is_elemwise(var: Variable, op: type) -> bool:
    return var.owner is not None and isinstance(var.owner.op, Elemwise) and isinstance(var.owner.op.scalar_op, op)
