"""A model in which the numbers of coarser groups are known: ``school_of_class`` that is held in a ``pm.Data``.

Which groups are nested in which is read from these numbers, so that a step that has read them does not follow
``pm.set_data`` of them: `ModelData.changed` refuses it.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors, apply_ancestors
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.likelihood.derived_model import derived_model, replacing
from pymc_austerity.likelihood.model_graph import array_of, index_inputs, is_array_leaf


def with_known_numbers(model: Model) -> Model:
    """Return a model with the same log density, variables and names; the model itself where there are no such data."""
    known: dict[Variable, Variable] = {of: pt.constant(array_of(of)) for of in numbers_of_coarser(model)}
    return derived_model(model, replacing(model, known), {}, {})[0] if known else model


def numbers_of_coarser(model: Model) -> frozenset[Variable]:
    """Return the data containers with the numbers of coarser groups; none with an entry for each row.

    Entries are taken by them of what entries are taken of in turn, ``(s * z[st])[g]``, or another index is looked up in
    them, ``z[st[g]]``.
    """
    observed = ancestors([model.rvs_to_values[rv] for rv in model.observed_RVs])
    n_rows = {n for leaf in observed if is_array_leaf(leaf) for n in np.shape(array_of(leaf))}
    taken = _taken_by_numbers([*model.observed_RVs, *model.potentials])
    within = _taken_by_numbers([node.inputs[0] for node in taken])
    looked_up = _taken_by_numbers([index for node in taken for index in index_inputs(node)])
    found = [*(i for node in within for i in index_inputs(node)), *(node.inputs[0] for node in looked_up)]
    return frozenset(of for of in found if _is_held(of) and array_of(of).size not in n_rows)


def _taken_by_numbers(graphs: list[Variable]) -> list[Apply]:
    """Return the nodes of graphs at which entries are taken by their numbers."""
    return [node for node in apply_ancestors(graphs) if isinstance(node.op, AdvancedSubtensor)]


def _is_held(var: Variable) -> bool:
    """Whether a variable is a vector of whole numbers in a data container."""
    return isinstance(var, SharedVariable) and var.type.ndim == 1 and np.dtype(var.type.dtype).kind in "iu"
