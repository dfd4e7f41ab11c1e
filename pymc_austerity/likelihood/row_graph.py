"""The row terms as a graph of affine predictors: which they are, and their values and lengths row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytensor
from pytensor import scalar
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import AllocEmpty, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.special import LogSoftmax
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.type import discrete_dtypes

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood.affine import keeps_affine
from pymc_austerity.likelihood.row_likelihood import RowLikelihood

#: Lengths of predictors are sums of as many squares as θ has entries.
_ROUNDED_UP = 1 + 1e-12
#: Up to so many classes all pairs are compared.
_FEW_CLASSES = 16
#: Numbers through which a row may read θ: the derivatives are counted in their powers.
MOST_PREDICTORS = 8


class NoRemainderBoundError(NotImplementedError):
    """No bound on what a Taylor expansion leaves of a row is known; the message names what stands in the way."""


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


def simplified_rows(likelihood: RowLikelihood) -> Variable:
    """Return the row terms without checks of parameters, and in forms that do not lose digits."""
    rows = rewrite_graph(_unchecked(likelihood.row_log_likelihood), include=("canonicalize", "stabilize"))
    return rewrite_graph(rows, include=("none",), custom_rewrite=dfs_rewriter(_pick_from_join))


@node_rewriter([Subtensor])
def _pick_from_join(fgraph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Put in place of a part of joined vectors the vector that it is.

    Effects are coefficients joined with the ones that stand for their indicators, and a product of the two is affine.
    """
    joined = node.inputs[0].owner
    if joined is None or not isinstance(joined.op, Join) or node.inputs[0].type.ndim != 1:
        return None
    vectors = [v for v in joined.inputs if v.type.ndim]
    lengths = [v.type.shape[0] for v in vectors]
    if None in lengths or not all(isinstance(v, Constant) for v in node.inputs[1:]):
        return None
    storage: list[list[Any]] = [[None]]
    node.op.perform(node, [np.arange(sum(lengths)), *(v.data for v in node.inputs[1:])], storage)
    for vector, stop in zip(vectors, np.cumsum(lengths)):
        if np.array_equal(storage[0][0], np.arange(stop - vector.type.shape[0], stop)):
            return [vector]
    return None


def row_graph(likelihood: RowLikelihood) -> RowGraph:
    """Simplify the row terms and find the affine predictors that they read."""
    output, theta = simplified_rows(likelihood), likelihood.theta
    moving, affine = {theta}, {theta}
    for node in io_toposort([theta], [output]):
        if isinstance(node.op, Shape | Shape_i | AllocEmpty):
            continue
        which = [i for i, var in enumerate(node.inputs) if var in moving]
        if which:
            moving.update(node.outputs)
            smooth = not _is_discrete(node.outputs[0])  # a cast to whole numbers is a rounding
            if smooth and all(node.inputs[i] in affine for i in which) and keeps_affine(node.op, which):
                affine.update(node.outputs)
    opened: set[Variable] = set()
    while True:
        found = _read_by(output, moving, affine, opened)
        more = {eta for eta in found.predictors if _is_sum_of(eta, moving, set(found.predictors))}
        if not more:
            return found
        opened |= more


def _read_by(output: Variable, moving: set[Variable], affine: set[Variable], opened: set[Variable]) -> RowGraph:
    """Return what the output reads of θ, with the sums `opened` taken apart."""
    predictors: dict[Variable, None] = {}
    softmaxes: dict[Variable, None] = {}
    known: dict[Variable, None] = {}
    seen: set[Variable] = set()
    ahead = [output]
    while ahead:
        var = ahead.pop()
        if var in seen:
            continue
        seen.add(var)
        if var not in moving:
            known[var] = None
        elif _is_last_axis_softmax(var) and var.owner.inputs[0] in affine:
            softmaxes[var] = None
        elif var in affine and var not in opened and not only_shifts_or_scales(var, moving):
            predictors[var] = None
        else:
            ahead += reversed(var.owner.inputs)
    return RowGraph(output, frozenset(moving), tuple(predictors), tuple(softmaxes), tuple(known))


def _is_sum_of(eta: Variable, moving: set[Variable], predictors: set[Variable]) -> bool:
    """Return whether a predictor is a sum of others and at most one more.

    Derivatives by numbers that are read in other places too cancel there, as those of a negative binomial by its
    dispersion α do between log α − η and log α.
    """
    if not (
        eta.owner and isinstance(eta.owner.op, Elemwise) and isinstance(eta.owner.op.scalar_op, scalar.Add | scalar.Sub)
    ):
        return False
    parts = [_core(v, moving) for v in eta.owner.inputs if v in moving]
    return sum(v not in predictors for v in parts) <= 1


def _is_discrete(var: Variable) -> bool:
    return getattr(var.type, "dtype", "float64") in discrete_dtypes


def _core(var: Variable, moving: set[Variable]) -> Variable:
    while only_shifts_or_scales(var, moving):
        var = next(v for v in var.owner.inputs if v in moving)
    return var


def only_shifts_or_scales(var: Variable, moving: set[Variable] | frozenset[Variable]) -> bool:
    """Return whether a variable is another times a known number plus a known number, in perhaps other dimensions."""
    if var.owner is None:
        return False
    op = var.owner.op
    if isinstance(op, DimShuffle):
        return True
    if not isinstance(op, Elemwise) or _is_discrete(var):
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


class Predictor(NamedTuple):
    """Numbers that are affine in θ, as an array that the graph holds.

    Attributes
    ----------
    centre : numpy.ndarray
        Their values at θ̂.
    slopes : dict of int to numpy.ndarray
        For each number that a row reads, in the count over all predictors: ‖Lᵀx‖, with x its gradient, and zero at the
        entries of the array that are other numbers.
    """

    centre: np.ndarray
    slopes: dict[int, np.ndarray]


class Read(NamedTuple):
    """What row terms read, for a chunk of rows.

    Attributes
    ----------
    n_rows : int
    predictors : dict of Variable to Predictor
    cosines : dict of (int, int) to numpy.ndarray
        Of the angle between the vectors Lᵀx of two numbers, a < b.
    spreads : dict of Variable to numpy.ndarray
        For the logarithm of a softmax, the largest ‖Lᵀ(x_k − x_l)‖ of two classes, once for each class.
    known : dict of Variable to numpy.ndarray
    """

    n_rows: int
    predictors: dict[Variable, Predictor]
    cosines: dict[tuple[int, int], np.ndarray]
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
        options: dict[str, Any] = {"mode": BY_NUMPY, "on_unused_input": "ignore"}
        self._values = pytensor.function(inputs, [*graph.predictors, *graph.known], **options)
        self._slopes = pytensor.function([along, *inputs], slopes, **options)
        batches = set(likelihood.batches)
        self._axes: list[int | None] | None = None
        self._by_row = [bool(batches & set(ancestors([eta]))) for eta in graph.predictors]

    def read(
        self, theta: np.ndarray, others: np.ndarray, factor: np.ndarray, data: Sequence[np.ndarray], n_rows: int
    ) -> Read:
        """Evaluate a chunk of rows; `data` are the fixed arrays and then the batch."""
        graph, m = self.graph, len(self.graph.predictors)
        values = [np.asarray(v) for v in self._values(theta, others, *data)]
        if self._axes is None:  # settled once: a last chunk may be as short as another axis
            self._axes = [
                next((k for k, size in enumerate(value.shape) if by_row and size == n_rows), None)
                for value, by_row in zip(values, self._by_row)
            ]
        axes = self._axes
        products: dict[tuple[int, int], Any] = {}
        squares: list[Any] = [0.0] * len(graph.softmaxes)
        shapes: list[tuple[int, ...]] = [()] * len(graph.softmaxes)
        for direction in np.diag(factor) if factor.ndim == 1 else factor.T:
            slopes = [np.asarray(s) for s in self._slopes(np.ascontiguousarray(direction), theta, others, *data)]
            numbers = [
                x for slope, value, axis in zip(slopes, values, axes)
                for x in _numbers(np.broadcast_to(slope, value.shape), axis)
            ]  # fmt: skip
            if len(numbers) > MOST_PREDICTORS:
                raise NoRemainderBoundError(f"more than {MOST_PREDICTORS} numbers a row")
            for a, x in enumerate(numbers):
                for b, y in enumerate(numbers[a:], start=a):
                    products[a, b] = products.get((a, b), 0.0) + x * y
            for i, x in enumerate(slopes[m:]):
                shapes[i] = x.shape
                squares[i] = squares[i] + _differences(x) ** 2
        lengths = {a: np.sqrt(total) * _ROUNDED_UP for (a, b), total in products.items() if a == b}
        predictors, count = {}, 0
        for eta, value, axis in zip(graph.predictors, values, axes):
            predictors[eta] = _predictor(value, axis, lengths, count)
            count += len(predictors[eta].slopes)
        return Read(
            n_rows,
            predictors,
            {(a, b): _cosine(total, lengths[a] * lengths[b]) for (a, b), total in products.items() if a < b},
            {
                softmax: np.broadcast_to(np.sqrt(s.max(axis=-1, keepdims=True)) * _ROUNDED_UP, shape)
                for softmax, s, shape in zip(graph.softmaxes, squares, shapes)
            },
            dict(zip(graph.known, values[m:])),
        )

    def directions(
        self, theta: np.ndarray, others: np.ndarray, factor: np.ndarray, data: Sequence[np.ndarray], n_rows: int
    ) -> np.ndarray | None:
        """Return the unit vectors along which the only predictor changes, None where rows read anything else."""
        if len(self.graph.predictors) != 1 or self.graph.softmaxes or not self._by_row[0]:
            return None
        shape = np.asarray(self._values(theta, others, *data)[0]).shape
        if np.prod(shape) != n_rows:
            return None
        found = np.empty((n_rows, factor.shape[1]))
        for j, direction in enumerate(factor.T):
            slope = np.asarray(self._slopes(np.ascontiguousarray(direction), theta, others, *data)[0])
            found[:, j] = np.broadcast_to(slope, shape).ravel()
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return np.divide(found, lengths, out=np.zeros_like(found), where=lengths > 0)


def _numbers(x: np.ndarray, axis: int | None) -> np.ndarray:
    """Return the numbers a row as the rows of a matrix, one column for each row of the data or one for all."""
    return x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])


def _predictor(value: np.ndarray, axis: int | None, lengths: dict[int, np.ndarray], count: int) -> Predictor:
    rest = tuple(1 if k == axis else size for k, size in enumerate(value.shape))
    along = tuple(-1 if k == axis else 1 for k in range(value.ndim))
    slopes = {}
    for j in range(int(np.prod(rest))):
        own = np.zeros(int(np.prod(rest)))
        own[j] = 1.0
        slopes[count + j] = lengths[count + j].reshape(along) * own.reshape(rest)
    return Predictor(value, slopes)


def _cosine(product: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    return np.divide(product, lengths, out=np.ones(np.shape(lengths)), where=lengths > 0) * _ROUNDED_UP


def _differences(x: np.ndarray) -> np.ndarray:
    """Return numbers whose largest length is at least that of a difference of two classes."""
    if x.shape[-1] <= _FEW_CLASSES:
        return (x[..., :, None] - x[..., None, :]).reshape(*x.shape[:-1], -1)
    return 2 * (x - x.mean(axis=-1, keepdims=True))  # of many classes, no pairs
