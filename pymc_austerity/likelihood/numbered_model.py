"""A model in which rows that each have an entry of a variable choose it by the number of the row.

``pm.Poisson("y", pm.math.exp(a + u))`` with an entry of u for each row is the model of ``u[row]``, of which every entry
is a group of one row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytensor
from pymc.model import Model
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.compat import replace_parts
from pymc_austerity.likelihood.derived_model import derived_model
from pymc_austerity.likelihood.model_graph import plain_indices, row_axis_in
from pymc_austerity.likelihood.row_terms import candidate_terms


def numbered_model(model: Model, observed: str | Sequence[str] | None) -> Model | None:
    """Return the model with ``u[row]`` where its rows read u, for each variable with an entry for every row.

    None where no row reads one; whether rows read no other entry is proved as for any model.
    """
    longest = candidate_terms(model, observed, model.initial_point(), several=False).sets[0]
    row = pytensor.shared(np.arange(longest.n_rows), name="row", shape=(longest.n_rows,))
    terms = [term.variable for term in longest.terms]
    by_number = {
        node.outputs[0]: node.inputs[0][(*(slice(None),) * axis, row)]
        for node in toposort(terms)
        if (axis := _axis_numbered(node, longest.n_rows)) is not None
        and not set(model.free_RVs).isdisjoint(ancestors([node.inputs[0]], blockers=model.free_RVs))
    }
    read = set(ancestors(terms, blockers=[*model.free_RVs, *by_number]))
    lengths = {rv: np.shape(model.initial_point()[model.rvs_to_values[rv].name]) for rv in model.free_RVs if rv in read}
    for rv, shape in lengths.items():
        if (axis := row_axis_in(shape, longest.n_rows)) is not None and rv.type.dtype.startswith("float"):
            by_number[rv] = rv[(*(slice(None),) * axis, row)]
    if not by_number:
        return None
    return derived_model(model, lambda term: replace_parts(term, by_number) if term in terms else term, {}, {})[0]


def _axis_numbered(node: Apply, n_rows: int) -> int | None:
    """Return the axis along which a node takes the entries of all rows in their order, by numbers in the model."""
    if not isinstance(node.op, AdvancedSubtensor):
        return None
    *before, index = plain_indices(node)
    whole = all(isinstance(i, slice) and i == slice(None) for i in before)
    numbers = np.asarray(index.data) if isinstance(index, Constant) else np.empty(0)
    return len(before) if whole and np.array_equal(numbers, np.arange(n_rows)) else None
