"""How a variable of a graph depends on the rows of the data."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal, NamedTuple

from pytensor import scalar
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import walk
from pytensor.tensor.basic import MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.type import TensorType

from pymc_austerity.likelihood.model_graph import constant_of, plain_indices
from pymc_austerity.unsupported_model import UnsupportedModelError


class NotRowWiseError(UnsupportedModelError):
    """The log-likelihood of a model cannot be split into one term per row of the data."""


class OneEntryARowError(NotRowWiseError):
    """A variable of the model has an entry for each row, so that its entries grow with the data."""


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
#: How a lag is told in messages.
LAG = "(a lag, as in x[:-1])"
#: What is told of rows along two axes, as where an outcome with one column meets a mean without.
ALONG_DIFFERENT_AXES = (
    "rows meet rows along different axes, so every row reads every other (where row i is to meet row i, write mu[:, "
    "None] beside an outcome with one column, or give it as y[:, 0])"
)


def refuse(node: Apply, what: str) -> NotRowWiseError:
    """Return an error that says what an op does, and where."""
    named = next((v.name for v in (*node.outputs, *node.inputs) if v.name), None)
    where = f" (near {named!r})" if named else ""
    return NotRowWiseError(f"{what} in op {node.op}{where}")


def refuse_entries(node: Apply, var: Variable, axis: int) -> NotRowWiseError:
    """Return an error that names the variable of the model whose entries meet the rows one by one."""
    length = var.type.shape[axis] or 1
    sources = list(walk([var], lambda v: v.owner and v.owner.inputs))
    for source in sources:
        entries = prod(n or 1 for n in source.type.shape) if source.name and isinstance(source.type, TensorType) else 0
        if entries >= length > 1:
            return OneEntryARowError(f"{source.name!r} has {entries} entries that belong to single rows")
    named = next((source.name for source in sources if source.name), None)
    of = f" computed from {named!r}" if named else ""
    what = f"what has shape {var.type.shape}{of} and is not indexed by row meets the rows"
    return refuse(node, f"{what} (an entry of it for each row is written u[g], with an array g of whole numbers)")


def single_axis(node: Apply, axes: Sequence[RowAxis]) -> RowAxis:
    """Return the one row axis of several that are aligned; refuse rows along different ones."""
    if len({a.at(a.axis) for a in axes}) > 1:
        raise refuse(node, f"{ALONG_DIFFERENT_AXES},")
    return axes[0].at(axes[0].axis)


def is_number_of_rows(length: Variable) -> bool:
    """Return whether a number of kind "length" is shown to be exactly the number of rows."""
    node = length.owner
    if node is None or isinstance(node.op, Shape_i):
        return True
    if isinstance(node.op, TensorFromScalar | ScalarFromTensor):
        return is_number_of_rows(node.inputs[0])
    if isinstance(node.op, Subtensor):
        source = node.inputs[0].owner
        return source is not None and isinstance(source.op, Shape) and constant_of(plain_indices(node)[0]) is not None
    if not isinstance(node.op, Elemwise):
        return False
    if isinstance(node.op.scalar_op, scalar.Mul):
        rest = [v for v in node.inputs if constant_of(v) != 1]
        return len(rest) == 1 and is_number_of_rows(rest[0])
    same = isinstance(node.op.scalar_op, scalar.Cast | scalar.Identity | scalar.ScalarMinimum)
    return same and all(map(is_number_of_rows, node.inputs))


def entry_is_number_of_rows(shape: Variable, position: int) -> bool:
    """Return whether the entry of a shape that depends on the number of rows may be that number."""
    made = shape.owner is not None and isinstance(shape.owner.op, MakeVector)
    return not made or is_number_of_rows(shape.owner.inputs[position])
