"""What numbers the groups of rows: an array of whole numbers, or a sum of several, as in ``u[state + 50 * age]``.

Or an array by way of a constant one, as in ``u[school_of_class[class_]]``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from pymc.model import Model
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, apply_ancestors
from pytensor.scalar import Add, Cast, Minimum, Mul, Sub
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.likelihood.model_graph import is_array_leaf, leaf_identity, plain_indices


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


def reads_by_number(model: Model) -> bool:
    """Return whether anything that is observed reads entries of a variable by their numbers."""
    free = set(model.free_RVs)
    nodes = apply_ancestors([*model.observed_RVs, *model.potentials], blockers=free)
    return any(index_of(node) is not None and not free.isdisjoint(ancestors(node.inputs[:1])) for node in nodes)


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
    op, parts = index.owner.op.scalar_op, [_sum_of_leaves(part) for part in index.owner.inputs]
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
