"""The incomplete beta function in closed form, where one of its parameters is one.

I_x(a, 1) = xᵃ and I_x(1, b) = 1 − (1 − x)ᵇ.  PyTensor differentiates the function by a parameter in a loop that it
cannot differentiate again; the first is the probability of a zero of a negative binomial, as it is truncated in
`pymc.HurdleNegativeBinomial`.
"""

from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable, clone
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import apply_ancestors, explicit_graph_inputs
from pytensor.tensor.basic import get_underlying_scalar_constant_value
from pytensor.tensor.exceptions import NotScalarConstantError


def in_closed_form(graph: Variable) -> Variable:
    """Return a graph without incomplete beta functions of which one parameter is the constant one."""
    if not any(node.op == pt.betainc for node in apply_ancestors([graph])):
        return graph
    _, (graph,) = clone(list(explicit_graph_inputs([graph])), [graph], copy_inputs=False)
    return rewrite_graph(graph, include=("none",), clone=False, custom_rewrite=dfs_rewriter(_write_as_power))


@node_rewriter([pt.betainc])
def _write_as_power(fgraph: Any, node: Apply) -> list[Variable] | None:
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


def _is_one(var: Variable) -> bool:
    """Whether a graph is one everywhere, also where it takes its shape from others."""
    try:
        return bool(
            get_underlying_scalar_constant_value(rewrite_graph(var, include=("canonicalize",), clone=True)) == 1
        )
    except NotScalarConstantError:
        return False
