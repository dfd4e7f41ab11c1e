"""Rows that a model has not seen in place of its own, and groups among them that it has not seen.

Of such groups the random variables are made again, with entries for the known and the new ones, of which the new are
put behind those of the draws.  What their prior reads besides, scales for example, is that of the draw.
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
from pytensor.graph.traversal import ancestors, walk
from pytensor.tensor.shape import Shape, Shape_i

from pymc_austerity.groups import GroupsNotFoundError, read_groups
from pymc_austerity.likelihood import read_model
from pymc_austerity.likelihood.model_graph import plain_draw
from pymc_austerity.likelihood.rebuild import BatchRebuild
from pymc_austerity.paths.row_arrays import RowArray
from pymc_austerity.paths.subset_model import SubsetModel
from pymc_austerity.prediction.groups_left_out import variables_of_factor
from pymc_austerity.unsupported_model import UnsupportedModelError
from pymc_austerity.user_input import shown


class NewRows:
    """`n` rows, by the names of the ``pm.Data`` that hold such arrays of a model.

    Every array with the rows has to be there that the variables `names` are drawn from. Arrays of other lengths are
    `of_groups`: what the model has an entry of for each group, for groups that it has not seen.
    """

    def __init__(self, new: Any, model: Model, subset: SubsetModel, names: Sequence[str]):
        if isinstance(new, type) or not (isinstance(new, Mapping) or hasattr(new, "columns")):
            raise TypeError(
                f"posterior_predictive: new={shown(new)} must be a dict from the names of pm.Data to arrays."
            )
        there, known = list(getattr(new, "columns", new)), [data.name for data in model.data_vars]
        if wrong := [name for name in there if name not in known]:
            raise ValueError(
                f"posterior_predictive: new= has {wrong}, and the model holds its data in {known}. Give what new rows "
                "have under the name of the pm.Data that holds it for the others."
            )
        given = {str(name): np.asarray(new[name]) for name in there}
        rows = {array.label: array for array in subset.arrays}
        self.of_rows = {name: _as_held(name, values, rows[name]) for name, values in given.items() if name in rows}
        self.of_groups = {name: values for name, values in given.items() if name not in rows}
        _require_all(self.of_rows, subset, names)
        lengths = {name: len(values) for name, values in self.of_rows.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"posterior_predictive: new= must have arrays with as many rows each, and has {lengths}.")
        self.n, self._arrays = next(iter(lengths.values())), subset.arrays

    def take(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """Return some rows for `SubsetModel.put`, with any outcome where theirs is not known."""
        held = {array.label: array.take(np.zeros(1, np.int64)) for array in self._arrays}
        return {
            str(array.shared.name): self.of_rows[array.label][numbers]
            if array.label in self.of_rows
            else np.repeat(held[array.label], len(numbers), axis=array.axes[0])
            for array in self._arrays
        }


def _as_held(name: str, values: np.ndarray, array: RowArray) -> np.ndarray:
    """Return what is given in place of an array, as the model holds it."""
    like = array.values
    if array.axes != (0,) or values.shape[1:] != like.shape[1:] or values.ndim != like.ndim:
        raise ValueError(
            f"posterior_predictive: new= has {name!r} of shape {values.shape}, where the model has {like.shape}. Give "
            "rows on the first axis, and the other axes as they are."
        )
    with np.errstate(all="ignore"):
        found = values.astype(like.dtype)
    wrong = ~np.isfinite(found) if found.dtype.kind == "f" else found != values
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        raise ValueError(
            f"posterior_predictive: new= has {values[row]} in row {row} of {name!r}, of which {found.dtype} makes "
            f"{found[row]}. Give finite numbers of that type."
        )
    return found


def _require_all(given: Mapping[str, Any], subset: SubsetModel, names: Sequence[str]) -> None:
    """Refuse new rows without an array that outcomes are drawn from."""

    def read(var: Variable) -> list[Variable]:
        return [] if var.owner is None or isinstance(var.owner.op, Shape | Shape_i) else list(var.owner.inputs)

    drawn_from = set(walk([subset.model[name] for name in names], read, bfs=False))
    missing = [array.label for array in subset.arrays if array.shared in drawn_from and array.label not in given]
    if missing or not given:
        raise ValueError(
            f"posterior_predictive: new= lacks {sorted(missing) or 'any array with the rows'}, and {list(names)} are "
            "drawn from that. What is to be given for new rows has to be in the model as pm.Data(name, array)."
        )


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
        # Of sets of rows that are taken together the numbers of groups would no longer be those of a container.
        data = read_model(model, model.value_vars, observed, None, several=False, number_rows=True, join=True)
        found = read_groups(model, data.terms.sets[0].names, data=data)
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
