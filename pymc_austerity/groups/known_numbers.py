"""A model in which the numbers of coarser groups are known: ``school_of_class`` that is held in a ``pm.Data``.

Which groups are nested in which is read from these numbers, so that a step that has read them does not follow
``pm.set_data`` of them: `ModelData.changed` refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    """Return the data containers with the numbers of coarser groups; none with an entry for each row."""
    observed = ancestors([model.rvs_to_values[rv] for rv in model.observed_RVs])
    n_rows = {n for leaf in observed if is_array_leaf(leaf) for n in np.shape(array_of(leaf))}
    nodes = apply_ancestors([*model.observed_RVs, *model.potentials])
    return frozenset(of for node in nodes for of in _numbers_of_coarser(node) if array_of(of).size not in n_rows)


def _numbers_of_coarser(node: Apply) -> Iterator[Variable]:
    """Yield the data that a node has entries taken by, of what entries are taken of in turn, ``(s * z[st])[g]``.

    And those that another index is looked up in, as in ``z[st[g]]``.
    """
    if not isinstance(node.op, AdvancedSubtensor):
        return
    for inner in apply_ancestors(node.inputs[:1]):
        if isinstance(inner.op, AdvancedSubtensor):
            yield from filter(_is_held, index_inputs(inner))
    for index in ancestors(index_inputs(node)):
        if index.owner is not None and isinstance(index.owner.op, AdvancedSubtensor):
            yield from filter(_is_held, index.owner.inputs[:1])


def _is_held(var: Variable) -> bool:
    """Whether a variable is a vector of whole numbers in a data container."""
    return isinstance(var, SharedVariable) and var.type.ndim == 1 and np.dtype(var.type.dtype).kind in "iu"
