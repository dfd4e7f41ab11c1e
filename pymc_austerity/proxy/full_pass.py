"""Sums over all rows: the log-likelihood, its gradient and its Hessian, in chunks on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.proxy.row_sums import RowSums, compile_sums
from pymc_austerity.rows import Rows, Table

#: Rows a task: enough to make the calls into compiled code cheap, few enough to stay in the cache.
_CHUNK = 2048


class Sums(NamedTuple):
    """The log-likelihood of all rows around one point of ψ = (θ, others).

    Attributes
    ----------
    value : float
        Σ ℓ_i.
    gradient : numpy.ndarray, shape (E,)
    hessian : numpy.ndarray, shape (E, E)
        Empty where it was not asked for.
    """

    value: float
    gradient: np.ndarray
    hessian: np.ndarray

    def scaled(self, factor: float) -> Sums:
        """Return the sums times a number."""
        return Sums(factor * self.value, factor * self.gradient, factor * self.hessian)

    def __add__(self, other: Any) -> Sums:
        return Sums(self.value + other.value, self.gradient + other.gradient, self.hessian + other.hessian)


def summed(parts: Iterable[Sums]) -> Sums:
    """Add up in compensated arithmetic (Neumaier 1974), for sums of very many: the error does not grow with them."""
    parts = iter(parts)
    total = next(parts)
    lost: list[Any] = [np.zeros(np.shape(term)) for term in total]
    for part in parts:
        added = total + part
        terms: Iterator[tuple[Any, Any, Any]] = zip(total, part, added, strict=True)
        for k, (before, new, after) in enumerate(terms):
            with np.errstate(invalid="ignore"):  # of a sum that is infinite nothing is lost
                low = np.where(np.abs(before) >= np.abs(new), (before - after) + new, (new - after) + before)
                lost[k] = lost[k] + np.where(np.isfinite(after), low, 0.0)
        total = added
    return Sums(float(total.value + lost[0]), total.gradient + lost[1], total.hessian + lost[2])


class FullPass:
    """Evaluates Σ ℓ_i, its gradient and its Hessian along some coordinates of ψ = (θ, others).

    Memory stays at a few chunks of rows.

    Parameters
    ----------
    likelihood : RowLikelihood
    coordinates : numpy.ndarray of int64, shape (E,)
        Entries of ψ to differentiate by.
    row_sums : RowSums, optional
        The derivatives, where they are compiled already.

    Attributes
    ----------
    coordinates : numpy.ndarray of int64, shape (E,)
    theta_size : int
        Entries of ψ that are θ.
    rows_read : int
        Rows evaluated so far, over all calls.
    """

    def __init__(self, likelihood: RowLikelihood, coordinates: np.ndarray, row_sums: RowSums | None = None):
        self.coordinates, self.theta_size = coordinates, likelihood.theta_size
        self.rows_read = 0
        self._sums = row_sums or compile_sums(likelihood, {"mode": "NUMBA"})

    def __call__(
        self,
        psi: np.ndarray,
        fixed: Sequence[np.ndarray],
        rows: Table,
        *,
        hessian: bool = True,
        advance: Callable[[int], None] = lambda n: None,
    ) -> Sums:
        """Sum over all rows.

        Parameters
        ----------
        psi : numpy.ndarray
            θ and the variables of other steps, one behind the other.
        fixed : sequence of numpy.ndarray
            Values of the shared variables.
        rows : Table
        hessian : bool
        advance : callable
            Told the number of rows done, chunk by chunk.
        """
        coordinates = self.coordinates if hessian else self.coordinates[:0]
        fixed = tuple(fixed)

        def of_piece(piece: Rows) -> Sums:
            def chunk(start: int) -> tuple[int, Sums]:
                stop = min(start + _CHUNK, len(piece))
                arrays = tuple(np.array(a[start:stop], order="C") for a in piece.arrays)
                value, gradient, curvature = self._sums(psi, fixed + arrays, coordinates)
                return stop - start, Sums(value, gradient[self.coordinates], curvature)

            total: Sums | None = None
            # Added up in order, so that the sum does not depend on the number of threads.
            for n, part in _in_order(chunk, range(0, len(piece), _CHUNK)):
                total = part if total is None else total + part
                advance(n)
            assert total is not None
            return total

        # A BLAS with threads of its own in each of these would have them wait for each other.
        with _blas().limit(limits=1, user_api="blas"):
            total = summed(of_piece(piece) for piece in rows.pieces())
        self.rows_read += len(rows)
        return Sums(total.value, total.gradient, (total.hessian + total.hessian.T) / 2)


@cache
def _blas() -> ThreadpoolController:
    """Return what sets the threads of BLAS: it looks through the libraries of the process, which takes milliseconds."""
    return ThreadpoolController()


def _in_order(task: Callable[[int], Any], starts: Sequence[int]) -> Iterator[Any]:
    """Yield results in order, on all cores where there are several of them."""
    if len(starts) == 1:
        yield uninterrupted(task, starts[0])
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from _ordered(pool, task, starts)


def _ordered(pool: ThreadPoolExecutor, task: Callable[[int], Any], starts: Sequence[int]) -> Iterator[Any]:
    """Yield results in order while keeping only a few tasks ahead, so that memory stays bounded and Ctrl-C works."""
    ahead = 4 * (os.cpu_count() or 1)
    pending = [pool.submit(task, start) for start in starts[:ahead]]
    try:
        for i in range(len(starts)):
            result = pending[i].result()
            pending[i] = None  # type: ignore[call-overload]
            if i + ahead < len(starts):
                pending.append(pool.submit(task, starts[i + ahead]))
            yield result
    finally:
        for task_left in pending:
            if task_left is not None:
                task_left.cancel()


def read_coordinates(likelihood: RowLikelihood) -> np.ndarray:
    """Return the entries of ψ = (θ, others) in the variables that the row likelihood reads."""
    blocks = [b for b in likelihood.psi_blocks if b.name in likelihood.read]
    return np.concatenate([np.empty(0, np.int64), *(np.arange(b.start, b.stop) for b in blocks)])
