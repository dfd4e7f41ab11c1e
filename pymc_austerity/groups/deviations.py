"""A model in which the effects of nested groups are deviations from those of the coarser group.

``b ~ Normal(c[school], s)``, of which row i reads the entry of its class, is written ``c[school] + b`` with
``b ~ Normal(0, s)``: classes and schools are then factors of their own, which a mean of each class is not.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_austerity.compat import replace_parts
from pymc_austerity.groups.nested_by_row import is_coarser, parts_of, with_nested_by_row
from pymc_austerity.likelihood.derived_model import derived_model, replacing

#: Laws that a shift of their mean leaves as they are, and the place of the mean among their parameters.
_PLACE_OF_MEAN = {pm.Normal: 0, pm.MvNormal: 0, pm.StudentT: 1, pm.Laplace: 0, pm.Cauchy: 0, pm.Logistic: 0}


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
    for part in parts_of(parameters[place]):
        # With a scale that is estimated: a few means with priors of their own are coefficients.
        pooled = is_coarser(part, free) and len(free.intersection(ancestors([part]))) > 1
        (coarser if pooled else rest).append(part)
    if not coarser:
        return None
    shape = np.shape(model.initial_point()[model.rvs_to_values[rv].name])
    size, of_one = shape[: len(shape) - op.ndim_supp], shape[len(shape) - op.ndim_supp :]
    parameters[place] = reduce(add, rest) if rest else pt.zeros(of_one)
    law = op.make_node(op.rng_param(node), pt.constant(size), *parameters).outputs[1]
    return law, reduce(add, coarser)
