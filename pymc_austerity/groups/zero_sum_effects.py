"""Effects that sum to zero, `pymc.ZeroSumNormal`, by all of their entries.

PyMC's coordinates are one fewer than the effects, of which each reads all of them.  With all effects in their place the
rows read one each, and their prior splits over groups; every move leaves the sum as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import ZeroSumTransform
from pymc.model import Model
from pytensor.graph.basic import Apply, Variable, equal_computations
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors

from pymc_austerity.groups.group_index import (
    EffectsRead,
    RowIndex,
    followed,
    is_factor,
    number_of_cell,
    taken_by_group,
)
from pymc_austerity.groups.several_entries import sum_of_entries
from pymc_austerity.likelihood import NotRowWiseError
from pymc_austerity.likelihood.axis import RowAxis
from pymc_austerity.likelihood.row_axis import prove_row_axis

#: Most sums of a table.
_MOST_SUMS = 12


def is_zero_sum(model: Model, rv: Variable) -> bool:
    """Whether a free variable is a vector of effects that sum to zero, or a table that does along one axis or both."""
    return rv.type.ndim < 3 and isinstance(model.rvs_to_transforms[rv], ZeroSumTransform)


def zero_sums_read(
    source: Variable,
    nodes: Sequence[Apply],
    clients: Mapping[Variable, Sequence[Apply]],
    terms: Sequence[Variable],
) -> list[EffectsRead]:
    """Return the effects that are a source whose entries sum to zero, times a factor; none if no row reads them so."""
    factors = partial(is_factor, n_axes=source.owner.op.ndim_supp)
    ends = [term for term in terms if term is not source]
    effects, _ = followed(source, source, clients, ends, factors)
    if source.type.ndim == 2:
        return _of_table(source, effects, nodes, terms)
    whole = [EffectsRead(effects, effects, None, 0, source, 0, zero_sum=True)]
    found: dict[Variable, EffectsRead] = {}
    scaled = [source]
    for at in scaled:
        for node in clients.get(at, ()):
            taken, own = taken_by_group(node), [k for k, var in enumerate(node.inputs) if var is at]
            if taken is not None and taken[0] is at and isinstance(taken[1], Variable):
                entries = sum_of_entries(node, clients, ends) or (node.outputs[0], [(1, taken[1])])
                (_, index), *others = entries[1]
                read, by_row = followed(entries[0], at, clients, ends, is_factor)
                found[read] = EffectsRead(by_row, read, index, 0, source, 0, tuple(others), True)
            elif at not in ends and len(own) == 1 and is_factor(node, own[0]):
                scaled.append(node.outputs[0])
            else:
                return whole
    read = list(found.values())
    alike = all(equal_computations([of.effects], [read[0].effects]) for of in read)
    return read if alike else whole


def _of_table(
    source: Variable, effects: Variable, nodes: Sequence[Apply], terms: Sequence[Variable]
) -> list[EffectsRead]:
    """Return where rows read a table of sums: by the numbers of columns, or of rows if these have sums; or of cells."""
    found = [
        EffectsRead(
            effects,
            node.outputs[0],
            *taken[1:],
            source,
            _axis_of(source, effects, *taken[:2]),
            zero_sum=True,
            table=taken[0],
        )
        for node in nodes
        if (taken := taken_by_group(node)) is not None and effects in set(ancestors([taken[0]]))
    ]
    cut = {of.read: of.read.type() for of in found}
    others = graph_replace([term for term in terms if term is not source], cut, strict=False)
    alike = {(isinstance(of.index, tuple), of.source_axis) for of in found}
    if len(alike) != 1 or found[0].source_axis is None or effects in set(ancestors(others)):
        return []
    return found


def _axis_of(source: Variable, effects: Variable, table: Variable, index: RowIndex) -> int | None:
    """Return the axis of a table along which groups lie and sum to zero; for cells the last; None if rows read more."""
    if isinstance(index, tuple):
        return 1 if table is effects else None
    for axis in (1, 0)[: source.owner.op.ndim_supp]:
        with suppress(NotRowWiseError):
            if prove_row_axis(table, {effects: RowAxis(axis)}) == RowAxis(0):
                return axis
    return None


def sums_are_few(of: EffectsRead) -> bool:
    """Whether rows read no table of many sums: that has the groups of its rows, or those that the graph shows."""
    if not of.zero_sum or of.table is None:
        return True
    n, m = sorted(of.source_shape)
    return n <= _MOST_SUMS and (of.source.owner.op.ndim_supp == 2 or of.source_shape[1] == m)


def sum_over(read: Sequence[EffectsRead]) -> int:
    """Return how many effects, one after the other, sum to zero."""
    return read[0].source_shape[_along(read[0])]


def _along(of: EffectsRead) -> int:
    """Return the axis along which the effects of a table that sum to zero are groups; cells of two, the longer."""
    by_longer = isinstance(of.index, tuple) and of.source.owner.op.ndim_supp == 2
    return int(np.argmax(of.source_shape)) if by_longer else of.source_axis or 0


def by_zero_sum(
    source: Variable, read: Sequence[EffectsRead]
) -> tuple[Variable, Variable, Variable, Variable, dict[Variable, Variable]]:
    """Return the change of variables from a source whose entries sum to zero to all of its effects.

    That are the effects by the source; what stands for them, by group; the source as a function of that; log p(z) +
    log |∂z/∂u| by group; and for what rows read the same in terms of the effects.
    """
    of, in_table = read[0], read[0].table is not None
    axis, both = _along(of), source.owner.op.ndim_supp == 2
    n, size = of.source_shape[axis], int(np.prod(of.source_shape)) // of.source_shape[axis]
    by_cell = isinstance(of.index, tuple) and not both
    # The entries of a group that sum to zero themselves are made of one number fewer, along orthonormal directions.
    inside: Any = pt.constant(np.linalg.svd(np.ones((1, size)))[2][1:]) if both else None
    new = pt.TensorType("float64", (n * size,) if by_cell else (n, size - both) if in_table else (n,))(source.name)
    by_group = new.reshape((size, n)).T if by_cell else new
    u = pt.moveaxis(by_group @ inside if both else by_group, 0, axis) if in_table else new
    (times,) = graph_replace([of.effects], {source: pt.ones(of.source_shape)}, strict=False)
    n_summed, (_, _, scale, _) = source.owner.op.ndim_supp, source.owner.inputs
    slope = times[(..., *[slice(1)] * n_summed)]
    slope = pt.specify_broadcastable(slope, *range(slope.type.ndim - n_summed, slope.type.ndim))  # not known with dims
    sd = slope * scale  # the same for all groups
    if by_cell:
        sd = pt.broadcast_to(sd, (size, 1))[:, 0][np.repeat(np.arange(size), n)]
    sds = sd.T if in_table else sd
    log_prior = -0.5 * (new / sds) ** 2 - (n - 1) / n * (pt.log(pt.abs(sds)) + 0.5 * np.log(2 * np.pi))
    by_row = {other.read: _in_effects(other, new, u, inside, axis) for other in read}
    effects = pt.moveaxis(of.effects, axis, 0) if in_table else of.effects
    return (
        effects.T.flatten() if by_cell else effects @ inside.T if both else effects,
        new,
        u / slope,
        log_prior.sum(axis=1) if new.type.ndim == 2 else log_prior,
        by_row,
    )


def _in_effects(of: EffectsRead, new: Variable, u: Variable, inside: Any, axis: int) -> Variable:
    """Return what rows read in terms of the effects: `new` by group, `u` as the model has them."""
    if isinstance(of.index, tuple):
        group, other = of.index[axis], of.index[1 - axis]
        if inside is not None:
            return (new[group] * inside.T[other]).sum(axis=1)
        return new[number_of_cell((other, group), (of.source_shape[1 - axis], of.source_shape[axis]))]
    if of.table is None:
        return of.by_row(new)
    (table,) = graph_replace([of.table], {of.effects: u}, strict=False)
    return pt.moveaxis(table[of.index], 0, of.axis)
