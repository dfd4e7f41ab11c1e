"""A model in which scales multiply the effects that rows read, where the user multiplies a predictor by them.

``tau * (w * z[i] + v * z[j])`` is written ``w * (tau * z[i]) + v * (tau * z[j])``, and ``x * tau * z[g]`` is written
``x * (tau * z[g])``: what rows read is then an effect ``(tau * z)[g]``.  So it is with a scale for each kind of group:
``tau[kind[g]] * z[g]`` is written ``(tau[kind] * z)[g]``.  Where entries of z are summed, ``tau * (X @ z)`` is written
``X @ (tau * z)``, and ``tau * (z - z.mean())`` is written as the same of ``tau * z``.
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
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorConstant

from pymc_austerity.compat import replace_parts
from pymc_austerity.groups.effects_read import axis_entering, is_affine
from pymc_austerity.groups.inverse_by_ops import by_invertible, nodes_between, takes_beside
from pymc_austerity.likelihood.derived_model import derived_model, replacing
from pymc_austerity.likelihood.model_graph import is_elementwise, is_product


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
    return derived_model(model, replacing(model, moved), {}, {})[0] if moved else model


class _Scaling:
    """Finds products of effects with scales that are the same for all rows, and moves the scales."""

    def __init__(self, model: Model, is_read: Callable[[Variable], bool]):
        self._model, self._free, self._is_read = model, set(model.free_RVs), is_read
        self._linear: dict[Variable, bool] = {}

    def moved(self, product: Variable) -> Variable | None:
        """Return a product with its scales on the effects; None where they are there, or it is no such product."""
        if is_elementwise(product, TrueDiv):
            over, by = product.owner.inputs
            return self._on_mixed([over, 1 / by])
        if not is_elementwise(product, Mul):
            return None
        scales, effects, others = self._parts(product)
        by_kind = [found for pair in permutations(effects) if (found := _by_kind(*pair)) is not None]
        if by_kind:
            return reduce(mul, [*scales, *others, by_kind[0]])
        if (mixed := self._on_mixed([*scales, *effects, *others])) is not None:
            return mixed
        if not scales or len(effects) != 1:
            return None
        moved = reduce(mul, [*others, self._times(effects[0], reduce(mul, scales))])
        return None if equal_computations([moved], [product]) else moved

    def _on_mixed(self, factors: list[Variable]) -> Variable | None:
        """Return ``X @ (tau * z)`` for ``tau * (X @ z)``, and so for any linear function that sums entries of z."""
        found = [(var, source) for var in factors if (source := self._mixed_source(var)) is not None]
        if len(found) != 1:
            return None
        ((mixed, source),) = found
        scales = [var for var in factors if var is not mixed and self._free & set(ancestors([var]))]
        others = [var for var in factors if var is not mixed and var not in scales]
        if not scales:
            return None
        scale = reduce(mul, scales)
        if all(scale.type.broadcastable):
            scale = scale.squeeze()
        elif mixed.type.ndim != source.type.ndim or not all(
            one or axis_entering(_without_lengths(mixed, source), k, source) == k
            for k, one in enumerate(scale.type.broadcastable)
        ):
            return None
        return reduce(mul, [*others, replace_parts(mixed, {source: scale * source})])

    def _mixed_source(self, graph: Variable) -> Variable | None:
        """Return the variable whose entries are summed in a graph that is linear in it and reads no other."""
        read = self._free & set(ancestors([graph], blockers=[*self._free]))
        source = next(iter(read), None)
        if source is None or len(read) > 1 or not source.type.ndim or self._model.rvs_to_transforms[source] is not None:
            return None
        graph = _without_lengths(graph, source)
        mixes = is_affine(graph, [source]) and self._mixes(source, graph)
        return source if mixes and not takes_beside(source, graph, Add, Sub, Join, MakeVector) else None

    def _mixes(self, source: Variable, graph: Variable) -> bool:
        """Whether entries of a graph are sums over those of its source, other than of the effects that a row reads."""
        for node in nodes_between(source, graph):
            if self._is_read(node.outputs[0]):
                return False
            if isinstance(node.op, Sum) or (is_product(node) and not by_invertible(node)):
                return True
        return False

    def _parts(self, product: Variable) -> tuple[list[Variable], list[Variable], list[Variable]]:
        """Return the scales, what reads effects, and what else there is in a product of products."""
        scales: list[Variable] = []
        effects: list[Variable] = []
        others: list[Variable] = []
        for var in product.owner.inputs:
            if is_elementwise(var, Mul):
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
        if is_elementwise(var, Add, Sub, Neg):
            return any(map(self._reads, var.owner.inputs))
        if is_elementwise(var, Mul):
            return sum(map(self._reads, var.owner.inputs)) == 1
        if _is_sum_within_rows(var):
            return self._reads(var.owner.inputs[0])
        return (
            is_elementwise(var, TrueDiv) and self._reads(var.owner.inputs[0]) and not self._reads(var.owner.inputs[1])
        )

    def _times(self, var: Variable, scale: Variable) -> Variable:
        """Return a graph times a scale, which stands beside the effects."""
        if self._is_read(var) or not self._reads(var):
            return scale * var
        node = var.owner
        if _is_sum_within_rows(var):
            axes = iter(range(scale.type.ndim))
            within = scale.dimshuffle(*("x" if k in node.op.axis else next(axes) for k in range(node.inputs[0].ndim)))
            return node.op(self._times(node.inputs[0], within))
        if is_elementwise(var, Add, Sub, Neg):
            return node.op(*[self._times(of, scale) for of in node.inputs])
        return node.op(*[self._times(of, scale) if self._reads(of) else of for of in node.inputs])


def _without_lengths(graph: Variable, source: Variable) -> Variable:
    """Return a graph in which lengths of a variable, as a mean is divided by, are numbers of their own."""
    nodes = [var for var in ancestors([graph]) if var.owner is not None and isinstance(var.owner.op, Shape | Shape_i)]
    lengths = {var: var.type() for var in nodes if source in ancestors(var.owner.inputs)}
    return replace_parts(graph, lengths) if lengths else graph


def _by_kind(*factors: Variable) -> Variable | None:
    """Return a scale that is the same for all rows of a group, times effects, as entries of their product by group."""
    taken = [var.owner for var in factors if var.owner is not None]
    if len(taken) != 2 or not all(isinstance(node.op, AdvancedSubtensor) and len(node.inputs) == 2 for node in taken):
        return None
    (of_kinds, kinds), (of_groups, groups) = (node.inputs for node in taken)
    kind = _kind_of_groups(kinds, groups, of_groups.type.shape[0])
    return None if kind is None else (of_kinds[kind] * of_groups)[groups]


def _kind_of_groups(kinds: Variable, groups: Variable, n_groups: int | None) -> np.ndarray | None:
    """Return the kind of each group, where rows of a group are of one kind or look it up by their group."""
    if isinstance(kinds, TensorConstant) and isinstance(groups, TensorConstant) and n_groups:
        kind = np.zeros(n_groups, np.int64)
        kind[groups.data] = kinds.data
        return kind if np.array_equal(kind[groups.data], kinds.data) else None
    if kinds.owner is None or not isinstance(kinds.owner.op, AdvancedSubtensor):
        return None
    table, *by = kinds.owner.inputs
    return np.asarray(table.data) if isinstance(table, TensorConstant) and by == [groups] else None


def _same_for_rows(var: Variable) -> bool:
    return var.type.broadcastable[:1] == (True,)


def _is_sum_within_rows(var: Variable) -> bool:
    return var.owner is not None and isinstance(var.owner.op, Sum) and 0 not in (var.owner.op.axis or (0,))
