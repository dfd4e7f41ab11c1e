"""The data arrays of a model that have rows, each as a shared variable that can hold any subset of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
from numpy.typing import NDArray
from pymc.model.fgraph import ModelObservedRV
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors

from pymc_austerity.likelihood.model_graph import array_of, is_array_leaf, leaf_identity

#: Rows that the shared variables hold until the first subset is put in.
PROBE_ROWS = 16


@dataclass(frozen=True, eq=False)
class RowArray:
    """A data array of the model and the axes along which its rows lie."""

    label: str
    shared: SharedVariable
    values: NDArray[Any]
    axes: tuple[int, ...]

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the array of a subset of rows."""
        subset = self.values
        for axis in self.axes:
            subset = np.take(subset, rows, axis=axis)
        return subset


def find_row_arrays(
    graph: FunctionGraph, n_rows: int, row_axes: Mapping[str, int | Sequence[int]]
) -> dict[Variable, RowArray]:
    """Return the data arrays in the graph of a model that have rows; one that is read twice is the same `RowArray`.

    `row_axes` says of arrays by their name along which axes the rows lie.

    Raises ValueError where that is not clear, and for names of no array.
    """
    found: dict[Variable, RowArray] = {}
    by_identity: dict[Hashable, RowArray] = {}
    unknown = set(row_axes)
    for out in graph.outputs:
        for leaf in ancestors([out]):
            if leaf in found or not is_array_leaf(leaf) or leaf.type.ndim == 0:
                continue
            values = np.asarray(array_of(leaf))
            label = leaf.name or _label(out, leaf, values)
            unknown.discard(label)
            axes = _axes_of(label, values, n_rows, row_axes)
            key = leaf_identity(leaf)
            if axes and key not in by_identity:
                static = tuple(None if axis in axes else n for axis, n in enumerate(values.shape))
                probe = values
                for axis in axes:
                    probe = np.take(probe, np.arange(min(n_rows, PROBE_ROWS)), axis=axis)
                name = f"rows_{len(by_identity)}" if isinstance(leaf, Constant) else leaf.name
                shared = pytensor.shared(probe, name=name, shape=static)
                by_identity[key] = RowArray(label, shared, values, axes)
            if axes:
                # An array that the model reads twice is subset once.
                found[leaf] = by_identity[key]
    if unknown:
        raise ValueError(f"row_axes names {sorted(unknown)}, but the model has no data of that name (pm.Data).")
    return found


def _label(out: Variable, leaf: Variable, values: NDArray[Any]) -> str:
    if isinstance(out.owner.op, ModelObservedRV) and leaf is out.owner.inputs[1]:
        return f"observed values of {out.name}"
    return f"array of shape {values.shape} read by {out.name}"


def _axes_of(
    label: str, values: NDArray[Any], n_rows: int, row_axes: Mapping[str, int | Sequence[int]]
) -> tuple[int, ...]:
    matching = tuple(axis for axis, n in enumerate(values.shape) if n == n_rows)
    if label not in row_axes:
        if matching in ((), (0,)):
            return matching
        raise ValueError(
            f"The {label} of shape {values.shape} has {n_rows} entries along axes {matching}, and only the first "
            "axis is taken for the row axis without asking. Make it a pm.Data and name its row axes: "
            f"row_axes={{name: {matching}}} or another choice."
        )
    given = row_axes[label]
    axes = (given,) if isinstance(given, int) else tuple(given)
    wrong = [axis for axis in axes if axis not in matching]
    if wrong:
        raise ValueError(f"row_axes[{label!r}] names axes {wrong}, which do not have {n_rows} entries {values.shape}.")
    return axes
