"""Likelihoods that are zero beyond a limit that parameters move, as of a uniform law on (0, θ)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import Add, Identity, Mul, Neg, Second, Sub, Switch
from pytensor.tensor.basic import Alloc, Join, get_underlying_scalar_constant_value
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.shape import Shape, Shape_i

from pymc_austerity.likelihood.row_likelihood import RowLikelihood
from pymc_austerity.unsupported_model import UnsupportedModelError

#: What leaves −∞ as it is, so that a row has no likelihood wherever the part of it has none.
_KEEPS_INFINITY = (Add, Sub, Neg, Mul, Identity, Second)


def require_fixed_support(likelihood: RowLikelihood, step: str) -> None:
    """Refuse a likelihood that is zero for some rows beyond a limit that parameters move.

    One such row forbids a proposal, whatever the others say, and a batch that does not hold it does not know.
    """
    if any(_is_limit(condition, likelihood) for condition in _conditions(likelihood.row_log_likelihood)):
        raise UnsupportedModelError(
            f"{step}: rows have no likelihood beyond a limit that {sorted(likelihood.read)} move, as the rows of a "
            "uniform distribution on (0, θ) have none beyond θ. One row can forbid a proposal, and the rows that are "
            "read need not show it: draws would lie where the posterior has no density. Use ExactMH, which reads all "
            "rows, or give the limit as a number."
        )


def _conditions(graph: Variable) -> Iterator[Variable]:
    """Yield the conditions under which the graph is −∞."""
    seen: set[Variable] = set()
    left = [graph]
    while left:
        var = left.pop()
        if var in seen or var.owner is None:
            continue
        seen.add(var)
        op, inputs = var.owner.op, var.owner.inputs
        scalar_op = op.scalar_op if isinstance(op, Elemwise) else None
        if isinstance(scalar_op, Switch):
            if any(_is_minus_infinity(branch) for branch in inputs[1:]):
                yield inputs[0]
            left += inputs[1:]
        elif isinstance(scalar_op, _KEEPS_INFINITY) or isinstance(op, DimShuffle | Join):
            left += inputs
        elif isinstance(op, Alloc | CheckAndRaise):
            left.append(inputs[0])


def _is_minus_infinity(var: Variable) -> bool:
    try:
        return bool(np.isneginf(get_underlying_scalar_constant_value(var)))
    except NotScalarConstantError:
        return False


def _is_limit(condition: Variable, likelihood: RowLikelihood) -> bool:
    """Whether a condition compares what is of the rows with what is of the parameters, and not their lengths alone."""
    lengths = [
        var for var in ancestors([condition]) if var.owner is not None and isinstance(var.owner.op, Shape | Shape_i)
    ]
    read = {var for var in ancestors([condition], blockers=lengths) if not isinstance(var, Constant)}
    return bool(read & {likelihood.theta, likelihood.others}) and bool(read & set(likelihood.batches))
