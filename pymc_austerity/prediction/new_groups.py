"""Groups that a model has not seen: their effects are drawn from the prior given the scales of each draw.

The random variables of the effects are made again with an entry for each new group, and put behind those of the draws.
What their prior reads besides, scales for example, is that of the draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_austerity.groups import GroupsNotFoundError, read_groups
from pymc_austerity.likelihood.model_graph import plain_draw
from pymc_austerity.likelihood.rebuild import BatchRebuild
from pymc_austerity.paths.subset_model import SubsetModel
from pymc_austerity.prediction.groups_left_out import variables_of_factor
from pymc_austerity.prediction.new_rows import NewRows
from pymc_austerity.unsupported_model import UnsupportedModelError


class NewGroups(NamedTuple):
    """Groups of one factor beyond the `n_known` of a model, whose effects are entries of the variables `names`."""

    names: tuple[str, ...]
    n_known: int
    n_new: int


def new_groups(model: Model, rows: NewRows, observed: Any) -> list[NewGroups]:
    """Return the groups that new rows are in and the model does not have, numbered from the last of its own on."""
    held = {name: model[name].get_value(borrow=True) for name in rows.of_rows}
    numbered = [name for name, values in rows.of_rows.items() if values.dtype.kind in "iu"]
    if not any(rows.of_rows[name].max(initial=0) > held[name].max(initial=0) for name in numbered):
        return []
    try:
        found = read_groups(model, observed)
    except GroupsNotFoundError:
        return []
    arrays: list[np.ndarray] = [np.zeros(rows.n, np.int64)] * len(found.data.rows.arrays)
    for name, values in rows.of_rows.items():
        with suppress(ValueError):  # of outcomes
            arrays[found.data.number_of_leaf(model[name])] = values
    try:
        numbers = found.groups.of_rows(arrays)
    except UnsupportedModelError:
        raise ValueError(
            "posterior_predictive: new= has groups beyond an axis of a table of cells, and new groups are drawn where "
            "they lie along one. Number cells in one array."
        ) from None
    groups = []
    for factor, (first, end) in enumerate(zip(found.groups.first[:-1], found.groups.first[1:], strict=True)):
        most = numbers[np.array(found.groups.factors) == factor].max()
        if most >= end:
            names = tuple(variables_of_factor(found, factor))
            groups.append(NewGroups(names, int(end - first), int(most - end + 1)))
    return groups


def with_new_groups(
    outputs: Sequence[Variable],
    subset: SubsetModel,
    draws: Mapping[str, Variable],
    groups: NewGroups,
    of_groups: Mapping[str, np.ndarray],
) -> list[Variable]:
    """Return what is drawn, of new groups too; `draws` stand for the free variables by name.

    `of_groups` are data for the new groups, by the name of the ``pm.Data`` that holds those of the others.
    """
    model = subset.model
    names, n_known, n_new = groups
    for potential in model.potentials:
        if not {model[name] for name in names}.isdisjoint(ancestors([potential])):
            raise _not_drawn(f"there is no drawing from the potential {potential.name!r}, part of the prior of {names}")
    of_all = {}
    for name, values in of_groups.items():
        if (held := model[name].get_value(borrow=True)).shape[:1] == (n_known,):
            if values.shape != (n_new, *held.shape[1:]):
                raise ValueError(
                    f"posterior_predictive: new= has {name!r} of shape {values.shape}, and {n_new} new groups, the "
                    f"last of which has the number {n_known + n_new - 1}. Give {(n_new, *held.shape[1:])}."
                )
            joined = np.concatenate([held, values.astype(held.dtype)])
            of_all[model[name]] = pytensor.shared(joined, shape=(None,) * held.ndim)
    # Not constants: what has an entry for each of the known groups is then told by its shape when it is drawn.
    total, of_rows = pytensor.shared(np.int64(n_known + n_new)), subset.arrays[0]
    dims = {dim for name in names for dim in model.named_vars_to_dims.get(name, ())[:1]}
    lengths = {of: total for dim in dims if isinstance(of := model.dim_lengths.get(dim), Variable)}
    others = {model[name]: draw for name, draw in draws.items() if name not in names}
    whole = _WithNewGroups({**others, **of_all, **lengths}, n_known, total)
    whole.n_outcomes = of_rows.shared.shape[of_rows.axes[0]]
    for rv in (rv for rv in model.free_RVs if rv.name in names):
        drawn, shape = draws[str(rv.name)], model.eval_rv_shapes()[str(rv.name)]
        independent = shape[: rv.type.ndim - plain_draw(rv).owner.op.ndim_supp]
        if n_known not in independent:
            raise _not_drawn(f"the prior of {rv.name!r} ties groups to each other: there is none of a group by itself")
        axis = independent.index(n_known)
        # Known groups are drawn too, and left out.
        made = BatchRebuild.resize(whole, rv, [total if k == axis else int(n) for k, n in enumerate(independent)])
        whole.define(rv, made)
        new = made[(slice(None),) * axis + (slice(n_known, None),)]
        whole.define(drawn, pt.concatenate([drawn, new], axis=axis))
    return [whole(out) for out in outputs]


class _WithNewGroups(BatchRebuild):
    """`BatchRebuild` along the axis of groups, in graphs of outcomes, which have the axis of rows instead."""

    n_outcomes: Variable

    def resize(self, rv: Variable, shape: Sequence[Any], given: Mapping[int, Variable] | None = None) -> Variable:
        """Make a random variable again, of outcomes."""
        return super().resize(rv, [self.n_outcomes if n is self._n_batch else n for n in shape], given)


def _not_drawn(why: str) -> ValueError:
    return ValueError(f"posterior_predictive: new= has groups that the model has not seen, and {why}.")
