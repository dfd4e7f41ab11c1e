"""Groups that a model has not seen: their effects are drawn from the prior given the scales of each draw.

The random variables of the effects are made again with an entry for each new group, and put behind those of the draws.
What their prior reads besides, scales for example, is that of the draw.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_austerity.groups import GroupsNotFoundError, ModelWithGroups, read_groups
from pymc_austerity.likelihood.model_graph import array_of, is_array_leaf, plain_draw
from pymc_austerity.likelihood.rebuild import BatchRebuild
from pymc_austerity.paths.subset_model import SubsetModel
from pymc_austerity.prediction.groups_left_out import variables_of_factor
from pymc_austerity.prediction.new_rows import NewRows

#: Of a random variable.
_MOST_AXES = 5


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
    numbers = _numbers(model, found, rows)
    groups = []
    for factor, (first, end) in enumerate(zip(found.groups.first[:-1], found.groups.first[1:], strict=True)):
        most = max((n.max(initial=0) for n, f in zip(numbers, found.groups.factors, strict=True) if f == factor))
        if most >= end - first:
            names = tuple(variables_of_factor(found, factor))
            groups.append(NewGroups(names, int(end - first), int(most - (end - first) + 1)))
    return groups


def _numbers(model: Model, found: ModelWithGroups, rows: NewRows) -> list[np.ndarray]:
    """Return the number of the group of each row within its factor, by each index."""
    by_number = {}
    for name, values in rows.of_rows.items():
        with suppress(ValueError):  # of outcomes
            by_number[found.data.number_of_leaf(model[name])] = values
    numbers: list[np.ndarray] = []
    for index, offset in zip(found.groups.indices, found.groups.offsets, strict=True):
        if not all(of.number in by_number for of in index):
            numbers.append(np.zeros(0, np.int64))  # of rows as they are
            continue
        for of in index:
            if of.most is not None and by_number[of.number].max(initial=0) > of.most:
                raise ValueError(
                    f"posterior_predictive: new= has groups beyond {of.most} along an axis of a table of cells, and "
                    "new groups are drawn where they lie along one. Number cells in one array."
                )
        numbers.append(offset + np.sum([of.times * by_number[of.number].astype(np.int64) for of in index], axis=0))
    return numbers


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
    lengths = {
        length
        for name in names
        for dim in model.named_vars_to_dims.get(name, ())[:1]
        if isinstance(length := model.dim_lengths.get(dim), Variable)
    }
    fresh_data = {}
    for name, values in of_groups.items():
        if (held := model[name].get_value(borrow=True)).shape[:1] == (n_known,):
            if values.shape != (n_new, *held.shape[1:]):
                raise ValueError(
                    f"posterior_predictive: new= has {name!r} of shape {values.shape}, and {n_new} new groups, the "
                    f"last of which has the number {n_known + n_new - 1}. Give {(n_new, *held.shape[1:])}."
                )
            fresh_data[model[name]] = pt.constant(values.astype(held.dtype))
    size = pt.constant(n_new, dtype="int64")
    others = {model[name]: draw for name, draw in draws.items() if name not in names}
    fresh = BatchRebuild({**others, **fresh_data, **dict.fromkeys(lengths, size)}, n_known, size)
    joined: dict[Variable, Variable] = {leaf: pt.concatenate([leaf, new]) for leaf, new in fresh_data.items()}
    for rv in (rv for rv in model.free_RVs if rv.name in names):
        drawn, shape = draws[str(rv.name)], model.eval_rv_shapes()[str(rv.name)]
        independent = shape[: rv.type.ndim - plain_draw(rv).owner.op.ndim_supp]
        if n_known not in independent:
            raise _not_drawn(f"the prior of {rv.name!r} ties groups to each other: there is none of a group by itself")
        axis = independent.index(n_known)
        made = fresh.resize(rv, [size if k == axis else int(n) for k, n in enumerate(independent)])
        fresh.define(rv, made)
        _refuse_unknown_data([made], n_known, names)
        joined[drawn] = pt.concatenate([drawn, made], axis=axis)
    _refuse_unknown_data(outputs, n_known, names, {*fresh_data, *(array.shared for array in subset.arrays)})
    total, of_rows = pt.constant(n_known + n_new, dtype="int64"), subset.arrays[0]
    whole = _WithNewGroups({**joined, **dict.fromkeys(lengths, total)}, n_known, total)
    whole.n_outcomes = of_rows.shared.shape[of_rows.axes[0]]
    return [whole(out) for out in outputs]


class _WithNewGroups(BatchRebuild):
    """`BatchRebuild` along the axis of groups, in graphs of outcomes, which have the axis of rows instead."""

    n_outcomes: Variable

    def resize(self, rv: Variable, shape: Sequence[Any], given: Mapping[int, Variable] | None = None) -> Variable:
        """Make a random variable again, of outcomes."""
        return super().resize(rv, [self.n_outcomes if n is self._n_batch else n for n in shape], given)


def _not_drawn(why: str) -> ValueError:
    return ValueError(f"posterior_predictive: new= has groups that the model has not seen, and {why}.")


def _refuse_unknown_data(
    graphs: Sequence[Variable], n_known: int, names: Sequence[str], known: Collection[Variable] = ()
) -> None:
    """Refuse data with an entry for each group, where those of new groups are not known."""
    for leaf in ancestors(graphs):
        if not is_array_leaf(leaf) or array_of(leaf).shape[:1] != (n_known,) or leaf in known:
            continue
        if n_known > _MOST_AXES or np.dtype(leaf.type.dtype).kind == "f":  # fewer whole numbers may be a shape
            raise _not_drawn(
                f"{list(names)} read {leaf.name or 'an array'} with an entry for each of {n_known} groups. Hold it "
                "in a pm.Data, and give its entries of the new groups in new= too"
            )
