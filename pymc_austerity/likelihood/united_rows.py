"""A model whose outcomes of different length are one, so that its rows read their groups by one array of numbers.

Times that are observed and times that are censored, whether there is an amount and how large it is: the rows of both
read effects of the same groups, the ones by ``g[observed]``, the others by ``g[censored]``.  They are read as

    pm.Potential("y_obs and y_cens", pt.switch(set == 0, log density of y_obs, log density of y_cens))

of arrays with an entry for each row of all sets.  Arrays by which sets index as many entries are one array.  Of any
other array, rows of another set have the first entry of its own, as in `row_data`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, apply_ancestors
from pytensor.scalar import Cast
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood.derived_model import derived_model, replacing, require_same_density
from pymc_austerity.likelihood.layout import Coordinates
from pymc_austerity.likelihood.model_data import ModelData, read_model
from pymc_austerity.likelihood.model_graph import plain_indices
from pymc_austerity.likelihood.row_set import RowSet, row_set
from pymc_austerity.likelihood.row_terms import SetTerms, candidate_terms

_log = logging.getLogger("pymc_austerity")


class _Index(NamedTuple):
    """What an array of numbers indexes."""

    length: int
    variables: frozenset[Variable]  # stand-ins of the free variables that it is computed from


class _Numbers(NamedTuple):
    """An array of numbers by which rows of several sets index as many entries."""

    array: np.ndarray
    indexes: _Index  # of the first of the sets
    sets: set[int]

    def goes_with(self, array: np.ndarray, index: _Index, of_set: int) -> bool:
        """Whether numbers of another set may stand in the array."""
        return self.indexes.length == index.length and self.array.dtype == array.dtype and of_set not in self.sets


def united_rows(model: Model, data: ModelData, named: bool) -> ModelData | None:
    """Return the data of a model with several sets of rows as those of one with a single set.

    Parameters
    ----------
    model
        The user's.
    data
        What was read of it, of all variables.
    named
        Whether the user named the sets.  If not, short sets, part of the prior otherwise, are among them where their
        rows index free variables.

    Returns
    -------
        The same data where there is one set, and None where several cannot be taken together.
    """
    read = data.derived or model
    sets = [*data.terms.sets, *([] if named else _short_sets(read, data))]
    if len(sets) == 1:
        return data
    try:
        made, written = _united_model(read, sets, data)
        require_same_density(read, made)
        found = read_model(made, made.value_vars, made.potentials[-1].name, data.point)
    except Exception as error:  # whatever an op makes of the rows of another set, the model is read as it is
        _log.debug(f"Sets of rows are read one by one ({type(error).__name__}: {error}).")
        return data if len(data.terms.sets) == 1 else None
    likelihood = replace(found.likelihood, blocks=data.likelihood.blocks)  # which tell of what variables are joined
    found = replace(found, likelihood=likelihood, derived=found.derived or made)
    return found.as_data_of(model, Coordinates(likelihood.blocks), written)


def _short_sets(model: Model, data: ModelData) -> list[SetTerms]:
    """Return the sets that are part of the prior and whose rows index free variables."""
    free = set(model.free_RVs)

    def indexes(term: Variable) -> bool:
        nodes = (n for n in apply_ancestors([term], blockers=free) if isinstance(n.op, AdvancedSubtensor))
        return any(not free.isdisjoint(ancestors(n.inputs[:1], blockers=free)) for n in nodes)

    if not any(indexes(t) for t in (*model.observed_RVs, *model.potentials) if t not in data.terms.all):
        return []
    candidates = candidate_terms(model, None, data.point, several=True).sets
    others = [own for own in candidates if set(data.terms.all).isdisjoint(own.all)]
    return [own for own in others if all(map(indexes, own.all))]


def _united_model(model: Model, own: Sequence[SetTerms], data: ModelData) -> tuple[Model, frozenset[Variable]]:
    """Return the model with one potential for all row terms, and the containers that are written into it."""
    stand_ins = {rv: rv.type() for rv in model.free_RVs}
    sets = [row_set(model, terms, stand_ins) for terms in own]
    of_model = {stand_in: rv for rv, stand_in in stand_ins.items()}
    number = pt.constant(np.repeat(np.arange(len(sets), dtype=np.uint8), [s.terms.n_rows for s in sets]))
    *rest, rows = (
        graph_replace([s.rows], of_model | {batch: pt.constant(a) for batch, a in arrays.items()}, strict=False)[0]
        for s, arrays in zip(sets, _arrays(model, sets, of_model, data.point), strict=True)
    )
    for k, of_set in reversed(list(enumerate(rest))):
        rows = pt.switch(pt.eq(number, k), of_set, rows)
    united = [term for s in sets for term in s.terms.all]
    made, in_made = derived_model(model, replacing(model, {}), dropped=united)
    rows = in_made(rows)
    rows.name = " and ".join(term.name for term in united)
    made.potentials.append(rows)
    made.add_named_variable(rows)
    sources = (leaf.source for s in sets for leaf in s.leaves)
    return made, frozenset(source for source in sources if isinstance(source, SharedVariable))


def _arrays(
    model: Model, sets: list[RowSet], of_model: dict[Variable, Variable], point: Mapping[str, np.ndarray]
) -> list[dict[Variable, np.ndarray]]:
    """Return the arrays of each set with an entry for each row of all sets, by the batches that they stand for."""
    n_rows, start = sum(s.terms.n_rows for s in sets), 0
    indexed = _indexed(model, sets, of_model, point)
    known: list[_Numbers] = []
    found: list[dict[Variable, np.ndarray]] = []
    for k, s in enumerate(sets):
        found.append({})
        for leaf in s.leaves:
            array, index = leaf.array, indexed.get(leaf.batch)
            alike = [n for n in known if index is not None and n.goes_with(array, index, k)]
            # Of crossed factors with as many groups, first those of the same variables.
            alike.sort(key=lambda n: index is None or n.indexes.variables != index.variables)
            if alike:
                whole = alike[0].array
                alike[0].sets.add(k)
            else:
                whole = np.empty((n_rows, *array.shape[1:]), array.dtype)
                whole[:] = array[0]
                if index is not None:
                    known.append(_Numbers(whole, index, {k}))
            whole[start : start + len(array)] = array
            found[-1][leaf.batch] = whole
        start += s.terms.n_rows
    return found


def _indexed(
    model: Model, sets: list[RowSet], of_model: dict[Variable, Variable], point: Mapping[str, np.ndarray]
) -> dict[Variable, _Index]:
    """Return what the batches index that are read in no other way, and all where there are as many entries."""
    by = {leaf.batch: places for s in sets for leaf in s.leaves if (places := _places(s.rows, leaf.batch))}
    lengths = [base.shape[axis] for places in by.values() for base, axis in places]
    if not lengths:
        return {}
    values = model.replace_rvs_by_values(graph_replace(lengths, of_model, strict=False))
    compute = pytensor.function(model.value_vars, values, mode=BY_NUMPY, on_unused_input="ignore")
    sizes = iter(compute(*(point[v.name] for v in model.value_vars)))
    found = {}
    for batch, places in by.items():
        of_places = {int(next(sizes)) for _ in places}
        if len(of_places) == 1:
            above = set(ancestors([base for base, _ in places]))
            found[batch] = _Index(of_places.pop(), frozenset(above.intersection(of_model)))
    return found


def _places(rows: Variable, numbers: Variable) -> list[tuple[Variable, int]]:
    """Return what numbers index, and along which axis; nothing where they are read in another way too."""
    found = []
    for node in apply_ancestors([rows]):
        if numbers not in node.inputs:
            continue
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Cast):
            inside = _places(rows, node.outputs[0])
        else:
            indices = plain_indices(node) if isinstance(node.op, AdvancedSubtensor) else []
            inside = [(node.inputs[0], axis) for axis, i in enumerate(indices) if i is numbers]
        if not inside:
            return []
        found += inside
    return found
