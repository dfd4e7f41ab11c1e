"""A model in which effects that sum to zero within each group are made of normal ones, one fewer a group.

``pm.ZeroSumNormal("z", shape=(G, K))`` sums to zero along its last axis.  PyMC's own coordinates v of it, shape
(G, K − 1), are independent and normal, and z = v H with orthonormal rows of H: written so, ``tau * z[g]`` is read as
effects ``tau * v`` of groups are.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import ZeroSumTransform
from pymc.model import Model
from pytensor.graph.basic import Variable

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood.derived_model import Joined, derived_model, replacing
from pymc_austerity.likelihood.repeats import shapes_of_free


def with_sums_within_groups(model: Model) -> Model:
    """Return a model with the same log density and value variables; the model itself where no effects sum so."""
    tables = [rv for rv in model.free_RVs if _sums_along_rows(model, rv)]
    shapes = shapes_of_free(model) if tables else {}
    # Of a table of few long rows the groups are its columns, and sum to zero over all groups.
    made = {rv: _by_fewer(model, rv, *shapes[rv]) for rv in tables if shapes[rv][0] > shapes[rv][1]}
    if not made:
        return model
    laws = {rv: law for rv, (law, _) in made.items()}
    names = {rv: model.rvs_to_values[rv].name for rv in made}
    whole = replacing(model, {rv: law @ directions for rv, (law, directions) in made.items()})
    return derived_model(
        model,
        lambda term: laws[term] if term in laws else whole(term),
        joined={rv: Joined(law, names[rv], None, transformed=False) for rv, law in laws.items()},
    )[0]


def _sums_along_rows(model: Model, rv: Variable) -> bool:
    """Whether a free variable is a table each row of which sums to zero."""
    transform = model.rvs_to_transforms[rv]
    return isinstance(transform, ZeroSumTransform) and rv.type.ndim == 2 and rv.owner.op.ndim_supp == 1


def _by_fewer(model: Model, rv: Variable, n: int, k: int) -> tuple[Variable, np.ndarray]:
    """Return the law of v, and H, of n groups with k effects each."""
    _, _, sigma, _ = rv.owner.inputs
    effects_of_each = model.rvs_to_transforms[rv].backward(pt.constant(np.eye(k - 1)), *rv.owner.inputs)
    return pm.Normal.dist(0.0, sigma, shape=(n, k - 1)), effects_of_each.eval(mode=BY_NUMPY)
