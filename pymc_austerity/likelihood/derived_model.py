"""A model whose variables are functions of those of another."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from types import MappingProxyType
from typing import NamedTuple

import pymc as pm
from pymc.model import Model
from pytensor.graph.basic import Variable

from pymc_austerity.compat import replace_parts


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
        graph.tag.is_prior = name in priors
        new.potentials.append(graph)
        new.add_named_variable(graph)
    return new, in_new_model
