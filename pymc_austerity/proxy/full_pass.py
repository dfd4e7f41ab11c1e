"""Sums over all rows: the log-likelihood, its gradient and its Hessian, in chunks on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.proxy.row_sums import compile_sums
from pymc_austerity.rows import Rows

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


class FullPass:
    """Evaluates Σ ℓ_i, its gradient and its Hessian along some coordinates of ψ = (θ, others).

    Memory stays at a few chunks of rows.

    Parameters
    ----------
    likelihood : RowLikelihood
    coordinates : numpy.ndarray of int64, shape (E,)
        Entries of ψ to differentiate by.
    compile_kwargs : dict, optional
        Passed on to ``pymc.compile``.

    Attributes
    ----------
    coordinates : numpy.ndarray of int64, shape (E,)
    theta_size : int
        Entries of ψ that are θ.
    rows_read : int
        Rows evaluated so far, over all calls.
    """

    def __init__(
        self, likelihood: RowLikelihood, coordinates: np.ndarray, compile_kwargs: dict[str, Any] | None = None
    ):
        self.coordinates, self.theta_size = coordinates, likelihood.theta_size
        self.rows_read = 0
        self._sums = compile_sums(likelihood, {"mode": "NUMBA", **(compile_kwargs or {})})

    def __call__(
        self,
        psi: np.ndarray,
        fixed: Sequence[np.ndarray],
        rows: Rows,
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
        rows : Rows
        hessian : bool
        advance : callable
            Told the number of rows done, chunk by chunk.
        """
        coordinates = self.coordinates if hessian else self.coordinates[:0]
        fixed = tuple(fixed)

        def chunk(start: int) -> tuple[int, Sums]:
            stop = min(start + _CHUNK, len(rows))
            arrays = tuple(np.array(a[start:stop], order="C") for a in rows.arrays)
            value, gradient, curvature = self._sums(psi, fixed + arrays, coordinates)
            return stop - start, Sums(value, gradient[self.coordinates], curvature)

        total: Sums | None = None
        # A BLAS with threads of its own in each of these would have them wait for each other.
        with _blas().limit(limits=1, user_api="blas"):
            # Added up in order, so that the sum does not depend on the number of threads.
            for n, part in _in_order(chunk, range(0, len(rows), _CHUNK)):
                total = part if total is None else total + part
                advance(n)
        self.rows_read += len(rows)
        assert total is not None
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
