"""A model whose rows read effects of nested groups by one index for each: classes and schools are factors of their own.

``(tau_s * z_s)[school] + tau_c * z_c``, of which row i reads the entry of its class, is written
``(tau_s * z_s)[school[class_]] + (tau_c * z_c)[class_]``.  ``b ~ Normal(c[school], s)``, of which row i reads the entry
of its class, is written ``c[school] + b`` with ``b ~ Normal(0, s)`` before.

Which groups are nested in which is read from their numbers, also where a ``pm.Data`` holds these: a step that has read
them does not follow ``pm.set_data`` of them, which `ModelData.changed` refuses.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.compile.ops import ViewOp
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, apply_ancestors, toposort
from pytensor.scalar import Add, Identity, Mul
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.compat import replace_parts
from pymc_austerity.likelihood.derived_model import derived_model, replacing
from pymc_austerity.likelihood.model_graph import (
    array_of,
    constant_of,
    index_inputs,
    is_array_leaf,
    is_elementwise,
    plain_indices,
)

#: Laws that a shift of their mean leaves as they are, and the place of the mean among their parameters.
_PLACE_OF_MEAN = {pm.Normal: 0, pm.MvNormal: 0, pm.StudentT: 1, pm.Laplace: 0, pm.Cauchy: 0, pm.Logistic: 0}


class _Taken(NamedTuple):
    """Entries of effects along their first axis."""

    effects: Variable
    numbers: Variable  # of the entries, int vector of the data
    beside: tuple[Any, ...]  # further indices, of one coefficient of several


def with_nested_by_row(model: Model) -> Model:
    """Return a model with the same log density, variables and names; the model itself where no effects are nested."""
    free = set(model.free_RVs)
    terms = [*model.observed_RVs, *model.potentials]
    moved: dict[Variable, Variable] = {}
    for node in reversed(list(toposort(terms, blockers=[*free]))):  # what holds others first
        read = node.outputs[0]
        taken = _taken_by_numbers(read)
        if taken is None or any(read in ancestors([of]) for of in moved):
            continue
        if any(_is_coarser(part, free) for part in _parts_of(taken.effects)):
            moved[read] = _by_row(taken)
    return derived_model(model, replacing(model, moved), {}, {})[0] if moved else model


def _is_coarser(part: Variable, free: Container[Variable]) -> bool:
    """Return whether effects are those of a coarser group, an entry for each finer one."""
    return _of_coarser(part) is not None and any(var in free for var in ancestors([part]))


def _of_coarser(part: Variable) -> _Taken | None:
    """Return what has an entry for each finer group, by numbers that are known."""
    taken = _taken_by_numbers(part)
    return None if taken is None or taken.beside or not isinstance(taken.numbers, Constant) else taken


def _by_row(taken: _Taken) -> Variable:
    """Return entries of a sum, those of coarser groups by the numbers of these."""
    by_row, rest = [], []
    for part in _parts_of(taken.effects):
        coarser = _of_coarser(part)
        if coarser is None:
            rest.append(part)
        else:
            of_coarser = coarser.numbers.data
            known = isinstance(taken.numbers, Constant)
            numbers = pt.constant(of_coarser[taken.numbers.data]) if known else pt.constant(of_coarser)[taken.numbers]
            by_row.append(_by_row(_Taken(coarser.effects, numbers, taken.beside)))
    if rest:
        together = reduce(add, rest)
        by_row.append(
            together[(0, *taken.beside)][None]
            if together.type.broadcastable[0]
            else together[(taken.numbers, *taken.beside)]
        )
    return reduce(add, by_row)


def _taken_by_numbers(var: Variable) -> _Taken | None:
    """Return what a graph takes entries of along its first axis, if their numbers are data; also behind a scale."""
    while var.owner is not None and _is_copy(var):
        (var,) = var.owner.inputs
    node = var.owner
    if node is not None and isinstance(node.op, Elemwise) and var.type.ndim:
        of_rows = [i for i in node.inputs if not i.type.broadcastable[0]]
        taken = _taken_by_numbers(of_rows[0]) if len(of_rows) == 1 else None
        if taken is None or taken.beside:
            return None
        return taken._replace(effects=node.op(*(taken.effects if i is of_rows[0] else i for i in node.inputs)))
    if node is None or not isinstance(node.op, AdvancedSubtensor):
        return None
    numbers, *beside = plain_indices(node)
    is_vector = isinstance(numbers, Variable) and numbers.type.ndim == 1 and is_array_leaf(numbers)
    # One entry alone is the same for all that it is added to.
    if not is_vector or numbers.type.dtype[0] not in "iu" or array_of(numbers).size == 1:
        return None
    if any(constant_of(i) is None for i in beside):
        return None
    return _Taken(node.inputs[0], numbers, tuple(beside))


def _parts_of(var: Variable) -> Iterator[Variable]:
    """Yield the terms of a sum, also of one that is multiplied by a scale."""
    if _is_copy(var) or is_elementwise(var, Add):
        for part in var.owner.inputs:
            yield from _parts_of(part)
        return
    sums = [of for of in var.owner.inputs if is_elementwise(of, Add)] if is_elementwise(var, Mul) else []
    if len(sums) != 1:
        yield var
        return
    for part in _parts_of(sums[0]):
        yield var.owner.op(*(part if of is sums[0] else of for of in var.owner.inputs))


def _is_copy(var: Variable) -> bool:
    return is_elementwise(var, Identity) or (var.owner is not None and isinstance(var.owner.op, ViewOp))


class Deviations(NamedTuple):
    """A model of deviations, and the variables of both models by those of the other."""

    model: Model
    #: By the name of a variable whose effects are deviations: them in terms of the user's variables, and back.
    deviations: dict[str, Variable]
    effects: dict[str, Variable]
    #: Names of the variables that the effects of coarser groups are made of, for each mean of some effects.
    coarser: tuple[frozenset[str], ...]


def with_deviations(model: Model) -> Deviations | None:
    """Return the model with the same density whose rows read nested effects as sums; None where there are none."""
    whole: dict[Variable, Variable] = {}  # from an effect of nested groups to its deviation plus what that is one from
    means: dict[Variable, Variable] = {}
    laws: dict[Variable, Variable] = {}
    for rv in model.free_RVs:
        found = _split_mean(model, rv)
        if found is not None:
            laws[rv], means[rv] = found
            whole[rv] = rv + replace_parts(means[rv], whole)
    if not whole:
        return None

    def in_new_terms(term: Variable) -> Variable:
        return replacing(model, {rv: of for rv, of in whole.items() if rv is not term})(laws.get(term, term))

    new, _ = derived_model(model, in_new_terms, {}, {})
    nested = with_nested_by_row(new)
    if nested is new:  # rows read them in some other way
        return None
    names = {rv: model.rvs_to_values[rv].name for rv in whole}
    free = set(model.free_RVs)
    made_of = [free.intersection(ancestors([mean], blockers=free)) for mean in means.values()]
    made = {rv: nested[rv.name] for rv in model.basic_RVs}
    return Deviations(
        nested,
        {names[rv]: rv - means[rv] for rv in whole},
        {names[rv]: replace_parts(of, made) for rv, of in whole.items()},
        tuple(frozenset(str(model.rvs_to_values[rv].name) for rv in of if rv.type.ndim) for of in made_of),
    )


def _split_mean(model: Model, rv: Variable) -> tuple[Variable, Variable] | None:
    """Return a variable with the effects of coarser groups left out of its mean, and these; None without such."""
    place = next((k for law, k in _PLACE_OF_MEAN.items() if isinstance(rv.owner.op, law.rv_type)), None)
    if place is None or not rv.type.ndim or model.rvs_to_transforms[rv] is not None:
        return None
    free, op, node = set(model.free_RVs), rv.owner.op, rv.owner
    parameters = list(op.dist_params(node))
    coarser: list[Variable] = []
    rest: list[Variable] = []
    for part in _parts_of(parameters[place]):
        # With a scale that is estimated: a few means with priors of their own are coefficients.
        pooled = _is_coarser(part, free) and len(free.intersection(ancestors([part]))) > 1
        (coarser if pooled else rest).append(part)
    if not coarser:
        return None
    shape = np.shape(model.initial_point()[model.rvs_to_values[rv].name])
    size, of_one = shape[: len(shape) - op.ndim_supp], shape[len(shape) - op.ndim_supp :]
    parameters[place] = reduce(add, rest) if rest else pt.zeros(of_one)
    law = op.make_node(op.rng_param(node), pt.constant(size), *parameters).outputs[1]
    return law, reduce(add, coarser)


def with_known_numbers(model: Model) -> Model:
    """Return a model with the numbers of coarser groups as constants; the model itself where no data hold any."""
    known: dict[Variable, Variable] = {of: pt.constant(array_of(of)) for of in numbers_of_coarser(model)}
    return derived_model(model, replacing(model, known), {}, {})[0] if known else model


def numbers_of_coarser(model: Model) -> frozenset[Variable]:
    """Return the data containers with the numbers of coarser groups; none with an entry for each row.

    Entries are taken by them of what entries are taken of in turn, ``(s * z[st])[g]``, or another index is looked up in
    them, ``z[st[g]]``.
    """
    observed = ancestors([model.rvs_to_values[rv] for rv in model.observed_RVs])
    n_rows = {n for leaf in observed if is_array_leaf(leaf) for n in np.shape(array_of(leaf))}
    taken = _nodes_taking([*model.observed_RVs, *model.potentials])
    within = _nodes_taking([node.inputs[0] for node in taken])
    looked_up = _nodes_taking([index for node in taken for index in index_inputs(node)])
    found = [*(i for node in within for i in index_inputs(node)), *(node.inputs[0] for node in looked_up)]
    return frozenset(of for of in found if _is_held(of) and array_of(of).size not in n_rows)


def _nodes_taking(graphs: list[Variable]) -> list[Apply]:
    """Return the nodes of graphs at which entries are taken by their numbers."""
    return [node for node in apply_ancestors(graphs) if isinstance(node.op, AdvancedSubtensor)]


def _is_held(var: Variable) -> bool:
    """Whether a variable is a vector of whole numbers in a data container."""
    return isinstance(var, SharedVariable) and var.type.ndim == 1 and np.dtype(var.type.dtype).kind in "iu"
