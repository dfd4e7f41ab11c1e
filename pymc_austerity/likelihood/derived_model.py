"""Models whose variables are functions of those of another, and that in which rows choose entries by their numbers."""

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor
from pymc.model import Model
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_austerity.compat import replace_parts
from pymc_austerity.likelihood.model_graph import plain_indices, row_axis_in
from pymc_austerity.likelihood.row_terms import candidate_terms


class Joined(NamedTuple):
    """A variable that takes the place of several."""

    graph: Variable
    name: str
    value: Variable | None  # what is observed


def derived_model(
    model: Model,
    in_new_terms: Callable[[Variable], Variable],
    flat: Mapping[Variable, Variable],
    priors: Mapping[str, Variable],
    joined: Mapping[Variable, Joined] = MappingProxyType({}),
    dropped: Container[Variable] = (),
) -> tuple[Model, Callable[[Variable], Variable]]:
    """Return a model with the names and value variables of another, and what makes graphs of that one graphs of it.

    `in_new_terms` returns what takes the place of a random variable or a potential.  For each variable in `flat` the
    new model has one with a flat prior, which stands where graphs read what it is mapped to; `priors` are potentials of
    it, by name.  A variable in `joined` makes way for another, which stands for those `dropped` too.
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
        transform = None if rv in flat else model.rvs_to_transforms[rv]
        new.create_value_var(graph, transform=transform, default_transform=None, value_var=value)
        new.set_initval(graph, None if rv in flat or whole is not None else model.rvs_to_initial_values.get(rv))
        new.add_named_variable(graph)
    potentials = {potential.name: potential for potential in model.potentials}
    for name, term in {**potentials, **priors}.items():
        graph = in_new_model(term)
        graph.name = name
        graph.tag.is_prior = name in priors or getattr(term.tag, "is_prior", False)
        new.potentials.append(graph)
        new.add_named_variable(graph)
    return new, in_new_model


def replacing(model: Model, parts: Mapping[Variable, Variable]) -> Callable[[Variable], Variable]:
    """Return what replaces parts of a term of a model, and not within the variables that it reads.

    Each of these is a term of its own, and a copy of it would be another variable.
    """
    return lambda term: replace_parts(term, {rv: rv for rv in model.basic_RVs if rv is not term} | dict(parts))


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
    numbered = replacing(model, by_number)
    return derived_model(model, lambda term: numbered(term) if term in terms else term, {}, {})[0]


def _axis_numbered(node: Apply, n_rows: int) -> int | None:
    """Return the axis along which a node takes the entries of all rows in their order, by numbers in the model."""
    if not isinstance(node.op, AdvancedSubtensor):
        return None
    *before, index = plain_indices(node)
    whole = all(isinstance(i, slice) and i == slice(None) for i in before)
    numbers = np.asarray(index.data) if isinstance(index, Constant) else np.empty(0)
    return len(before) if whole and np.array_equal(numbers, np.arange(n_rows)) else None
