"""The predictors that rows read, evaluated row by row: their values, and their lengths in the whitened space."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_austerity.bounds.row_graph import NoRemainderBoundError, RowGraph
from pymc_austerity.compat import pushforward
from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.likelihood import RowLikelihood

#: Lengths of predictors are sums of as many squares as θ has entries.
_ROUNDED_UP = 1 + 1e-12
#: Up to so many classes all pairs are compared.
_FEW_CLASSES = 16
#: Numbers through which a row may read θ: the derivatives are counted in their powers.
MOST_PREDICTORS = 8


class Predictor(NamedTuple):
    """Numbers that are affine in θ, as an array that the graph holds."""

    centre: np.ndarray  # their values at θ̂
    #: For each number that a row reads, in the count over all predictors: ‖Lᵀx‖, with x its gradient, and zero at the
    #: entries of the array that are other numbers.
    slopes: dict[int, np.ndarray]


class Read(NamedTuple):
    """What row terms read, for a chunk of rows."""

    n_rows: int
    predictors: dict[Variable, Predictor]
    cosines: dict[tuple[int, int], np.ndarray]  # of the angle between the vectors Lᵀx of two numbers, a < b
    #: For the logarithm of a softmax, the largest ‖Lᵀ(x_k − x_l)‖ of two classes, once for each class.
    spreads: dict[Variable, np.ndarray]
    known: dict[Variable, np.ndarray]


class PredictorReader:
    """Evaluates predictors, and what else row terms read, for chunks of rows."""

    def __init__(self, likelihood: RowLikelihood, graph: RowGraph):
        self.graph = graph
        along = likelihood.theta.type("along")
        inputs = [likelihood.theta, *likelihood.fixed, *likelihood.batches]
        affine = [*graph.predictors, *(softmax.owner.inputs[0] for softmax in graph.softmaxes)]
        slopes = [pushforward(eta, likelihood.theta, along) for eta in affine]
        options: dict[str, Any] = {"mode": BY_NUMPY, "on_unused_input": "ignore"}
        self._values = pytensor.function(inputs, [*graph.predictors, *graph.known], **options)
        self._slopes = pytensor.function([along, *inputs], slopes, **options)
        batches = set(likelihood.batches)
        self._axes: list[int | None] | None = None
        self._n_batches = len(likelihood.batches)
        self._by_row = [bool(batches & set(ancestors([eta]))) for eta in graph.predictors]

    def read(self, theta: np.ndarray, factor: np.ndarray, data: Sequence[np.ndarray], n_rows: int) -> Read:
        """Evaluate a chunk of rows; `data` are the fixed arrays and then the batch."""
        graph, m = self.graph, len(self.graph.predictors)
        values = [np.asarray(v) for v in self._values(theta, *data)]
        if self._axes is None:
            self._axes = self._row_axes(theta, data)
        axes = self._axes
        products: dict[tuple[int, int], Any] = {}
        squares: list[Any] = [0.0] * len(graph.softmaxes)
        shapes: list[tuple[int, ...]] = [()] * len(graph.softmaxes)
        for direction in factor.T:
            slopes = [np.asarray(s) for s in self._slopes(np.ascontiguousarray(direction), theta, *data)]
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

    def _row_axes(self, theta: np.ndarray, data: Sequence[np.ndarray]) -> list[int | None]:
        """Return the axis of each predictor that is as long as a batch, whose own length may be that of another too."""
        n_fixed = len(data) - self._n_batches
        shapes = []
        for n_rows in (2, 3):
            batch = [np.repeat(a[:1], n_rows, axis=0) for a in data[n_fixed:]]
            values = self._values(theta, *data[:n_fixed], *batch)
            shapes.append([np.shape(v) for v in values[: len(self.graph.predictors)]])
        return [next((k for k, sizes in enumerate(zip(*both)) if sizes == (2, 3)), None) for both in zip(*shapes)]

    def directions(
        self, theta: np.ndarray, factor: np.ndarray, data: Sequence[np.ndarray], n_rows: int
    ) -> np.ndarray | None:
        """Return the unit vectors along which the only predictor changes, None where rows read anything else."""
        if len(self.graph.predictors) != 1 or self.graph.softmaxes or not self._by_row[0]:
            return None
        shape = np.asarray(self._values(theta, *data)[0]).shape
        if np.prod(shape) != n_rows:
            return None
        found = np.empty((n_rows, factor.shape[1]))
        for j, direction in enumerate(factor.T):
            slope = np.asarray(self._slopes(np.ascontiguousarray(direction), theta, *data)[0])
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
