"""Coefficients of columns whose scales are estimated, as those of ``X @ b`` with a horseshoe, as a factor of one group.

All rows read them.  Given their scales they are moved together as the effects of a group are, so that nothing has to be
expanded at a joint mode, which lies at a scale of zero or does not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

import numpy as np
import pytensor.tensor as pt
from pymc.model import Model
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, apply_ancestors
from pytensor.scalar import Mul
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum

from pymc_austerity.groups.elimination import MOST_LEFT
from pymc_austerity.groups.factor import Factor, in_theta, prior_terms
from pymc_austerity.likelihood import ModelData
from pymc_austerity.likelihood.model_graph import is_product

#: Numbers that an expansion holds for all groups, each of which has room for as many parameters as the largest; and
#: second derivatives of rows that it takes, about a minute.
_MOST_NUMBERS, _MOST_DERIVATIVES = 10_000_000, 100_000_000


def are_columns(first: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return for each factor whether it is coefficients of columns, as only those are one group, shape (F,)."""
    return np.diff(first) == 1


def find_columns(
    model: Model, data: ModelData, rows: Sequence[Variable], taken: Collection[str], n_groups: int
) -> Factor | None:
    """Return the coefficients of columns as a factor of one group, or None where there are none.

    `taken` are the names of the variables of other factors, which have `n_groups` groups.
    """
    free = set(model.value_vars)
    products = dict(product for node in apply_ancestors(rows) if (product := _coefficients(node, free)) is not None)
    otherwise = graph_replace(rows, {out: out.type() for out in products}, strict=False)
    by_products = set(ancestors([*products.values()])) - set(ancestors(otherwise))
    members = [v for v in model.value_vars if v in by_products and v.name not in taken and _is_scaled(v, model, data)]
    places = {b.name: np.arange(b.start, b.stop) for b in data.likelihood.blocks}
    own = np.concatenate([np.empty(0, np.int64), *(places[v.name] for v in members)])
    directions = np.concatenate([own, *(places[name] for name in data.likelihood.read if name not in taken)])
    n = np.unique(directions).size
    if not 1 < own.size <= MOST_LEFT or n * (n + 1) / 2 * data.likelihood.n_rows > _MOST_DERIVATIVES:
        return None
    if (n_groups + 1) * own.size**2 > _MOST_NUMBERS:
        return None
    graphs = prior_terms(model, data, members)
    prior = in_theta(model, data, pt.add(*[graph.sum() for graph in graphs.values()], 0.0).reshape((1,)))
    return Factor(tuple(v.name for v in members), ((),), (0,), own[None], prior, frozenset(graphs), True, None)


def _is_scaled(v: Variable, model: Model, data: ModelData) -> bool:
    """Whether a variable is an unbounded array, the prior of which reads other free variables."""
    if not v.type.ndim or v.type.dtype[:5] != "float" or model.rvs_to_transforms[model.values_to_rvs[v]] is not None:
        return False
    others = set(model.value_vars) - {v}
    return not others.isdisjoint(ancestors([*prior_terms(model, data, [v]).values()]))


def _coefficients(node: Apply, free: Set[Variable]) -> tuple[Variable, Variable] | None:
    """Return a product of columns with coefficients, and the coefficients; None of what is no such product."""
    if isinstance(node.op, Sum) and (of := node.inputs[0].owner) is not None and isinstance(of.op, Elemwise):
        sides = of.inputs if isinstance(of.op.scalar_op, Mul) else []
    else:
        sides = node.inputs if is_product(node) else []
    by_free = [side for side in sides if not free.isdisjoint(ancestors([side]))]
    return (node.outputs[0], by_free[0]) if len(by_free) == 1 else None
