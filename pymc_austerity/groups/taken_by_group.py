"""Effects, and where a graph takes entries of them by the numbers of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.likelihood.model_graph import array_of, is_array_leaf, plain_indices

#: Vector of whole numbers, or of cells such as ``effects[age, state]`` one vector for each axis.
Index: TypeAlias = Variable | tuple[Variable, ...]


@dataclass(frozen=True, eq=False)
class EffectsRead:
    """Effects that rows read by the index of their group, and the variable that they are affine in."""

    effects: Variable  # groups on the first axis, shape (G, ...)
    #: ``effects[index]`` in the graph of the model, or the effects themselves where rows read a function of them.
    read: Variable
    index: Index | None
    axis: int  # axis of `read` along which the rows lie, or the groups
    source: Variable  # the variable of the model that `effects` are affine in
    #: Axis of `source` along which the groups lie; None where the effects of a group read all of it.
    source_axis: int | None
    zero_sum: bool = False  # whether the effects are a factor times a source whose entries sum to zero
    table: Variable | None = None  # what is indexed, groups first, where rows of a table of effects sum to zero
    #: Of `effects` and of `source`; the graph may leave lengths to the coordinates of the model.
    shape: tuple[int, ...] = ()
    source_shape: tuple[int, ...] = ()
    #: Where a loading starts that is 0 in the initial point, by its name.
    start: Mapping[str, np.ndarray] = field(default_factory=dict)


def taken_by_group(node: Apply) -> tuple[Variable, Index, int] | None:
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
    if any(not isinstance(i, slice) and not _is_number(i) for i in others):
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


def _is_whole_vector(index: Variable) -> bool:
    return index.type.ndim == 1 and np.dtype(index.type.dtype).kind in "iu"


def _counts_from_zero(index: Variable) -> bool:
    """Whether an index of cells is an array of the model without a number that counts from the end."""
    return _is_whole_vector(index) and is_array_leaf(index) and array_of(index).min(initial=0) >= 0


def _is_number(index: Any) -> bool:
    return isinstance(index, int | np.integer) or (isinstance(index, Variable) and index.type.ndim == 0)


def number_of_cell(index: tuple[Variable, ...], shape: tuple[int, ...]) -> Variable:
    """Return the numbers of cells in a table that is read along its last axis first."""
    strides = np.cumprod((1, *shape[:0:-1]))[::-1].tolist()
    if all(isinstance(i, Constant) for i in index):  # one array, of the data of the model
        return pt.constant(sum(t * i.data.astype(np.int64) for t, i in zip(strides, index, strict=True)))
    # Numbers beyond the end, which `pm.set_data` may bring, are refused by `Groups.of_rows`.
    ends = [pt.minimum(pt.cast(i, "int64"), n - 1) for i, n in zip(index, shape, strict=True)]
    return sum(t * i for t, i in zip(strides, ends, strict=True))
