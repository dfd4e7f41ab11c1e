"""Rows that a model has not seen, in place of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import walk
from pytensor.tensor.shape import Shape, Shape_i

from pymc_austerity.paths.subset_model import RowArray, SubsetModel
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
