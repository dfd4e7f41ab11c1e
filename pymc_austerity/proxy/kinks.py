"""Rows with a kink, as those of an absolute value, have no second derivative there: what is expanded has it rounded.

A sum of many |y_i − x_iᵀβ|, each with its kink at another place, is as smooth as the posterior is wide.  √(r² + h²) is
expanded in place of |r|, and r/√(r² + h²) in place of the sign of r, with h the width of r under the posterior.  The
rows that a test reads stay as they are, so that h decides how much the expansion leaves of a row, and no more.  It
differs from |r| far from the kink too, by about h²/2|r|, so that rows which seldom cross it have a weight.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import toposort, walk
from pytensor.scalar import basic as scalars
from pytensor.tensor.elemwise import Elemwise

from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.likelihood.model_graph import values_read
from pymc_austerity.proxy.comparisons import COMPARISONS, with_kinks
from pymc_austerity.proxy.kink_widths import find_widths
from pymc_austerity.rows import Table

#: The width h, in standard deviations of what has the kink.
WIDTH = 0.8
_KINKS = scalars.Abs | scalars.Sign | scalars.Maximum | scalars.Minimum | scalars.Clip | COMPARISONS


def with_kinks_rounded(
    likelihood: RowLikelihood, table: Table, fixed: Sequence[np.ndarray], start: np.ndarray, width: float = WIDTH
) -> RowLikelihood:
    """Return the likelihood with what is expanded in place of its rows, where these have kinks that matter.

    `start` is ψ = (θ, others), from which the mode of some of the rows is searched; `width` is h, in standard
    deviations of what has the kink.
    """
    rows = likelihood.row_log_likelihood
    read = set(walk([rows], values_read, bfs=False))  # without what a check of parameters compares
    nodes = [node for node in toposort([rows]) if node.outputs[0] in read and _may_have_kink(node, likelihood)]
    compared = [node for node in nodes if isinstance(_by_entries(node), COMPARISONS)]
    kinks = {*nodes}.difference(compared).union(with_kinks(compared, likelihood, table, fixed, start))
    if not kinks:
        return likelihood
    rounding = _Rounding(kinks)
    rounded = rounding.of(rows)
    found = find_widths(replace(likelihood, rounded=rounded), rounding.widths, table, fixed, start)
    if found is None:
        return likelihood
    known = {h: pt.constant(width * one) for h, one in zip(rounding.widths.values(), found, strict=True)}
    (rounded,) = graph_replace([rounded], known)
    return replace(likelihood, rounded=rounded)


def _by_entries(node: Apply) -> scalars.ScalarOp | None:
    """Return what a node does to each entry of its inputs, or None where it does something else."""
    return node.op.scalar_op if isinstance(node.op, Elemwise) else None


def _may_have_kink(node: Apply, likelihood: RowLikelihood) -> bool:
    """Return whether a node has a kink at a place that depends on θ and on the data of a row, or compares there."""
    if not isinstance(_by_entries(node), _KINKS):
        return False
    behind = set(walk(node.inputs, values_read, bfs=False))  # not that of a shape, as a limit of whole numbers may be
    return likelihood.theta in behind and not behind.isdisjoint(likelihood.batches)


class _Rounding:
    """Writes a graph with some of its kinks rounded."""

    def __init__(self, kinks: Collection[Apply]):
        self._kinks = kinks
        self._differences: dict[tuple[Variable, Variable], Variable] = {}
        #: From each number that is zero at a kink to its h.
        self.widths: dict[Variable, Variable] = {}

    def of(self, graph: Variable) -> Variable:
        """Return a graph of row terms with its kinks rounded."""
        written: dict[Variable, Variable] = {}
        for node in toposort([graph]):
            inputs = [written.get(v, v) for v in node.inputs]
            if node in self._kinks:
                written[node.outputs[0]] = self._stand_in(node, inputs)
            elif inputs != node.inputs:
                written.update(zip(node.outputs, _applied(node, inputs), strict=True))
        return written.get(graph, graph)

    def _stand_in(self, node: Apply, inputs: Sequence[Variable]) -> Variable:
        """Return what stands in for the result of a node with a kink."""
        op = _by_entries(node)
        if isinstance(op, scalars.Abs):
            return self._size(inputs[0])
        if isinstance(op, scalars.Sign):
            return self._sign(inputs[0])
        if isinstance(op, scalars.Clip):
            return self._smaller(self._larger(inputs[0], inputs[1]), inputs[2])
        if isinstance(op, scalars.Maximum | scalars.Minimum):
            of_two = self._larger if isinstance(op, scalars.Maximum) else self._smaller
            found = inputs[0]
            for other in inputs[1:]:
                found = of_two(found, other)
            return found
        larger_first = isinstance(op, scalars.GT | scalars.GE)
        return (1.0 + self._sign(self._difference(*(inputs if larger_first else inputs[::-1])))) / 2

    def _larger(self, a: Variable, b: Variable) -> Variable:
        return a if _is_infinite(b) else (a + b + self._size(self._difference(a, b))) / 2

    def _smaller(self, a: Variable, b: Variable) -> Variable:
        return a if _is_infinite(b) else (a + b - self._size(self._difference(a, b))) / 2

    def _difference(self, a: Variable, b: Variable) -> Variable:
        """Return a − b, one and the same wherever it is asked for."""
        return self._differences.setdefault((a, b), a - b)

    def _size(self, number: Variable) -> Variable:
        """Return the absolute value of a number with its kink rounded."""
        h = self.widths.setdefault(number, pt.dscalar("h"))
        return pt.sqrt(number**2 + h**2)

    def _sign(self, number: Variable) -> Variable:
        """Return the sign of a number, rounded."""
        return number / self._size(number)


def _is_infinite(limit: Variable) -> bool:
    return isinstance(limit, Constant) and bool(np.isinf(limit.data).all())


def _applied(node: Apply, inputs: list[Variable]) -> list[Variable]:
    """Return the outputs of a node for other inputs, of which comparisons are numbers between 0 and 1."""
    op = _by_entries(node)
    if all(old.type.dtype == new.type.dtype for old, new in zip(node.inputs, inputs, strict=True)):
        return list(node.op.make_node(*inputs).outputs)
    if isinstance(op, scalars.Cast):
        return inputs
    if isinstance(op, scalars.Switch):
        return [inputs[2] + inputs[0] * (inputs[1] - inputs[2])]
    if isinstance(op, scalars.AND):
        return [inputs[0] * inputs[1]]
    if isinstance(op, scalars.OR):
        return [inputs[0] + inputs[1] - inputs[0] * inputs[1]]
    if isinstance(op, scalars.Invert):
        return [1.0 - inputs[0]]
    return list(node.op.make_node(*inputs).outputs)
