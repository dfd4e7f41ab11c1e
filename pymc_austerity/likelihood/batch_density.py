"""The log density of an observed variable on a batch of rows."""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import TruncatedNormalRV
from pymc.distributions.truncated import TruncatedRV
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Shape

from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood.model_graph import is_array_leaf, plain_draw
from pymc_austerity.likelihood.rebuild import BatchRebuild
from pymc_austerity.likelihood.row_terms import Term


def batch_term(rebuild: BatchRebuild, term: Term, n_batch: Variable) -> Variable:
    """Return the log-probability of an observed variable on a batch, an entry for each row, and component by itself."""
    shape = [n_batch if i == term.axis else n for i, n in enumerate(term.lengths)]

    def density(given: Mapping[int, Variable]) -> Variable:
        return pm.logp(rebuild.resize(term.variable, shape, given), rebuild(term.value), warn_rvs=False)

    return _density_by_limits(plain_draw(term.variable).owner, rebuild, density)


def shapes_without_draws(term: Variable) -> Variable:
    """Replace the shape of a random variable by the expression for it.

    The density of a mixture asks for the shape of its components.  Left to the compiler, PyMC 5 would draw a component
    at every evaluation to see how long it is.
    """
    while True:
        shape = next((v for v in ancestors([term]) if _is_shape_of_draw(v)), None)
        if shape is None:
            return term
        rv = shape.owner.inputs[0]
        _, _, *parameters = rv.owner.inputs
        shapes = [None, None, *[_lengths(p) for p in parameters]]
        lengths = pt.stack(rv.owner.op.infer_shape(None, rv.owner, shapes)[1]).astype("int64")
        (term,) = graph_replace([term], {shape: lengths}, strict=False)


def _lengths(var: Variable) -> tuple[Variable, ...]:
    """Return the lengths of the axes, as numbers where the type of the variable says them."""
    return tuple(var.shape[axis] if n is None else pt.constant(n) for axis, n in enumerate(var.type.shape))


def _is_shape_of_draw(var: Variable) -> bool:
    of = var.owner.inputs[0].owner if var.owner is not None and isinstance(var.owner.op, Shape) else None
    return of is not None and isinstance(of.op, RandomVariable)


def _density_by_limits(
    node: Apply, rebuild: Callable[[Variable], Variable], density: Callable[[Mapping[int, Variable]], Variable]
) -> Variable:
    """Return the density of a random variable whose limits may be infinite in some rows.

    The derivatives of a density with a limit of ±inf multiply zero by infinity.  Rows of each kind (both limits, one,
    none) therefore have the density that PyMC gives a variable of that kind.
    """
    if not isinstance(node.op, TruncatedRV | TruncatedNormalRV):
        return density({})
    places = (len(node.inputs) - 2, len(node.inputs) - 1)
    limits = [node.inputs[place] for place in places]
    leaves = [leaf for leaf in ancestors(limits) if leaf.owner is None]
    if not all(map(is_array_leaf, leaves)):
        return density({})  # limits that are parameters are finite
    known = np.broadcast_arrays(*(limit.eval(mode=BY_NUMPY) for limit in limits))
    limited = np.stack([~np.isneginf(known[0]), ~np.isposinf(known[1])])
    kinds = np.unique(limited.reshape(2, -1), axis=1).T
    if kinds.all():
        return density({})
    batch = [rebuild(limit) for limit in limits]
    # Rows that are no longer of a kind that there was when the step was built have no density.
    may_change = any(isinstance(leaf, SharedVariable) for leaf in leaves)
    result = pt.constant(np.nan) if may_change or len(kinds) > 1 else None
    for kind in kinds:
        like = np.flatnonzero((limited.reshape(2, -1) == kind[:, None]).all(axis=0))[0]
        own = [~pt.eq(b, none) if has else pt.eq(b, none) for b, none, has in zip(batch, (-np.inf, np.inf), kind)]
        is_kind = reduce(and_, own)
        of_kind = {
            # Other rows get limits of a row of the kind, for which derivatives are finite.
            place: pt.switch(is_kind, b, known[side].flat[like])
            if kind[side]
            else pt.constant(np.full((1,) * b.type.ndim, (-np.inf, np.inf)[side]))
            for side, (place, b) in enumerate(zip(places, batch, strict=True))
        }
        result = density(of_kind) if result is None else pt.switch(is_kind, density(of_kind), result)
    return result
