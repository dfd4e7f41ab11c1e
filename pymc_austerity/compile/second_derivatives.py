"""Operations of which PyTensor knows the first derivative alone, written by others of which it knows the second.

- A product along an axis, such as that of the length scales of a Gaussian process.
- The incomplete beta function where one of its parameters is one, I_x(a, 1) = xᵃ and I_x(1, b) = 1 − (1 − x)ᵇ: the
  probability of a zero of a negative binomial, as it is truncated in `pymc.HurdleNegativeBinomial`.
- PyMC's Bessel functions, in `pymc.VonMises` and `pymc.Rice`.
"""

from functools import reduce
from math import prod
from operator import mul
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import i0e, i1e
from pytensor.graph.basic import Apply, Variable, clone
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import apply_ancestors, explicit_graph_inputs
from pytensor.tensor.basic import get_underlying_scalar_constant_value
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.math import Prod

#: Products of at most so many entries are written out.
_FEW_FACTORS = 16
#: PyMC's Bessel functions, exponentially scaled, and their orders.
_BESSEL = {i0e: 0.0, i1e: 1.0}


def twice_differentiable(graph: Variable) -> Variable:
    """Return a graph of the same value of which PyTensor knows the second derivative, where it is one of these."""
    ops = {node.op for node in apply_ancestors([graph])}
    if not any(isinstance(op, Prod) or op == pt.betainc or op in _BESSEL for op in ops):
        return graph
    _, (graph,) = clone(list(explicit_graph_inputs([graph])), [graph], copy_inputs=False)
    rewrites = dfs_rewriter(_write_out_product, _write_beta_as_power, _write_bessel_by_order)
    return rewrite_graph(graph, include=("none",), clone=False, custom_rewrite=rewrites)


@node_rewriter([Prod])
def _write_out_product(fgraph: Any, node: Apply) -> list[Variable] | None:
    """Multiply few entries one by one."""
    (x,) = node.inputs
    along = range(x.type.ndim) if node.op.axis is None else node.op.axis
    lengths = [x.type.shape[a] for a in along]
    known = [n for n in lengths if n is not None]
    if len(known) < len(lengths) or not 0 < prod(known) <= _FEW_FACTORS:
        if node.op.no_zeros_in_input:
            return None
        # It knows the second of a product without zeros.
        return [pt.prod(x, axis=node.op.axis, dtype=node.outputs[0].type.dtype, no_zeros_in_input=True)]
    moved = pt.moveaxis(x, list(along), list(range(len(known))))
    return [pt.cast(reduce(mul, [moved[i] for i in np.ndindex(*known)]), node.outputs[0].type.dtype)]


@node_rewriter([pt.betainc])
def _write_beta_as_power(fgraph: Any, node: Apply) -> list[Variable] | None:
    a, b, x = node.inputs
    (out,) = node.outputs
    if _is_one(b):
        written = x**a
    elif _is_one(a):
        written = -pt.expm1(b * pt.log1p(-x))
    else:
        return None
    written = pt.cast(written, out.type.dtype)
    # Of another shape where the ones are more than the other two.
    return [written] if written.type.broadcastable == out.type.broadcastable else None


@node_rewriter(list(_BESSEL))
def _write_bessel_by_order(fgraph: Any, node: Apply) -> list[Variable]:
    """Write the function by that of any order, whose derivative is one of its neighbours in order."""
    return [pt.cast(pt.ive(_BESSEL[node.op], node.inputs[0]), node.outputs[0].type.dtype)]


def _is_one(var: Variable) -> bool:
    """Whether a graph is one everywhere, also where it takes its shape from others."""
    try:
        return bool(
            get_underlying_scalar_constant_value(rewrite_graph(var, include=("canonicalize",), clone=True)) == 1
        )
    except NotScalarConstantError:
        return False
