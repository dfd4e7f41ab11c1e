"""How a variable of a graph depends on the rows of the data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal, NamedTuple

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import walk
from pytensor.tensor.type import TensorType

from pymc_austerity.likelihood.rebuild import NotRowWiseError, OneEntryARowError


class RowAxis(NamedTuple):
    """How a variable depends on the rows.

    ``axis`` is the axis along which entry i belongs to row i.  A variable of kind "length" is the number of
    rows itself, one of kind "shape" is a shape vector that holds it at position ``axis``, and one of kind
    "number" holds i itself in entry i, as the index of a row's own entry does.

    Where other axes were put together with that of N rows, it has ``before`` * N * ``after`` entries, of which
    (b N + i) * ``after`` + a is one of row i.
    """

    axis: int
    kind: Literal["rows", "length", "shape", "number"] = "rows"
    before: int = 1
    after: int = 1

    @property
    def per_row(self) -> bool:
        """Whether there is one entry per row."""
        return self.kind in ("rows", "number")

    @property
    def shared(self) -> bool:
        """Whether the axis holds entries of other axes too."""
        return self.before * self.after > 1

    def at(self, axis: int) -> RowAxis:
        """Return the rows at another axis, which from there on are no numbers of rows, if they were."""
        return RowAxis(axis, "rows", self.before, self.after)


Axes = Sequence[RowAxis | None]
LENGTH = RowAxis(0, "length")


def refuse(node: Apply, what: str) -> NotRowWiseError:
    """Return an error that says what an op does, and where."""
    named = next((v.name for v in (*node.outputs, *node.inputs) if v.name), None)
    where = f" (near {named!r})" if named else ""
    return NotRowWiseError(f"{what} in op {node.op}{where}")


def refuse_entries(node: Apply, var: Variable, axis: int) -> NotRowWiseError:
    """Return an error that names the variable of the model whose entries meet the rows one by one."""
    length = var.type.shape[axis] or 1
    for source in walk([var], parents):
        entries = prod(n or 1 for n in source.type.shape) if source.name and isinstance(source.type, TensorType) else 0
        if entries >= length > 1:
            return OneEntryARowError(f"{source.name!r} has {entries} entries that belong to single rows")
    named = next((source.name for source in walk([var], parents) if source.name), None)
    of = f" computed from {named!r}" if named else ""
    return refuse(node, f"what has shape {var.type.shape}{of} and is not indexed by row meets the rows")


def parents(var: Variable) -> list[Variable]:
    """Return what a variable is computed from."""
    return [] if var.owner is None else list(var.owner.inputs)


def single_axis(node: Apply, axes: Sequence[RowAxis]) -> RowAxis:
    """Return the one row axis of several that are aligned; refuse rows along different ones."""
    if len({a.at(a.axis) for a in axes}) > 1:
        raise refuse(node, "rows meet rows along different axes, so every row reads every other,")
    return axes[0].at(axes[0].axis)
