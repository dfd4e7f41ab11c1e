"""A model in which scales multiply the effects that rows read, where the user multiplies a predictor by them.

``tau * (w * z[i] + v * z[j])`` is written ``w * (tau * z[i]) + v * (tau * z[j])``, and ``x * tau * z[g]`` is written
``x * (tau * z[g])``: what rows read is then an effect ``(tau * z)[g]``.  So it is with a scale for each kind of group:
``tau[kind[g]] * z[g]`` is written ``(tau[kind] * z)[g]``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import permutations
from operator import mul

import numpy as np
from pymc.model import Model
from pytensor.graph.basic import Variable, equal_computations
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import Add, Mul, Neg, Sub, TrueDiv
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorConstant

from pymc_austerity.compat import replace_parts
from pymc_austerity.likelihood.derived_model import derived_model


def with_scales_on_effects(model: Model, is_read: Callable[[Variable], bool]) -> Model:
    """Return a model with the same log density, variables and names; the model itself where nothing is to be moved.

    `is_read` says of a graph whether it is entries of effects, one a row, on the first axis.
    """
    terms, scaling = [*model.basic_RVs, *model.potentials], _Scaling(model, is_read)
    moved: dict[Variable, Variable] = {}
    for node in reversed(list(toposort(terms))):  # what holds others first
        product = node.outputs[0]
        inner = any(product in ancestors([of]) for of in moved)
        if not inner and (instead := scaling.moved(product)) is not None:
            moved[product] = instead
    return derived_model(model, lambda term: replace_parts(term, moved), {}, {})[0] if moved else model


class _Scaling:
    """Finds products of effects with scales that are the same for all rows, and moves the scales."""

    def __init__(self, model: Model, is_read: Callable[[Variable], bool]):
        self._free, self._is_read = set(model.free_RVs), is_read
        self._linear: dict[Variable, bool] = {}

    def moved(self, product: Variable) -> Variable | None:
        """Return a product with its scales on the effects; None where they are there, or it is no such product."""
        if not _is(product, Mul):
            return None
        scales, effects, others = self._parts(product)
        by_kind = [found for pair in permutations(effects) if (found := _by_kind(*pair)) is not None]
        if by_kind:
            return reduce(mul, [*scales, *others, by_kind[0]])
        if not scales or len(effects) != 1:
            return None
        moved = reduce(mul, [*others, self._times(effects[0], reduce(mul, scales))])
        return None if equal_computations([moved], [product]) else moved

    def _parts(self, product: Variable) -> tuple[list[Variable], list[Variable], list[Variable]]:
        """Return the scales, what reads effects, and what else there is in a product of products."""
        scales: list[Variable] = []
        effects: list[Variable] = []
        others: list[Variable] = []
        for var in product.owner.inputs:
            if _is(var, Mul):
                for of, more in zip((scales, effects, others), self._parts(var), strict=True):
                    of += more
            elif self._reads(var):
                effects.append(var)
            elif self._is_scale(var):
                scales.append(var)
            else:
                others.append(var)
        return scales, effects, others

    def _is_scale(self, var: Variable) -> bool:
        return _same_for_rows(var) and bool(self._free & set(ancestors([var])))

    def _reads(self, var: Variable) -> bool:
        """Whether a graph is a sum of effects that are read, each times something of the rows."""
        if var not in self._linear:
            self._linear[var] = self._is_read(var) or self._is_linear(var)
        return self._linear[var]

    def _is_linear(self, var: Variable) -> bool:
        if _is(var, Add, Sub, Neg):
            return any(map(self._reads, var.owner.inputs))
        if _is(var, Mul):
            return sum(map(self._reads, var.owner.inputs)) == 1
        if _is_sum_within_rows(var):
            return self._reads(var.owner.inputs[0])
        return _is(var, TrueDiv) and self._reads(var.owner.inputs[0]) and not self._reads(var.owner.inputs[1])

    def _times(self, var: Variable, scale: Variable) -> Variable:
        """Return a graph times a scale, which stands beside the effects."""
        if self._is_read(var) or not self._reads(var):
            return scale * var
        node = var.owner
        if _is_sum_within_rows(var):
            axes = iter(range(scale.type.ndim))
            within = scale.dimshuffle(*("x" if k in node.op.axis else next(axes) for k in range(node.inputs[0].ndim)))
            return node.op(self._times(node.inputs[0], within))
        if _is(var, Add, Sub, Neg):
            return node.op(*[self._times(of, scale) for of in node.inputs])
        return node.op(*[self._times(of, scale) if self._reads(of) else of for of in node.inputs])


def _by_kind(*factors: Variable) -> Variable | None:
    """Return a scale that is the same for all rows of a group, times effects, as entries of their product by group."""
    taken = [var.owner for var in factors if var.owner is not None]
    if len(taken) != 2 or not all(isinstance(node.op, AdvancedSubtensor) and len(node.inputs) == 2 for node in taken):
        return None
    (of_kinds, kinds), (of_groups, groups) = (node.inputs for node in taken)
    if not (isinstance(kinds, TensorConstant) and isinstance(groups, TensorConstant) and of_groups.type.shape[0]):
        return None
    kind = np.zeros(of_groups.type.shape[0], np.int64)
    kind[groups.data] = kinds.data
    return (of_kinds[kind] * of_groups)[groups] if np.array_equal(kind[groups.data], kinds.data) else None


def _same_for_rows(var: Variable) -> bool:
    return var.type.broadcastable[:1] == (True,)


def _is_sum_within_rows(var: Variable) -> bool:
    return var.owner is not None and isinstance(var.owner.op, Sum) and 0 not in (var.owner.op.axis or (0,))


def _is(var: Variable, *ops: type) -> bool:
    return var.owner is not None and isinstance(var.owner.op, Elemwise) and isinstance(var.owner.op.scalar_op, ops)
