"""Find the effects that rows read: what is indexed by group, as a function of the model's variables.

A model may index before it scales (``tau * z[g]``), have groups on any axis (``b[0, g]``), or read several parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.model import Model
from pytensor.graph.basic import Apply, Variable, equal_computations
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import Add, Neg, Sub
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor
from pytensor.tensor.type import TensorType

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.groups.group_index import EffectsRead, RowIndex, followed, taken_by_group
from pymc_austerity.groups.inverse_by_ops import inverse_by_ops, nodes_between, takes_beside
from pymc_austerity.groups.loadings import start_of_loading
from pymc_austerity.groups.several_entries import by_several_indices
from pymc_austerity.groups.zero_sum_effects import is_zero_sum, sums_are_few, zero_sums_read
from pymc_austerity.likelihood import NotRowWiseError, keeps_affine
from pymc_austerity.likelihood.affine import require_affine
from pymc_austerity.likelihood.axis import RowAxis
from pymc_austerity.likelihood.model_graph import is_product
from pymc_austerity.likelihood.row_axis import prove_row_axis


def effects_read(model: Model, with_zero_sums: bool = True) -> list[EffectsRead]:
    """Return the effects that are affine in an unbounded variable with an entry for each group, or that sum to zero."""
    terms = [*model.basic_RVs, *model.potentials]
    nodes = list(toposort(terms))
    clients: dict[Variable, list[Apply]] = {}
    for node in nodes:
        for var in set(node.inputs):
            clients.setdefault(var, []).append(node)
    free = [rv for rv in model.free_RVs if rv.type.ndim and rv.type.dtype.startswith("float")]
    unbounded = [rv for rv in free if model.rvs_to_transforms[rv] is None]
    found: dict[Variable, list[EffectsRead]] = {}
    taken = {node: by for node in nodes if (by := taken_by_group(node)) is not None}
    by_several = by_several_indices(taken, clients, terms)
    for node, (whole, index, axis) in taken.items():
        read, effects = node.outputs[0], whole
        others: list[tuple[int, Variable]] = []
        if node in by_several:
            read, effects, index, others = by_several[node]
        elif axis == 0:  # ``tau * z[g]`` are entries of ``tau * z``
            read, effects = followed(read, effects, clients, terms, _same_for_rows)
        if read not in found:
            above = set(ancestors([effects], blockers=model.basic_RVs))
            sources = [rv for rv in reversed(unbounded) if rv in above]
            if isinstance(index, tuple):
                effects, index = _groups_first(effects, index, sources)
            given = effects, read, index, axis, sources
            by_source = _affine(*given) or _by_ops(*given)
            found[read] = [replace(of, others=tuple(others)) for of in by_source]
            found[read] = found[read] or _part_affine(node.inputs[0], whole, sources)
    zero_sums = [
        of
        for rv in free
        if with_zero_sums and is_zero_sum(model, rv)
        for of in zero_sums_read(rv, nodes, clients, terms)
    ]
    by_group = [*(of for of in found.values() if of), *([of] for of in zero_sums)]
    above = set(ancestors([of.effects for (of, *_) in by_group], blockers=model.basic_RVs))
    others = [rv for rv in unbounded if rv not in above]
    whole = [of for rv in others if (of := _read_whole(rv, set(model.free_RVs), clients, terms)) is not None]
    affine = {of[0].read: of for of in (*by_group, *([of] for of in whole)) if _has_way_back(model, of[0])}
    return list(filter(sums_are_few, _each_its_source(_with_shapes(model, list(affine.values())))))


def _groups_first(
    effects: Variable, index: tuple[Variable, ...], sources: Sequence[Variable]
) -> tuple[Variable, tuple[Variable, ...]]:
    """Return a table of effects that is read at the index of each axis, such that its groups lie along the first.

    They lie along the first axis whose entries are those of independent ones of a variable, not the times of a walk.
    """
    for k in range(effects.type.ndim):
        for source in sources:
            axis = axis_entering(effects, k, source)
            if axis is not None and axis < source.type.ndim - source.owner.op.ndim_supp:
                return pt.moveaxis(effects, k, 0) if k else effects, (index[k], *index[:k], *index[k + 1 :])
    return effects, index


def _has_way_back(model: Model, of: EffectsRead) -> bool:
    """Whether z is a function of its effects, at any value of other variables that do not depend on it.

    Effects that are multiplied by whole numbers of the model may be 0 for any z.
    """
    if any(of.source in ancestors([rv]) for rv in _variables_in([of.effects], model) - {of.source}):
        return False
    nodes = nodes_between(of.source, of.effects)
    computed = {of.source, *(var for node in nodes for var in node.outputs)}
    factors = [node for node in nodes if not isinstance(getattr(node.op, "scalar_op", None), Add | Sub)]
    beside = [var for node in factors for var in node.inputs if var not in computed]
    return all(rv in model.observed_RVs or rv.type.dtype.startswith("float") for rv in _variables_in(beside, model))


def _variables_in(graphs: Sequence[Variable], model: Model) -> set[Variable]:
    return set(model.basic_RVs).intersection(ancestors(graphs, blockers=model.basic_RVs))


def distinct(read: Sequence[EffectsRead]) -> list[EffectsRead]:
    """Return effects that are read in several places once."""
    found: list[EffectsRead] = []
    for of in read:
        if not any(equal_computations([of.effects], [known.effects]) for known in found):
            found.append(of)
    return found


def _each_its_source(found: Sequence[Sequence[EffectsRead]]) -> list[EffectsRead]:
    """Choose one source of each effects, such that none is the source of more effects than it has entries.

    Effects that are affine in few variables choose first: of ``s * z`` and ``t * (rho * z + w)``, the first takes z.
    """
    by_source: dict[Variable, list[EffectsRead]] = {}
    for alike in sorted(found, key=len):
        free = [of for of in alike if _has_room(of, by_source.get(of.source, []))]
        for of in (free or alike)[:1]:
            by_source.setdefault(of.source, []).append(of)
    return [of for read in by_source.values() for of in read]


def _has_room(of: EffectsRead, others: Sequence[EffectsRead]) -> bool:
    """Whether the source of some effects has entries for these beside others of the same source."""
    return bool(sum(np.prod(one.shape) for one in distinct([*others, of])) <= np.prod(of.source_shape))


def _read_whole(
    source: Variable, free: set[Variable], clients: Mapping[Variable, list[Apply]], terms: Sequence[Variable]
) -> EffectsRead | None:
    """Return the effects of a variable that rows read all of: ``mu + tau * z``, which a matrix is multiplied by."""
    effects = at = source
    while len(clients.get(at, ())) == 1 and (at is source or at not in terms):
        (node,) = clients[at]
        # A matrix may have no inverse where a chain begins; and a variable may be what a prior reads.
        if isinstance(node.op, RandomVariable | SymbolicRandomVariable) or is_product(node):
            break
        at = node.outputs[0]
        if at.type.ndim == source.type.ndim:
            if inverse_by_ops(at, source, at.type()) is None:
                break
            effects = at
    others = set(ancestors([effects], blockers=[*terms])) - {source}
    if effects is source or free.isdisjoint(others):
        return None
    return EffectsRead(effects, effects, None, 0, source, None)


def is_read_by_rows(model: Model, var: Variable) -> bool:
    """Return whether a graph is entries of effects, one a row, on the first axis."""
    taken = None if var.owner is None else taken_by_group(var.owner)
    return taken is not None and taken[2] == 0 and not set(model.free_RVs).isdisjoint(ancestors([taken[0]]))


def _with_shapes(model: Model, found: Sequence[Sequence[EffectsRead]]) -> list[list[EffectsRead]]:
    """Return effects with their shapes, without those that do not change with their source where sampling starts."""
    if not found:
        return []
    variables = list(dict.fromkeys(var for alike in found for of in alike for var in (of.effects, of.source)))
    values, point = model.value_vars, model.initial_point()
    compute = pytensor.function(values, model.replace_rvs_by_values(variables), mode=BY_NUMPY, on_unused_input="ignore")

    def at(source: Variable | None, point: Mapping[str, np.ndarray] = point) -> dict[Variable, np.ndarray]:
        """Return all values at a point, where sampling starts, or with one variable away from there."""
        away = None if source is None else model.rvs_to_values[source]
        return dict(zip(variables, compute(*(point[v.name] + (v is away) for v in values)), strict=True))

    def moves_at(of: EffectsRead, point: Mapping[str, np.ndarray]) -> bool:
        return not np.array_equal(at(None, point)[of.effects], at(of.source, point)[of.effects])

    start = at(None)
    moved = {source: at(source) for source in dict.fromkeys(of.source for alike in found for of in alike)}
    with_shapes = []
    for alike in found:
        moving = [of for of in alike if not np.array_equal(start[of.effects], moved[of.source][of.effects])]
        if not moving and (elsewhere := start_of_loading(model, alike[0], partial(moves_at, alike[0]))):
            moving = [replace(alike[0], start=elsewhere)]
        with_shapes.append(
            [replace(of, shape=start[of.effects].shape, source_shape=start[of.source].shape) for of in moving]
        )
    return with_shapes


def _same_for_rows(node: Apply, own: int) -> bool:
    """Whether a node does the same to all rows of a first axis, which stay there, but for their sign."""
    if not keeps_affine(node.op, [own]) or isinstance(getattr(node.op, "scalar_op", None), Neg):
        return False
    if isinstance(node.op, Elemwise):
        others = [var for k, var in enumerate(node.inputs) if k != own]
        return node.inputs[own].type.ndim == node.outputs[0].type.ndim and all(v.type.broadcastable[0] for v in others)
    return isinstance(node.op, Dot) and own == 0 and node.inputs[0].type.ndim == 2


def _affine(
    effects: Variable, read: Variable, index: RowIndex | None, axis: int, sources: Sequence[Variable]
) -> list[EffectsRead]:
    """Return the effects with each variable that they are affine in."""
    affine = [source for source in sources if not _adds_entries(source, effects) and is_affine(effects, [source])]
    axes = {source: axis_entering(effects, 0, source) for source in affine}
    return [EffectsRead(effects, read, index, axis, *of) for of in axes.items() if of[1] is not None]


def is_affine(graph: Variable, variables: Sequence[Variable]) -> bool:
    """Whether a graph is known to be affine in some variables."""
    with suppress(NotImplementedError):
        require_affine(graph, variables)
        return True
    return False


def _by_ops(
    effects: Variable, read: Variable, index: RowIndex | None, axis: int, sources: Sequence[Variable]
) -> list[EffectsRead]:
    """Return the effects with each variable of which they are made op by op, as by running sums."""
    inverted = [source for source in sources if inverse_by_ops(effects, source, effects.type()) is not None]
    return [EffectsRead(effects, read, index, axis, source, None) for source in inverted]


def _adds_entries(source: Variable, effects: Variable) -> bool:
    """Whether effects are not as many as the entries of their source.

    As ``concatenate([zeros((n, 1)), z], axis=1)``, and ``z @ B`` with a matrix B that is not square.
    """
    nodes = nodes_between(source, effects)
    computed = {source, *(out for node in nodes for out in node.outputs)}
    set_into = [node.inputs[0] for node in nodes if isinstance(node.op, IncSubtensor | AdvancedIncSubtensor)]
    factors = [var for node in nodes if is_product(node) for var in node.inputs if var not in computed]
    return (
        takes_beside(source, effects, Join)
        or not computed.issuperset(set_into)
        or any(None not in (shape := var.type.shape[-2:]) and len(set(shape)) == 2 for var in factors)
    )


def _part_affine(indexed: Variable, effects: Variable, sources: Sequence[Variable]) -> list[EffectsRead]:
    """Return the last such part of what is indexed, a function of which the rows read: η of ``invlogit(η)[g]``.

    Its groups lie where those of `effects`, which are what is indexed with the groups first, come from.
    """
    for source in sources:
        for node in reversed(nodes_between(source, indexed)):
            part = node.outputs[0]
            (rest,) = graph_replace([indexed], {part: part.type()}, strict=False)
            if source in ancestors([rest]):
                break
            axis = axis_entering(effects, 0, part)
            if axis is None:
                continue
            of = pt.moveaxis(part, axis, 0), part, None, axis, [source]
            if found := _affine(*of) or _by_ops(*of):
                return found
    return []


def axis_entering(effects: Variable, at: int, source: Variable) -> int | None:
    """Return the axis of `source` whose entry k enters entry k of `effects` along an axis, and no other."""
    nodes = nodes_between(source, effects)
    computed = {source, *(out for node in nodes for out in node.outputs)}
    beside = {var for node in nodes for var in node.inputs if var not in computed}
    for axis in range(source.type.ndim):
        # What has an entry for each group, such as covariates or the effects of another factor, is aligned with them;
        # as many entries may also be chance.
        for aligned in (None, axis, at):
            may = [var for var in beside if aligned is not None and _may_have(var, aligned, source.type.shape[axis])]
            seeds = {source: RowAxis(axis), **{var: RowAxis(aligned) for var in may if aligned is not None}}
            with suppress(NotRowWiseError):
                if prove_row_axis(effects, seeds) == RowAxis(at):
                    return axis
    return None


def _may_have(var: Variable, axis: int, length: int | None) -> bool:
    """Whether a variable has so many entries along an axis, as far as the graph says."""
    shape = var.type.shape if isinstance(var.type, TensorType) else ()
    return axis < len(shape) and (shape[axis] == length or None in (shape[axis], length))
