"""The arrays of a model that have an axis as long as there are rows, and the batches that take their place.

``pt.set_subtensor(mu[numbers], b)`` numbers places among all rows.  Whether a row is among them becomes a datum of the
row, by which it chooses between its own entry and b.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.basic import ARange
from pytensor.tensor.shape import Reshape
from pytensor.tensor.type import DenseTensorType, TensorType

from pymc_austerity.likelihood.model_graph import (
    ASSIGNS,
    array_of,
    constant_index,
    constant_of,
    is_array_leaf,
    leaf_identity,
    name_of_data,
    plain_indices,
    row_axis_in,
    value_of_constants,
    variables_in,
)
from pymc_austerity.unsupported_model import UnsupportedModelError


def _assigned_rows(node: Apply | None, n_rows: int) -> np.ndarray | None:
    """Return the mask of the rows that a node sets or raises by constant numbers; None where it does not."""
    if node is None or not isinstance(node.op, ASSIGNS) or node.inputs[0].type.shape[0] not in (None, n_rows):
        return None
    first, *rest = plain_indices(node)
    index = constant_index(first)
    if index is None or not all(isinstance(i, slice) and i == slice(None) for i in rest):
        return None
    repeated = isinstance(index, np.ndarray) and np.unique(index % n_rows).size < index.size
    if repeated and not node.op.set_instead_of_inc:
        return None
    mask = np.zeros(n_rows, dtype=bool)
    try:
        mask[index] = True
    except IndexError:
        return None
    # All rows, or none, is what an index of columns looks like whose first entry is a slice.
    return None if mask.all() else mask


def assign_by_mask(node: Apply, inputs: Sequence[Variable], masks: Mapping[Variable, Variable]) -> Variable | None:
    """Return a variable of which rows are set or raised, by a mask of `masks` or its own, for inputs of a batch.

    None where no rows are set, or each to a value of its own.
    """
    x, value, *indices = inputs
    mask = masks.get(node.outputs[0])
    if mask is None and len(indices) == 1 and indices[0] is not node.inputs[2]:
        is_mask = isinstance(indices[0].type, TensorType) and indices[0].type.dtype == "bool"
        mask = indices[0] if is_mask and indices[0].type.ndim == 1 else None
    own = value.type.ndim == x.type.ndim and not value.type.broadcastable[0]
    if mask is None or x is node.inputs[0] or own:
        return None
    chosen = pt.switch(mask.dimshuffle(0, *["x"] * (x.type.ndim - 1)), value, x if node.op.set_instead_of_inc else 0)
    result = chosen if node.op.set_instead_of_inc else x + chosen
    return pt.cast(result, node.outputs[0].type.dtype)


@dataclass(frozen=True)
class RowLeaf:
    """A data array of the model and the symbolic batch that takes its place."""

    source: Variable
    batch: Variable  # has its rows on the first axis, wherever the source has them
    label: str
    axis: int = 0  # the row axis of the source, as it is unfolded
    #: Shape with a row axis of a source whose first axis holds several entries of each row, as in a table of rows and
    #: alternatives in long form.
    unfolded: tuple[int, ...] | None = None
    marks_rows: bool = False  # whether it is the mask of rows that are set or raised

    @property
    def array(self) -> np.ndarray:
        """The array as it is now, rows first: ``pm.set_data`` may have replaced it since the last call."""
        array = array_of(self.source)
        if self.unfolded is not None:
            shape = [-1 if i == self.axis else n for i, n in enumerate(self.unfolded)]
            if array.size % -prod(shape):
                raise UnsupportedModelError(
                    f"Data array {self.label} has {len(array)} entries, and the model reshapes it to rows of {shape}."
                )
            array = array.reshape(shape)
        # So that the numbers of a row lie together in memory.
        return array if self.axis == 0 else np.ascontiguousarray(np.moveaxis(array, self.axis, 0))

    @property
    def numbers_rows(self) -> bool:
        """Whether entry i is i, and will be: by such an array an entry of each row is chosen."""
        if not isinstance(self.source, Constant) or np.dtype(self.source.type.dtype).kind not in "iu":
            return False
        array = array_of(self.source)
        return np.array_equal(np.ravel(array), np.arange(array.shape[self.axis]))

    @property
    def in_graph(self) -> Variable:
        """The batch with its axes as those of the source."""
        batch = self.batch if self.axis == 0 else pt.moveaxis(self.batch, 0, self.axis)
        return batch if self.unfolded is None else batch.reshape((-1, *array_of(self.source).shape[1:]))


def find_row_leaves(
    terms: Mapping[str, Sequence[Variable]],
    n_rows: int,
    stop: Iterable[Variable],
    known: Iterable[RowLeaf] = (),
    computed: Mapping[Variable, Variable] = MappingProxyType({}),
) -> dict[Variable, RowLeaf]:
    """Find the arrays with `n_rows` rows that the row-wise terms read: of constants and shared variables the `RowLeaf`.

    `terms` are the variables of the graphs of each term, from `variables_in`; what lies above those in `stop` belongs
    to the prior.  The batches of leaves `known` before serve for the same data, and one leaf for constants in the same
    memory; a variable of which constant rows are set or raised has the mask of these rows.  `computed` has the values
    of what the terms compute from constants alone.
    """
    leaves: dict[Variable, RowLeaf] = {}
    by_identity: dict[Hashable, RowLeaf] = {leaf_identity(leaf.source): leaf for leaf in known}

    def add(
        var: Variable, source: Variable, label: str, unfolded: tuple[int, ...] | None = None, marks: bool = False
    ) -> None:
        if var in leaves:
            return
        key = leaf_identity(source)
        if key not in by_identity:
            shape = array_of(source).shape if unfolded is None else unfolded
            axis = row_axis_in(shape, n_rows)
            assert axis is not None
            batch_type = TensorType(source.type.dtype, shape=(None, *np.delete(shape, axis)))
            by_identity[key] = RowLeaf(source, batch_type(var.name), label, axis, unfolded, marks)
        leaves[var] = by_identity[key]

    for name, variables in terms.items():
        for var in variables:
            source = computed[var] if var in computed else _array_leaf(var)
            if var in leaves or source is None or source.type.ndim == 0:
                continue
            array = array_of(source)
            if row_axis_in(array.shape, n_rows) is not None:
                add(var, source, f"{name_of_data(var, array, variables)} of {name!r}")
        for var, unfolded in _long_arrays(variables, stop, n_rows):
            add(var, var, f"{name_of_data(var, array_of(var), variables)} of {name!r}", unfolded)
        for var in variables:
            if (mask := _assigned_rows(var.owner, n_rows)) is not None:
                add(var, pt.constant(mask), f"the rows that are set or raised in {name!r}", marks=True)
    return leaves


def _array_leaf(var: Variable) -> Variable | None:
    """Return the constant or shared array that a variable is; numbers that `pt.arange` counts are one too."""
    if is_array_leaf(var):
        return var
    if var.owner is None or not isinstance(var.owner.op, ARange):
        return None
    start, stop, step = (constant_of(i) for i in var.owner.inputs)
    if start is None or stop is None or step is None:
        return None
    return pt.constant(np.arange(start, stop, step, dtype=var.type.dtype))


def computed_from_constants(variables: Sequence[Variable]) -> dict[Variable, Variable]:
    """Return the values of what graphs compute from constant arrays alone, as a column less its mean.

    A batch may have them although they depend on all rows.
    """
    made = [var for var in variables if var.owner is not None and isinstance(var.type, DenseTensorType)]
    values = ((var, value_of_constants(var)) for var in made)
    return {var: pt.constant(value) for var, value in values if value is not None}


def _long_arrays(
    variables: Sequence[Variable], stop: Iterable[Variable], n_rows: int
) -> Iterator[tuple[Variable, tuple[int, ...]]]:
    """Yield arrays whose first axis becomes rows and other axes where the graphs reshape it, and their shape then."""
    for out in variables:
        if out.owner is None or not isinstance(out.owner.op, Reshape):
            continue
        shape = out.owner.inputs[1]
        lengths = [known or constant_of(shape[i]) or -1 for i, known in enumerate(out.type.shape)]
        rows = row_axis_in(lengths, n_rows)
        place = lengths.index(-1) if rows is None and lengths.count(-1) == 1 else rows
        if place is None or min([1, *lengths[:place]]) < 0:
            continue
        before, after = prod(lengths[:place]), prod(lengths[place + 1 :])
        for var in variables_in([out.owner.inputs[0]], stop):
            if not is_array_leaf(var) or not var.type.ndim or row_axis_in(array_of(var).shape, n_rows) is not None:
                continue
            length, *rest = array_of(var).shape
            within, left = divmod(length, before * n_rows)
            if within and not left and before * within > 1 and (rows is not None or within == after):
                yield var, tuple(n for n in (before, n_rows, within) if n > 1 or n == n_rows) + tuple(rest)
