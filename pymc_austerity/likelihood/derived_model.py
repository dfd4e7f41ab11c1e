"""Models whose variables are functions of those of another.

Those in which rows choose entries by their numbers, or are taken out of arrays and not out of what is computed of them.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_austerity.compat import replace_parts
from pymc_austerity.compile.graph_compiler import AS_WRITTEN, compile_log_density
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood.axis import LENGTH, NotRowWiseError, RowAxis
from pymc_austerity.likelihood.model_graph import (
    constant_index,
    plain_indices,
    row_axis_in,
    value_of_constants,
    variables_in,
)
from pymc_austerity.likelihood.rebuild import BatchRebuild
from pymc_austerity.likelihood.row_axis import prove_row_axis
from pymc_austerity.likelihood.row_leaves import find_row_leaves
from pymc_austerity.likelihood.row_terms import candidate_terms
from pymc_austerity.unsupported_model import UnsupportedModelError

Point = Mapping[str, np.ndarray]

#: Spread of the point at which the log densities of two models are compared, and how far they may differ.
_SPREAD, _RELATIVE_ERROR = 0.3, 1e-9


class Joined(NamedTuple):
    """A variable that takes the place of several."""

    graph: Variable
    name: str
    value: Variable | None  # what is observed
    transformed: bool = True  # as the variable is whose place it takes


def derived_model(
    model: Model,
    in_new_terms: Callable[[Variable], Variable],
    flat: Mapping[Variable, Variable] = MappingProxyType({}),
    priors: Mapping[str, Variable] = MappingProxyType({}),
    joined: Mapping[Variable, Joined] = MappingProxyType({}),
    dropped: Container[Variable] = (),
) -> tuple[Model, Callable[[Variable], Variable]]:
    """Return a model with the names and value variables of another, and what makes graphs of that one graphs of it.

    `in_new_terms` returns what takes the place of a random variable or a potential.  For each variable in `flat` the
    new model has one with a flat prior, which stands where graphs read what it is mapped to; `priors` are potentials of
    it, by name.  A variable in `joined` makes way for another, which stands for those `dropped` too; so may a potential
    be that is dropped.
    """
    new = Model(model=None)
    made: dict[Variable, Variable] = {}

    def in_new_model(graph: Variable) -> Variable:
        return replace_parts(in_new_terms(graph), made)

    for rv in model.basic_RVs:
        if rv in dropped:
            continue
        whole = joined.get(rv)
        if rv in flat:
            made[flat[rv]] = graph = pm.Flat.dist(shape=flat[rv].type.shape)
        else:
            made[rv if whole is None else whole.graph] = graph = in_new_model(rv)
        graph.name = whole.name if whole is not None else model.rvs_to_values[rv].name if rv in flat else rv.name
        (new.observed_RVs if rv in model.observed_RVs else new.free_RVs).append(graph)
        value = whole.value if whole is not None else None if rv in flat else model.rvs_to_values[rv]
        as_it_is = rv in flat or (whole is not None and not whole.transformed)
        transform = None if as_it_is else model.rvs_to_transforms[rv]
        new.create_value_var(graph, transform=transform, default_transform=None, value_var=value)
        new.set_initval(graph, None if rv in flat or whole is not None else model.rvs_to_initial_values.get(rv))
        new.add_named_variable(graph)
    potentials = {potential.name: potential for potential in model.potentials if potential not in dropped}
    for name, term in {**potentials, **priors}.items():
        graph = in_new_model(term)
        graph.name = name
        graph.tag.is_prior = name in priors or getattr(term.tag, "is_prior", False)
        new.potentials.append(graph)
        new.add_named_variable(graph)
    return new, in_new_model


def require_same_density(model: Model, derived: Model, point: Callable[[Point], Point] = dict) -> None:
    """Raise an UnsupportedModelError where the log density of a derived model is another than the user's.

    `point` returns a point of the derived model for one of the user's.
    """
    rng, known = np.random.default_rng(1906), False
    start = {name: np.asarray(value) for name, value in model.initial_point().items()}
    functions = [compile_log_density(of.value_vars, [of.logp()], AS_WRITTEN) for of in (model, derived)]
    for spread in (_SPREAD, 0.0):
        at = {n: v + spread * rng.standard_normal(v.shape) if v.dtype.kind == "f" else v for n, v in start.items()}
        points = zip(functions, (model, derived), (at, point(at)), strict=True)
        found, other = (
            float(uninterrupted(function, *(np.asarray(where[v.name], v.type.dtype) for v in of.value_vars))[0])
            for function, of, where in points
        )
        known = known or bool(np.isfinite(found))
        if np.isfinite(found) and not abs(found - other) <= _RELATIVE_ERROR * (1 + abs(found)):
            raise UnsupportedModelError(f"log density {other:.17g} where the model has {found:.17g}")
    if not known:
        raise UnsupportedModelError("the log density is not finite where it is compared")


def replacing(model: Model, parts: Mapping[Variable, Variable]) -> Callable[[Variable], Variable]:
    """Return what replaces parts of a term of a model, and not within the variables that it reads.

    Each of these is a term of its own, and a copy of it would be another variable.
    """
    return lambda term: replace_parts(term, {rv: rv for rv in model.basic_RVs if rv is not term} | dict(parts))


def with_replaced(model: Model, parts: Mapping[Variable, Variable]) -> Model:
    """Return the model with parts of its terms replaced, itself where there are none."""
    return derived_model(model, replacing(model, parts))[0] if parts else model


def numbered_model(model: Model, observed: str | Sequence[str] | None) -> Model:
    """Return the model with ``u[row]`` where its rows read u, for each u with an entry for every row."""
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
    numbered = replacing(model, by_number)
    return derived_model(model, lambda term: numbered(term) if term in terms else term)[0] if by_number else model


def _axis_numbered(node: Apply, n_rows: int) -> int | None:
    """Return the axis along which a node takes the entries of all rows in their order, by numbers in the model."""
    if not isinstance(node.op, AdvancedSubtensor):
        return None
    *before, index = plain_indices(node)
    whole = all(isinstance(i, slice) and i == slice(None) for i in before)
    numbers = np.asarray(index.data) if isinstance(index, Constant) else np.empty(0)
    return len(before) if whole and np.array_equal(numbers, np.arange(n_rows)) else None


def with_rows_taken(model: Model, observed: str | Sequence[str] | None, point: Mapping[str, np.ndarray]) -> Model:
    """Return the model with ``f(x)[rows]`` as ``f(x[rows])``, where it takes rows by constant numbers or marks.

    A survival model computes the scale of all patients, and reads ``scale[event]`` where the event was observed and
    ``scale[~event]`` where it was censored: a batch of either then has the data of its own rows alone.  What rows are
    taken from has to split into rows of constant arrays, as is proved from its graph.
    """
    free, found = set(model.free_RVs), dict[Variable, Variable]()
    nodes = toposort([*model.observed_RVs, *model.potentials])
    taken = [(node, rows) for node in nodes if (rows := _rows_taken(node)) is not None]
    taken = [(node, rows) for node, rows in taken if not free.isdisjoint(ancestors(node.inputs[:1], blockers=free))]
    try:
        sets = candidate_terms(model, observed, point, several=True).sets if taken else ()
    except UnsupportedModelError:  # as is said where the model is read
        return model
    lengths = {own.n_rows for own in sets}
    for node, rows in taken:
        computed = _computed_from(node.inputs[0], rows, model.free_RVs) if len(rows) in lengths else None
        if computed is not None:
            found[node.outputs[0]] = computed
    return with_replaced(model, found)


def _rows_taken(node: Apply) -> np.ndarray | None:
    """Return the numbers of the rows that a node takes of a computed array, each once; None where unknown."""
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
