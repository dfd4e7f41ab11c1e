"""The log-likelihood of a chunk of rows, its gradient and Hessian; what adds up is compiled once for all models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from numba import types
from pytensor.gradient import grad
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_austerity.compat import pushforward
from pymc_austerity.compile.addresses import tuple_of
from pymc_austerity.compile.by_address import Reached, call_at, reach
from pymc_austerity.compile.graph_compiler import compile_part
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import VECTOR, RowLikelihood, row_predictor
from pymc_austerity.likelihood.linked_functions import ONE_VECTOR, TOTAL_AND_SLOPE, reach_graph
from pymc_austerity.likelihood.row_entries import RowEntries, find_row_entries

#: Rows that read fewer than one in so many coordinates are summed entry by entry, not by a matrix product.
_FEW = 8


#: ``sums(derivatives, psi, data, coordinates)``: Σ ℓ_i over a chunk of rows, its gradient by ψ and its Hessian along
#: `coordinates`; the data are the fixed arrays and then the rows.
Sums = Callable[..., tuple[float, np.ndarray, np.ndarray]]
#: ``hessian(derivatives, psi, data, coordinates)``: the last of these.
Hessian = Callable[..., np.ndarray]


class Derivatives(NamedTuple):
    """Addresses of a model's derivatives."""

    value_and_gradient: int  # Σ ℓ_i and its gradient by ψ
    #: The derivative along a direction of ψ: of the gradient, or of η where the rows read ψ through one predictor η.
    along: int
    weight: int = 0  # ∂²ℓ_i/∂η_i², where there is one predictor
    #: What of ∂η_i/∂ψ rows pick by their data, where it is few of many; `along` is then of the rest of η.
    entries: int = 0


class RowSums(NamedTuple):
    """Sums over a chunk of rows, for one model."""

    sums: Sums
    derivatives: Derivatives
    reached: tuple[Reached, ...]  # what lies at these addresses
    #: Whether a Hessian takes the time and memory of the entries of its rows, and not of whole rows.
    by_entries: bool = False

    def __call__(self, psi: np.ndarray, data: tuple[np.ndarray, ...], coordinates: np.ndarray) -> Any:
        """Return the sums over the rows in `data`."""
        return self.sums(self.derivatives, psi, data, coordinates)


def compile_sums(likelihood: RowLikelihood, compile_kwargs: dict[str, Any]) -> RowSums:
    """Compile the derivatives of a model, and what adds them up.

    The Hessian is XᵀWX where the rows read ψ through one linear predictor, with x_i = ∂η_i/∂ψ and
    W = diag(∂²ℓ_i/∂η_i²): no derivative is taken once a parameter.  Where rows pick few of many parameters by their
    data, x_i is known by its entries.  Otherwise it is built column by column, as the derivative of the gradient along
    each coordinate (forward over reverse).
    """
    rows, psi = likelihood.of_psi(likelihood.expanded)
    total = rows.sum()
    gradient = grad(total, psi)
    data = [*likelihood.fixed, *likelihood.batches]
    both = _reach_value_and_gradient([psi, *data], [total, gradient], data, compile_kwargs)
    eta = row_predictor(rows, psi, likelihood.batches)
    entries = None if eta is None else find_row_entries(eta, psi, likelihood.batches)
    read = gradient if eta is None else eta if entries is None else entries.rest
    reached, build_hessian = [both, _reach_along(read, psi, data, compile_kwargs)], _build_forward_over_reverse
    if eta is not None:
        reached.append(_reach_weight(rows, eta, psi, data, compile_kwargs))
        build_hessian = _build_through_predictor
    if entries is not None:
        reached.append(_reach_entries(entries, psi, data, compile_kwargs))
        build_hessian = _build_from_entries
    addresses = Derivatives(*[r.address for r in reached])
    return RowSums(
        _build_sums(tuple_of(data), build_hessian), addresses, tuple(reached), by_entries=entries is not None
    )


def _reach_value_and_gradient(inputs: Any, outputs: Any, data: Sequence[Variable], options: dict[str, Any]) -> Reached:
    of_model = compile_part(inputs, outputs, **options)

    @njit(nogil=True)
    def value_and_gradient(psi, data):  # type: ignore[no-untyped-def]
        value, gradient = of_model(psi, *data)
        return value, np.ascontiguousarray(gradient)

    return reach_graph(of_model, TOTAL_AND_SLOPE, value_and_gradient, VECTOR, tuple_of(data))


def _reach_along(graph: Variable, psi: Variable, data: Sequence[Variable], options: dict[str, Any]) -> Reached:
    direction = psi.type("direction")
    of_model = compile_part([direction, psi, *data], pushforward(graph, psi, direction), **options)

    @njit(nogil=True)
    def along(direction, psi, data):  # type: ignore[no-untyped-def]
        return (np.ascontiguousarray(of_model(direction, psi, *data)[0]),)

    return reach_graph(of_model, ONE_VECTOR, along, VECTOR, VECTOR, tuple_of(data))


def _reach_weight(
    rows: Variable, eta: Variable, psi: Variable, data: Sequence[Variable], options: dict[str, Any]
) -> Reached:
    value = eta.type()
    (of_eta,) = graph_replace([rows], {eta: value}, strict=False)
    second = pushforward(grad(of_eta.sum(), value), value, pt.ones_like(value))
    (weights,) = graph_replace([second], {value: eta}, strict=False)
    of_model = compile_part([psi, *data], weights, **options)

    @njit(nogil=True)
    def weight(psi, data):  # type: ignore[no-untyped-def]
        return (np.ascontiguousarray(of_model(psi, *data)[0]),)

    return reach_graph(of_model, ONE_VECTOR, weight, VECTOR, tuple_of(data))


def _reach_entries(entries: RowEntries, psi: Variable, data: Sequence[Variable], options: dict[str, Any]) -> Reached:
    outputs = [entries.columns, entries.values, pt.constant(entries.read_by_all)]
    of_model = compile_part([psi, *data], outputs, **options)

    @njit(nogil=True)
    def picked(psi, data):  # type: ignore[no-untyped-def]
        columns, values, read_by_all = of_model(psi, *data)
        return np.ascontiguousarray(columns), np.ascontiguousarray(values), np.ascontiguousarray(read_by_all)

    return reach(picked, VECTOR, tuple_of(data))


def _build_sums(data: types.Type, build_hessian: Callable[[types.Type], Hessian]) -> Sums:
    hessian = build_hessian(data)
    result, expected = TOTAL_AND_SLOPE, types.Tuple((VECTOR, data))

    @njit(nogil=True)
    def sums(derivatives, psi, data, coordinates):  # type: ignore[no-untyped-def]
        value, gradient = call_at(derivatives.value_and_gradient, result, expected, (psi, data))
        return value.item(), gradient, hessian(derivatives, psi, data, coordinates)

    return sums


def _build_forward_over_reverse(data: types.Type) -> Hessian:
    """Compile the Hessian of any graph, one column at a time."""
    result, expected = ONE_VECTOR, types.Tuple((VECTOR, VECTOR, data))

    @njit(nogil=True)
    def hessian(derivatives, psi, data, coordinates):  # type: ignore[no-untyped-def]
        curvature = np.empty((coordinates.size, coordinates.size))
        direction = np.zeros(psi.size)
        for i in range(coordinates.size):
            direction[coordinates[i]] = 1.0
            (column,) = call_at(derivatives.along, result, expected, (direction, psi, data))
            for j in range(coordinates.size):
                curvature[i, j] = column[coordinates[j]]
            direction[coordinates[i]] = 0.0
        return curvature

    return hessian


def _build_through_predictor(data: types.Type) -> Hessian:
    """Compile XᵀWX."""
    result, of_rows = ONE_VECTOR, types.Tuple((VECTOR, data))
    along = types.Tuple((VECTOR, VECTOR, data))

    @njit(nogil=True)
    def hessian(derivatives, psi, data, coordinates):  # type: ignore[no-untyped-def]
        if coordinates.size == 0:
            return np.empty((0, 0))
        (w,) = call_at(derivatives.weight, result, of_rows, (psi, data))
        X = np.empty((coordinates.size, w.size))
        # Of every row, the coordinates that it reads, while they are few.
        most = coordinates.size // _FEW
        read, counts = np.empty((w.size, most + 1), np.int64), np.zeros(w.size, np.int64)
        direction = np.zeros(psi.size)
        for i in range(coordinates.size):
            direction[coordinates[i]] = 1.0
            (x,) = call_at(derivatives.along, result, along, (direction, psi, data))
            direction[coordinates[i]] = 0.0
            for j in range(w.size):  # row by row numba would compile an error message for seconds
                X[i, j] = x[j]
                if x[j] != 0.0 and counts[j] <= most:
                    read[j, counts[j]] = i
                    counts[j] += 1
        if counts.max() > most:
            weighted = np.empty((coordinates.size, w.size))
            for i in range(coordinates.size):
                for j in range(w.size):
                    weighted[i, j] = X[i, j] * w[j]
            return weighted @ X.T
        return _sum_of_few(X, w, read, counts)

    return hessian


@njit(nogil=True)
def _sum_of_few(X, w, read, counts):  # type: ignore[no-untyped-def]
    """Return XᵀWX from the entries that are not zero."""
    curvature = np.zeros((X.shape[0], X.shape[0]))
    for j in range(w.size):
        for a in range(counts[j]):
            k = read[j, a]
            weighted = w[j] * X[k, j]
            for b in range(counts[j]):
                curvature[k, read[j, b]] += weighted * X[read[j, b], j]
    return curvature


_ENTRIES = types.Tuple((types.int64[:, ::1], types.float64[:, ::1], types.int64[::1]))


def _build_from_entries(data: types.Type) -> Hessian:
    """Compile XᵀWX from the entries of X that rows pick, and its columns that all rows read."""
    result, of_rows = ONE_VECTOR, types.Tuple((VECTOR, data))
    along = types.Tuple((VECTOR, VECTOR, data))

    @njit(nogil=True)
    def hessian(derivatives, psi, data, coordinates):  # type: ignore[no-untyped-def]
        if coordinates.size == 0:
            return np.empty((0, 0))
        (w,) = call_at(derivatives.weight, result, of_rows, (psi, data))
        picked, slopes, read_by_all = call_at(derivatives.entries, _ENTRIES, of_rows, (psi, data))
        place = np.full(psi.size, -1)
        for i in range(coordinates.size):
            place[coordinates[i]] = i
        k = picked.shape[1]
        columns, values = np.empty((w.size, k + read_by_all.size), np.int64), np.empty((w.size, k + read_by_all.size))
        for j in range(w.size):
            for a in range(k):
                columns[j, a], values[j, a] = place[picked[j, a]], slopes[j, a]
        direction = np.zeros(psi.size)
        for i in range(read_by_all.size):
            direction[read_by_all[i]] = 1.0
            (x,) = call_at(derivatives.along, result, along, (direction, psi, data))
            direction[read_by_all[i]] = 0.0
            for j in range(w.size):
                columns[j, k + i], values[j, k + i] = place[read_by_all[i]], x[j]
        return _sum_of_entries(columns, values, w, coordinates.size)

    return hessian


@njit(nogil=True)
def _sum_of_entries(columns, values, w, size):  # type: ignore[no-untyped-def]
    """Return XᵀWX; of two entries of a row their product is added once, and the matrix to its transpose in the end."""
    half = np.zeros((size, size))
    for j in range(w.size):
        for a in range(columns.shape[1]):
            row, weighted = columns[j, a], w[j] * values[j, a]
            if row < 0 or weighted == 0.0:
                continue
            half[row, row] += 0.5 * weighted * values[j, a]
            for b in range(a):
                if columns[j, b] >= 0:
                    half[row, columns[j, b]] += weighted * values[j, b]
    for i in range(size):
        for j in range(i + 1):
            total = half[i, j] + half[j, i]
            half[i, j] = total
            half[j, i] = total
    return half
