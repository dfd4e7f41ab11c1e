"""The row terms as a graph of affine predictors: which they are, and their values and lengths row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytensor
from pytensor import scalar
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import AllocEmpty
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.special import LogSoftmax

from pymc_austerity.compat import pushforward
from pymc_austerity.likelihood.affine import keeps_affine
from pymc_austerity.likelihood.row_likelihood import RowLikelihood

#: NumPy evaluates these graphs a large chunk of rows at a time; compiling them would cost more than it saves.
_MODE = Mode(linker="py", optimizer="fast_compile")
#: Lengths of predictors are sums of as many squares as θ has entries.
_ROUNDED_UP = 1 + 1e-12
#: Numbers through which a row may read θ: the derivatives are counted in their powers.
MOST_PREDICTORS = 8


@dataclass(frozen=True, eq=False)
class RowGraph:
    """Row terms, simplified, with what they read of θ.

    Attributes
    ----------
    output : Variable
        Vector of row terms, without the checks of parameters.
    moving : frozenset of Variable
        Variables that depend on θ.
    predictors : tuple of Variable
        Affine functions of θ through which alone the output reads it.
    softmaxes : tuple of Variable
        Logarithms of a softmax over the last axis of further such functions.
    known : tuple of Variable
        What else the output reads.
    """

    output: Variable
    moving: frozenset[Variable]
    predictors: tuple[Variable, ...]
    softmaxes: tuple[Variable, ...]
    known: tuple[Variable, ...]


def row_graph(likelihood: RowLikelihood) -> RowGraph:
    """Simplify the row terms and find the affine predictors that they read."""
    output = rewrite_graph(_unchecked(likelihood.row_log_likelihood), include=("canonicalize", "stabilize"))
    theta = likelihood.theta
    moving, affine = {theta}, {theta}
    for node in io_toposort([theta], [output]):
        if isinstance(node.op, Shape | Shape_i | AllocEmpty):
            continue
        which = [i for i, var in enumerate(node.inputs) if var in moving]
        if which:
            moving.update(node.outputs)
            if all(node.inputs[i] in affine for i in which) and keeps_affine(node.op, which):
                affine.update(node.outputs)
    predictors: dict[Variable, None] = {}
    softmaxes: dict[Variable, None] = {}
    known: dict[Variable, None] = {}
    seen: set[Variable] = set()

    def visit(var: Variable) -> None:
        if var in seen:
            return
        seen.add(var)
        if var not in moving:
            known[var] = None
        elif _is_last_axis_softmax(var) and var.owner.inputs[0] in affine:
            softmaxes[var] = None
        elif var in affine and not only_shifts_or_scales(var, moving):
            predictors[var] = None
        else:
            for argument in var.owner.inputs:
                visit(argument)

    visit(output)
    return RowGraph(output, frozenset(moving), tuple(predictors), tuple(softmaxes), tuple(known))


def only_shifts_or_scales(var: Variable, moving: set[Variable] | frozenset[Variable]) -> bool:
    """Return whether a variable is another times a known number plus a known number, in perhaps other dimensions."""
    if var.owner is None:
        return False
    op = var.owner.op
    if isinstance(op, DimShuffle):
        return True
    if not isinstance(op, Elemwise):
        return False
    affine = (scalar.Add, scalar.Sub, scalar.Neg, scalar.Mul, scalar.TrueDiv, scalar.Identity, scalar.Cast)
    return isinstance(op.scalar_op, affine) and sum(v in moving for v in var.owner.inputs) == 1


def _is_last_axis_softmax(var: Variable) -> bool:
    if not (var.owner and isinstance(var.owner.op, LogSoftmax)) or var.owner.op.axis is None:
        return False
    axes = np.atleast_1d(var.owner.op.axis) % var.type.ndim
    return axes.tolist() == [var.type.ndim - 1]


def _unchecked(graph: Variable) -> Variable:
    """Return the graph without assertions, which say nothing where they hold."""
    inside = FunctionGraph(outputs=[graph], clone=False)
    for node in inside.toposort():
        if isinstance(node.op, CheckAndRaise):
            inside.replace(node.outputs[0], node.inputs[0], import_missing=True)
    return inside.outputs[0]


class Read(NamedTuple):
    """What row terms read, for a chunk of rows.

    Attributes
    ----------
    centres : dict of Variable to numpy.ndarray
        Predictors at θ̂.
    lengths : dict of Variable to numpy.ndarray
        ‖Lᵀx‖ of predictors, with x their gradients.
    spreads : dict of Variable to numpy.ndarray
        For a softmax, the largest ‖Lᵀ(x_k − x_l)‖ of two classes, once for each class.
    known : dict of Variable to numpy.ndarray
    """

    centres: dict[Variable, np.ndarray]
    lengths: dict[Variable, np.ndarray]
    spreads: dict[Variable, np.ndarray]
    known: dict[Variable, np.ndarray]


class PredictorReader:
    """Evaluates predictors, and what else row terms read, for chunks of rows."""

    def __init__(self, likelihood: RowLikelihood, graph: RowGraph):
        self.graph = graph
        along = likelihood.theta.type("along")
        inputs = [likelihood.theta, likelihood.others, *likelihood.fixed, *likelihood.batches]
        affine = [*graph.predictors, *(softmax.owner.inputs[0] for softmax in graph.softmaxes)]
        slopes = [pushforward(eta, likelihood.theta, along) for eta in affine]
        options: dict[str, Any] = {"mode": _MODE, "on_unused_input": "ignore"}
        self._values = pytensor.function(inputs, [*graph.predictors, *graph.known], **options)
        self._slopes = pytensor.function([along, *inputs], slopes, **options)

    def read(self, theta: np.ndarray, others: np.ndarray, factor: np.ndarray, data: Sequence[np.ndarray]) -> Read:
        """Evaluate a chunk of rows; `data` are the fixed arrays and then the batch."""
        graph, m = self.graph, len(self.graph.predictors)
        values = [np.asarray(v) for v in self._values(theta, others, *data)]
        squares: list[Any] = [0.0] * (m + len(graph.softmaxes))
        for direction in np.diag(factor) if factor.ndim == 1 else factor.T:
            for i, slope in enumerate(self._slopes(np.ascontiguousarray(direction), theta, others, *data)):
                x = np.asarray(slope)
                if i >= m:
                    x = x[..., :, None] - x[..., None, :]
                squares[i] = squares[i] + x * x
        lengths = [np.sqrt(s) * _ROUNDED_UP for s in squares]
        return Read(
            dict(zip(graph.predictors, values)),
            dict(zip(graph.predictors, lengths)),
            {softmax: _over_classes(length) for softmax, length in zip(graph.softmaxes, lengths[m:])},
            dict(zip(graph.known, values[m:])),
        )


def _over_classes(length: np.ndarray) -> np.ndarray:
    """Return the largest entry of the matrix of each row, once for each class."""
    return np.broadcast_to(length.max(axis=(-2, -1))[..., None], length.shape[:-1])
