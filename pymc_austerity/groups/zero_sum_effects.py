"""Effects that sum to zero, `pymc.ZeroSumNormal`, by all of their entries.

PyMC's coordinates are one fewer than the effects, of which each reads all of them.  With all effects in their place the
rows read one each, and their prior splits over groups; every move leaves the sum as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import ZeroSumTransform
from pymc.model import Model
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.scalar import Mul, Neg, TrueDiv
from pytensor.tensor.elemwise import Elemwise


def is_zero_sum(model: Model, rv: Variable) -> bool:
    """Whether a free variable is a vector of effects that sum to zero."""
    return rv.type.ndim == 1 and isinstance(model.rvs_to_transforms[rv], ZeroSumTransform)


def followed_by_factors(
    var: Variable, clients: Mapping[Variable, Sequence[Apply]], ends: Sequence[Variable]
) -> tuple[Variable, list[Apply]]:
    """Follow a variable through products with single numbers, and return what comes last, and these products."""
    passed: list[Apply] = []
    while len(clients.get(var, ())) == 1 and not (passed and var in ends):
        (node,) = clients[var]
        which = [k for k, other in enumerate(node.inputs) if other is var]
        scalar = node.op.scalar_op if isinstance(node.op, Elemwise) else None
        keeps = isinstance(scalar, Mul | Neg) or (isinstance(scalar, TrueDiv) and which == [0])
        if not keeps or len(which) != 1 or not all(all(o.type.broadcastable) for o in node.inputs if o is not var):
            break
        var = node.outputs[0]
        passed.append(node)
    return var, passed


def by_zero_sum(source: Variable, effects: Variable, new: Variable) -> tuple[Variable, Variable]:
    """Return the source as a function of `new`, which stands for its effects, and log p(z) + log |∂z/∂u| by group."""
    (n,) = new.type.shape
    (times,) = graph_replace([effects], {source: pt.ones(n)}, strict=False)
    slope, (_, _, scale, _) = times[0], source.owner.inputs
    sd, share = slope * scale.reshape(()), (n - 1) / n
    log_prior = -0.5 * (new / sd) ** 2 - share * (pt.log(pt.abs(sd)) + 0.5 * np.log(2 * np.pi))
    return new / slope, log_prior
