"""A model in which rows read effects by the numbers of their groups, where the user writes a matrix.

``Z @ u`` with the dummies of groups as Z is written ``u[g]``, and ``(w * u[members]).sum(axis=1)`` with a table of
numbers is written ``w[:, 0] * u[members[:, 0]] + w[:, 1] * u[members[:, 1]]``.  What is used otherwise, as in a softmax
over the items of each row, is the columns put side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp
from pymc.model import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Shape
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.likelihood.derived_model import derived_model, replacing
from pymc_austerity.likelihood.model_graph import array_of, is_product, plain_indices, value_of_constants
from pymc_austerity.likelihood.sparse_rows import sparse_product

#: Of more groups that a row reads, each would be looked up by an index of its own.
_MOST_READ = 6
#: Rows of fewer columns with several entries each are covariates and dummies of short factors, as formulas make them.
_FEWEST_GROUPS = 12


def with_numbers_of_groups(model: Model) -> Model:
    """Return a model with the same log density, variables and names; the model itself where nothing is to be written.

    Arrays of ``pm.Data`` stay as they are, as ``pm.set_data`` may put others in their place.
    """
    written: dict[Variable, Variable] = {}
    nodes = list(_nodes(model))
    tables = [node.outputs[0] for node in nodes if isinstance(_table(node), Constant)]
    for node in nodes:
        beside = (_side_by_side(node.outputs[0], table) for table in tables)
        for instead in (_read_by_dummies(node), _read_by_table(node), *beside):
            if instead is not None:
                written[node.outputs[0]] = instead
    return derived_model(model, replacing(model, written), {}, {})[0] if written else model


def numbers_to_write(model: Model) -> str:
    """Return what the user could write where a matrix in ``pm.Data`` stands for the numbers of groups, or nothing."""
    for node in _nodes(model):
        left = node.inputs[0] if is_product(node) else None
        if isinstance(left, SharedVariable) and _entries(array_of(left)) is not None:
            name = left.name
            return (
                f"Rows of {name!r}, a pm.Data, are multiplied by effects and have few entries that are not 0. Where "
                "these are dummies of groups, write u[g] with the number of the group of each row, "
                f'g = pm.Data("g", {name}.argmax(axis=1)); where a row has several groups, '
                "write w0 * u[g0] + w1 * u[g1]."
            )
        table = _table(node)
        if isinstance(table, SharedVariable):
            name = table.name
            return (
                f"Effects are indexed by {name!r}, a pm.Data with several numbers for each row. Write a pm.Data for "
                f"each column: u[{name}_0] + u[{name}_1] for u[{name}].sum(axis=1)."
            )
    return ""


def _nodes(model: Model) -> Iterator[Apply]:
    yield from toposort([*model.basic_RVs, *model.potentials])


def _read_by_dummies(node: Apply) -> Variable | None:
    """Return ``u[g]`` for ``Z @ u`` or ``u @ Z.T`` with dummies of groups, or a sum of such with weights."""
    dense = [(*node.inputs, False), (*reversed(node.inputs), True)] if is_product(node) else []
    sparse = sparse_product(node)
    for matrix, effects, turned in dense if sparse is None else [sparse]:
        known = value_of_constants(matrix)
        entries = None if known is None else _entries(known.T if turned else known)
        if entries is not None and node.outputs[0].type.ndim == effects.type.ndim:
            read = _by_numbers(effects.T if turned else effects, *entries)
            return read.T if turned else read
    return None


def _by_numbers(effects: Variable, numbers: np.ndarray, weights: np.ndarray) -> Variable:
    op = None if effects.owner is None else effects.owner.op
    column = isinstance(op, DimShuffle) and op.new_order == (0, "x")  # PyTensor multiplies a vector as a column
    of = effects.owner.inputs[0] if column else effects
    read = reduce(add, [_weighted(w, of, n) for n, w in zip(numbers, weights, strict=True)])
    return read[:, None] if column else read


def _weighted(weights: np.ndarray, effects: Variable, numbers: np.ndarray) -> Variable:
    read = effects[pt.constant(numbers)]
    if (weights == 1).all():
        return read
    return pt.constant(weights if effects.type.ndim == 1 else weights[:, None]) * read


def _entries(matrix: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the places of the entries of each row that are not 0, and these entries, one line for each of a row.

    The matrix is dense or sparse.  None where the columns of a matrix are not groups.
    """
    if matrix.ndim != 2 or not 1 < matrix.shape[1] < matrix.shape[0]:
        return None
    dense = not sp.issparse(matrix)
    counts = np.count_nonzero(matrix, axis=1) if dense else np.diff(matrix.tocsr().indptr)
    most = int(counts.max())
    if counts.min() < 1 or most > _MOST_READ or (most > 1 and matrix.shape[1] < _FEWEST_GROUPS):
        return None
    rows = sp.csr_array(matrix)
    if len(rows.data) != counts.sum() or (rows.data == 0).any():  # zeros that a sparse matrix holds
        return None
    if np.bincount(rows.indices, minlength=matrix.shape[1]).max() > len(counts) / 2 and most > 1:  # an intercept
        return None
    # A row of fewer groups reads its first once more, with the weight 0.
    at = rows.indptr[:-1] + np.minimum(np.arange(most)[:, None], counts - 1)
    weights = np.where(np.arange(most)[:, None] < counts, rows.data[at], 0.0)
    return rows.indices[at].astype(np.int64), weights


def _read_by_table(node: Apply) -> Variable | None:
    """Return a sum over the columns of a table of numbers, one by one; of a length that a mean divides by, a number."""
    if not isinstance(node.op, Shape | Sum):
        return None
    (of,) = node.inputs
    read = (v for v in ancestors([of]) if v.owner is not None and isinstance(_table(v.owner), Constant))
    table = next(read, None)
    if table is None or not _by_entry(of, table):
        return None
    if isinstance(node.op, Sum):
        columns = range(table.type.shape[1])
        return reduce(add, [_column(of, table, k) for k in columns]) if node.op.axis == (1,) else None
    return None if None in of.type.shape else pt.constant(np.array(of.type.shape, dtype=np.int64))


def _side_by_side(graph: Variable, table: Variable) -> Variable | None:
    """Return what is computed entry by entry from what a table of numbers reads, as its columns side by side."""
    if table not in ancestors([graph]) or not _by_entry(graph, table):
        return None
    return pt.stack([_column(graph, table, k) for k in range(table.type.shape[1])], axis=1)


def _table(node: Apply) -> Variable | None:
    """Return the table of numbers that a node indexes a vector by, a few for each of many rows."""
    if not isinstance(node.op, AdvancedSubtensor) or node.inputs[0].type.ndim != 1:
        return None
    (table,) = plain_indices(node)
    if not isinstance(table, Constant | SharedVariable) or table.type.ndim != 2:
        return None
    n_rows, n_read = array_of(table).shape
    return table if np.dtype(table.type.dtype).kind in "iu" and 1 < n_read <= _MOST_READ < n_rows else None


def _by_entry(graph: Variable, table: Variable) -> bool:
    """Whether a graph of two axes is computed entry by entry from what a table of numbers reads."""
    if graph is table:
        return True
    if graph.owner is None or not isinstance(graph.owner.op, Elemwise) or graph.type.ndim != 2:
        return False
    reading = [var for var in graph.owner.inputs if table in ancestors([var])]
    return graph.type.shape[1] == table.type.shape[1] and all(_by_entry(var, table) for var in reading)


def _column(graph: Variable, table: Variable, k: int) -> Variable:
    """Return column k of a graph that is computed entry by entry from what a table of numbers reads."""
    if graph is table:
        return table.owner.inputs[0][pt.constant(plain_indices(table.owner)[0].data[:, k])]
    if isinstance(graph, Constant):
        return pt.constant(graph.data[:, k if graph.data.shape[1] > 1 else 0])
    if table in ancestors([graph]):
        return graph.owner.op(*[_column(var, table, k) for var in graph.owner.inputs])
    return graph[:, 0 if graph.type.broadcastable[1] else k]
