"""What numbers the groups of rows, and where a graph takes entries of effects by these numbers.

These are an array of whole numbers, a sum of several, as in ``u[state + 50 * age]``, or an array by way of a constant
one, as in ``u[school_of_class[class_]]``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.scalar import Add, Cast, Minimum, Mul, Sub, TrueDiv
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.likelihood.model_graph import array_of, is_array_leaf, leaf_identity, plain_indices

#: Vector of whole numbers, or of cells such as ``effects[age, state]`` one vector for each axis.
RowIndex: TypeAlias = Variable | tuple[Variable, ...]


class Index(NamedTuple):
    """An index by a sum of arrays of whole numbers, each times a number, to which the model adds one."""

    leaves: dict[Variable, int]
    offset: int
    ends: dict[Variable, int]  # the largest number of arrays that count along an axis
    tables: Mapping[Variable, np.ndarray] = MappingProxyType({})  # what arrays are looked up in, int (n,)

    @property
    def key(self) -> Hashable:
        """Equal for indices with the same numbers."""
        leaves = frozenset(
            (leaf_identity(leaf), times, self.tables[leaf].tobytes() if leaf in self.tables else b"")
            for leaf, times in self.leaves.items()
        )
        return leaves, self.offset

    @property
    def name(self) -> str:
        """The names of the arrays."""
        return " and ".join(leaf.name or "a constant array" for leaf in self.leaves)


def index_of(node: Apply) -> Index | None:
    """Return what indexes the first axis at this node, if that is made of arrays of whole numbers."""
    if not isinstance(node.op, AdvancedSubtensor):
        return None
    found = _sum_of_leaves(plain_indices(node)[0])
    return found if found is not None and found.leaves else None


def _sum_of_leaves(index: Any) -> Index | None:
    """Return the arrays and the number that an index is the sum of."""
    if _is_number(index):
        return Index({}, int(np.asarray(index.data).item()), {})
    if not isinstance(index, Variable) or np.dtype(index.type.dtype).kind not in "iu":
        return None
    if is_array_leaf(index):
        return Index({index: 1}, 0, {})
    if index.owner is not None and isinstance(index.owner.op, AdvancedSubtensor):
        return _looked_up(index.owner)
    if index.owner is None or not isinstance(index.owner.op, Elemwise):
        return None
    op, (first, *_) = index.owner.op.scalar_op, index.owner.inputs
    if isinstance(op, Cast) and is_array_leaf(first):  # of floats, too, as a table with missing entries has them
        return Index({first: 1}, 0, {})
    parts = [_sum_of_leaves(part) for part in index.owner.inputs]
    if any(part is None for part in parts):
        return None
    found = [part for part in parts if part is not None]
    tables = {leaf: table for part in found for leaf, table in part.tables.items()}
    if tables and any(sum(leaf in part.leaves for part in found) > 1 for leaf in tables):
        return None
    if isinstance(op, Cast):
        return found[0]
    if isinstance(op, Minimum) and len(found[0].leaves) == 1 and not found[1].leaves:
        return found[0]._replace(ends=dict.fromkeys(found[0].leaves, found[1].offset))
    if isinstance(op, Mul) and sum(bool(part.leaves) for part in found) <= 1:
        times = int(np.prod([part.offset for part in found if not part.leaves], dtype=int))
        (of,) = [part for part in found if part.leaves] or [Index({}, 1, {})]
        return Index({leaf: times * by for leaf, by in of.leaves.items()}, times * of.offset, of.ends, tables)
    if isinstance(op, Add | Sub):
        signs, leaves = [1, -1 if isinstance(op, Sub) else 1, *[1] * len(found)], dict[Variable, int]()
        for sign, part in zip(signs, found, strict=False):
            for leaf, times in part.leaves.items():
                leaves[leaf] = leaves.get(leaf, 0) + sign * times
        offset = sum(sign * part.offset for sign, part in zip(signs, found, strict=False))
        return Index(leaves, offset, {leaf: end for part in found for leaf, end in part.ends.items()}, tables)
    return None


def _looked_up(node: Apply) -> Index | None:
    """Return an index by the entries of a constant array that another one gives the numbers of."""
    table, (numbers, *others) = node.inputs[0], plain_indices(node)
    by = _sum_of_leaves(numbers)
    if not isinstance(table, Constant) or table.type.ndim != 1 or others or by is None:
        return None
    if list(by.leaves.values()) != [1] or by.offset or by.ends:
        return None
    (leaf,) = by.leaves
    entries = np.asarray(table.data)
    return by._replace(tables={leaf: entries[by.tables[leaf]] if leaf in by.tables else entries})


def _is_number(var: Variable) -> bool:
    return isinstance(var, Constant) and np.size(var.data) == 1


@dataclass(frozen=True, eq=False)
class EffectsRead:
    """Effects that rows read by the index of their group, and the variable that they are affine in."""

    effects: Variable  # groups on the first axis, shape (G, ...)
    #: ``effects[index]`` in the graph of the model, or the effects themselves where rows read a function of them.
    read: Variable
    index: RowIndex | None
    axis: int  # axis of `read` along which the rows lie, or the groups
    source: Variable  # the variable of the model that `effects` are affine in
    #: Axis of `source` along which the groups lie; None where the effects of a group read all of it.
    source_axis: int | None
    #: Sign and index of further entries that rows add to the first, as in ``tau * (z[home] - z[away])``.
    others: tuple[tuple[int, Variable], ...] = ()
    zero_sum: bool = False  # whether the effects are a factor times a source whose entries sum to zero
    table: Variable | None = None  # what is indexed, groups first, where rows of a table of effects sum to zero
    #: Of `effects` and of `source`; the graph may leave lengths to the coordinates of the model.
    shape: tuple[int, ...] = ()
    source_shape: tuple[int, ...] = ()
    #: Where a loading starts that is 0 in the initial point, by its name.
    start: Mapping[str, np.ndarray] = field(default_factory=dict)

    def by_row(self, effects: Variable) -> Variable:
        """Return what rows read, of other effects in the place of these."""
        if self.index is None:
            return pt.moveaxis(effects, 0, self.axis)
        rows = effects[self.index]
        for sign, index in self.others:
            rows = rows + effects[index] if sign > 0 else rows - effects[index]
        return pt.moveaxis(rows, 0, self.axis)


def taken_by_group(node: Apply) -> tuple[Variable, RowIndex, int] | None:
    """Return what a node takes entries of, with the groups first; by which index; and the axis of the rows."""
    if not isinstance(node.op, AdvancedSubtensor):
        return None
    indices = plain_indices(node)
    vectors = [k for k, i in enumerate(indices) if isinstance(i, Variable) and i.type.ndim]
    if 1 < len(indices) == len(vectors) == node.inputs[0].type.ndim and all(map(_counts_from_zero, indices)):
        return node.inputs[0], tuple(indices), 0
    if len(vectors) != 1 or not _is_whole_vector(indices[vectors[0]]):
        return None
    (axis,) = vectors
    others = [i for k, i in enumerate(indices) if k != axis]
    if any(not isinstance(i, slice) and not _is_one_number(i) for i in others):
        return None
    numbers = [k for k, i in enumerate(indices) if not isinstance(i, slice)]
    together = numbers[-1] - numbers[0] + 1 == len(numbers)
    row_axis = sum(isinstance(i, slice) for i in indices[: numbers[0]]) if together else 0
    effects = pt.moveaxis(node.inputs[0], axis, 0)
    if others:
        effects = effects[(slice(None), *others)]
    return effects, indices[axis], row_axis


def followed(
    read: Variable,
    effects: Variable,
    clients: Mapping[Variable, Sequence[Apply]],
    ends: Sequence[Variable],
    passes: Callable[[Apply, int], bool],
) -> tuple[Variable, Variable]:
    """Return what is read behind single nodes that `passes` holds of, and what the same nodes make of effects."""
    while read not in ends and len(clients.get(read, ())) == 1:
        (node,) = clients[read]
        which = [k for k, var in enumerate(node.inputs) if var is read]
        if len(which) != 1 or not passes(node, which[0]):
            break
        effects = node.op(*[effects if var is read else var for var in node.inputs])
        read = node.outputs[0]
    return read, effects


def is_factor(node: Apply, own: int, n_axes: int = 1) -> bool:
    """Whether a node multiplies an input by what is the same along its last axes."""
    scalar = node.op.scalar_op if isinstance(node.op, Elemwise) else None
    others = [var for k, var in enumerate(node.inputs) if k != own]
    multiplies = isinstance(scalar, Mul) or (isinstance(scalar, TrueDiv) and own == 0)
    return multiplies and all(all(var.type.broadcastable[-n_axes:]) for var in others)


def _is_whole_vector(index: Variable) -> bool:
    return index.type.ndim == 1 and np.dtype(index.type.dtype).kind in "iu"


def _counts_from_zero(index: Variable) -> bool:
    """Whether an index of cells is an array of the model without a number that counts from the end."""
    return _is_whole_vector(index) and is_array_leaf(index) and array_of(index).min(initial=0) >= 0


def _is_one_number(index: Any) -> bool:
    return isinstance(index, int | np.integer) or (isinstance(index, Variable) and index.type.ndim == 0)


def number_of_cell(index: tuple[Variable, ...], shape: tuple[int, ...]) -> Variable:
    """Return the numbers of cells in a table that is read along its last axis first."""
    strides = np.cumprod((1, *shape[:0:-1]))[::-1].tolist()
    if all(isinstance(i, Constant) for i in index):  # one array, of the data of the model
        numbers = sum(t * i.data.astype(np.int64) for t, i in zip(strides, index, strict=True))
        return pytensor.shared(numbers, shape=numbers.shape)  # a constant may be taken for the numbers of the rows
    # Numbers beyond the end, which `pm.set_data` may bring, are refused by `Groups.of_rows`.
    ends = [pt.minimum(pt.cast(i, "int64"), n - 1) for i, n in zip(index, shape, strict=True)]
    return sum(t * i for t, i in zip(strides, ends, strict=True))
