"""Arrays that a model shifts by slices, so that a row reads what belongs to the row before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import walk
from pytensor.tensor.subtensor import Subtensor

from pymc_austerity.likelihood.indices import bounds_of, constant_of, plain_indices
from pymc_austerity.likelihood.row_leaves import array_of, is_array_leaf


def said_of_lag(graphs: Sequence[Variable], n_rows: int, stop: Iterable[Variable]) -> str | None:
    """Return what to say of the first array of which the graphs read a stretch of as many entries as there are rows.

    Parameters
    ----------
    graphs : sequence of Variable
    n_rows : int
    stop : iterable of Variable
        What lies above them is left alone.
    """
    blocked = set(stop)

    def parents(var: Variable) -> list[Variable]:
        return [] if var in blocked or var.owner is None else list(var.owner.inputs)

    for var in walk(graphs, parents, bfs=False):
        if var.owner is None or not isinstance(var.owner.op, Subtensor):
            continue
        cut = _entries_cut(var.owner)
        for leaf in walk([var.owner.inputs[0]], parents, bfs=False) if cut else ():
            if is_array_leaf(leaf) and n_rows + cut in array_of(leaf).shape:
                what = repr(leaf.name) if leaf.name else f"an array of shape {array_of(leaf).shape}"
                return (
                    f"{what} is shifted inside the model (a lag, as in x[:-1]), and a batch of rows does not have the "
                    "rows before. Rows are independent given what they read: make the shifted arrays outside the model "
                    "and give them as data, x[1:] and x[:-1] for instance, which have an entry for each row"
                )
    return None


def _entries_cut(node: Apply) -> int:
    """Return how many entries a slice leaves out at the ends of an axis, zero where that is not known."""
    return max((_cut(index) for index in plain_indices(node) if isinstance(index, slice)), default=0)


def _cut(index: Any) -> int:
    start, stop, step = bounds_of(index)
    begin = 0 if start is None else constant_of(start)
    end = 0 if stop is None else constant_of(stop)
    whole = step is None or constant_of(step) == 1
    return begin - end if whole and begin is not None and end is not None and begin >= 0 >= end else 0
