"""A model whose variables are functions of those of another."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pymc as pm
from pymc.model import Model
from pytensor.graph.basic import Variable

from pymc_austerity.compat import replace_parts


def derived_model(
    model: Model,
    in_new_terms: Callable[[Variable], Variable],
    flat: Mapping[Variable, Variable],
    priors: Mapping[str, Variable],
) -> tuple[Model, Callable[[Variable], Variable]]:
    """Return a model with the names and value variables of another, and what makes graphs of that one graphs of it.

    `in_new_terms` returns what takes the place of a random variable or a potential.  For each variable in `flat` the
    new model has one with a flat prior, which stands where graphs read what it is mapped to; `priors` are potentials of
    it, by name.
    """
    new = Model(model=None)
    made: dict[Variable, Variable] = {}

    def in_new_model(graph: Variable) -> Variable:
        return replace_parts(in_new_terms(graph), made)

    for rv in model.basic_RVs:
        if rv in flat:
            made[flat[rv]] = graph = pm.Flat.dist(shape=flat[rv].type.shape)
        else:
            made[rv] = graph = in_new_model(rv)
        graph.name = model.rvs_to_values[rv].name if rv in flat else rv.name
        (new.observed_RVs if rv in model.observed_RVs else new.free_RVs).append(graph)
        value = None if rv in flat else model.rvs_to_values[rv]
        transform = None if rv in flat else model.rvs_to_transforms[rv]
        new.create_value_var(graph, transform=transform, default_transform=None, value_var=value)
        new.set_initval(graph, None if rv in flat else model.rvs_to_initial_values.get(rv))
        new.add_named_variable(graph)
    potentials = {potential.name: potential for potential in model.potentials}
    for name, term in {**potentials, **priors}.items():
        graph = in_new_model(term)
        graph.name = name
        graph.tag.is_prior = name in priors
        new.potentials.append(graph)
        new.add_named_variable(graph)
    return new, in_new_model
