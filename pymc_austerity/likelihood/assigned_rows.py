"""Rows that a model sets or raises by their numbers or a mask, written so that a batch of them can be taken.

``pt.set_subtensor(mu[numbers], b)`` numbers places among all rows.  Whether a row is among them becomes a datum of the
row, by which it chooses between its own entry and b.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.type import TensorType

from pymc_austerity.likelihood.model_graph import ASSIGNS, bounds_of, constant_of, plain_indices


def find_assigned_rows(variables: Sequence[Variable], n_rows: int) -> dict[Variable, np.ndarray]:
    """Return, for every variable of `n_rows` entries of which some are set by constant numbers, the mask of these."""
    made = [var for var in variables if var.owner is not None]
    found = {var: _assigned(var.owner, n_rows) for var in made}
    return {var: mask for var, mask in found.items() if mask is not None}


def _assigned(node: Apply, n_rows: int) -> np.ndarray | None:
    if not isinstance(node.op, ASSIGNS) or node.inputs[0].type.shape[0] not in (None, n_rows):
        return None
    first, *rest = plain_indices(node)
    index = _constant_index(first)
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


def _constant_index(index: Any) -> Any:
    """Return the rows that an index names as NumPy takes them, or None where that depends on anything."""
    if isinstance(index, slice):
        bounds = [b if b is None else constant_of(b) for b in bounds_of(index)]
        unknown = any(b is None and given is not None for b, given in zip(bounds, bounds_of(index), strict=True))
        return None if unknown else slice(*bounds)
    if isinstance(index, Constant) and isinstance(index.type, TensorType) and index.type.ndim == 1:
        return np.asarray(index.data) if np.dtype(index.type.dtype).kind in "iu" else None
    return None


def assign_by_mask(node: Apply, inputs: Sequence[Variable], masks: Mapping[Variable, Variable]) -> Variable | None:
    """Return a variable of which rows are set or raised, for a batch of rows with these inputs.

    Where the numbers of the rows are constants, `masks` has the mask of the batch.  None where no rows are set, or each
    to a value of its own.
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
