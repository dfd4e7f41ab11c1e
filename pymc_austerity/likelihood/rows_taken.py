"""A model in which ``f(x)[rows]`` is ``f(x[rows])``: its rows are taken out of arrays, and not out of what it computes.

A survival model computes the scale of all patients, and reads ``scale[event]`` where the event was observed and
``scale[~event]`` where it was censored.  A batch of either has then the data of its own rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_austerity.likelihood.axis import LENGTH, NotRowWiseError, RowAxis
from pymc_austerity.likelihood.derived_model import derived_model, replacing
from pymc_austerity.likelihood.model_graph import plain_indices, value_of_constants, variables_in
from pymc_austerity.likelihood.rebuild import BatchRebuild
from pymc_austerity.likelihood.row_axis import prove_row_axis
from pymc_austerity.likelihood.row_leaves import constant_index, find_row_leaves
from pymc_austerity.likelihood.row_terms import candidate_terms
from pymc_austerity.unsupported_model import UnsupportedModelError


def with_rows_taken(
    model: Model, observed: str | Sequence[str] | None, point: Mapping[str, np.ndarray]
) -> Model | None:
    """Return the model with its rows taken out of its data, or None where it takes none by constant numbers or marks.

    What they are taken from has to split into rows of constant arrays, as is proved from its graph.
    """
    free, found = set(model.free_RVs), dict[Variable, Variable]()
    nodes = toposort([*model.observed_RVs, *model.potentials])
    taken = [(node, rows) for node in nodes if (rows := _rows_taken(node)) is not None]
    taken = [(node, rows) for node, rows in taken if not free.isdisjoint(ancestors(node.inputs[:1], blockers=free))]
    try:
        sets = candidate_terms(model, observed, point, several=True).sets if taken else ()
    except UnsupportedModelError:  # as is said where the model is read
        return None
    lengths = {own.n_rows for own in sets}
    for node, rows in taken:
        computed = _computed_from(node.inputs[0], rows, model.free_RVs) if len(rows) in lengths else None
        if computed is not None:
            found[node.outputs[0]] = computed
    return derived_model(model, replacing(model, found), {}, {})[0] if found else None


def _rows_taken(node: Apply) -> np.ndarray | None:
    """Return the numbers of the rows that a node takes of a computed array, each once.

    None where the graph does not say them.
    """
    if not isinstance(node.op, AdvancedSubtensor | Subtensor) or node.inputs[0].owner is None:
        return None
    (n_rows, *_), (first, *rest) = node.inputs[0].type.shape, plain_indices(node)
    if n_rows is None or not all(isinstance(i, slice) and i == slice(None) for i in rest):
        return None
    marks = isinstance(first, Variable) and first.type.ndim == 1
    index = value_of_constants(first) if marks else constant_index(first)
    if index is None or (marks and len(index) > n_rows):
        return None
    try:
        rows = np.arange(n_rows)[index]
    except IndexError:
        return None
    # What rows share is computed once for all of them.
    return rows if np.unique(rows).size == rows.size else None


def _computed_from(whole: Variable, rows: np.ndarray, free: Sequence[Variable]) -> Variable | None:
    """Return some rows of a graph as the graph of these rows of its arrays; None where it does not split into rows."""
    n_rows = whole.type.shape[0]
    leaves = find_row_leaves({"": variables_in([whole], free)}, n_rows, free)
    if not leaves or any(leaf.marks_rows or not isinstance(leaf.source, Constant) for leaf in leaves.values()):
        return None
    others = {rv: rv for rv in free}
    batches = {leaf.batch: RowAxis(0) for leaf in leaves.values()}
    length = next(iter(batches)).shape[0]
    try:
        in_batch = BatchRebuild({v: leaf.in_graph for v, leaf in leaves.items()} | others, n_rows, length)(whole)
        if prove_row_axis(in_batch, batches | {length: LENGTH}) != RowAxis(0):
            return None
    except (NotRowWiseError, ValueError, TypeError):  # of an array with an axis of that length for another reason
        return None
    arrays = {
        v: pt.constant(np.moveaxis(leaf.array[rows], 0, leaf.axis), dtype=v.type.dtype) for v, leaf in leaves.items()
    }
    return BatchRebuild(arrays | others, n_rows, pt.constant(len(rows)))(whole)
