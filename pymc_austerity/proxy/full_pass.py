"""Sums over all rows: the log-likelihood, its gradient and its Hessian, in chunks on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from pymc_austerity.blocks.executors import in_order
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.proxy.row_sums import RowSums, compile_sums
from pymc_austerity.rows import Rows, Table, no_op
from pymc_austerity.tried_setup import check_time

_one_at_a_time = Lock()

#: Rows a task: enough to make the calls into compiled code cheap, few enough to stay in the cache.
_CHUNK = 2048
#: Rows a task for each entry of a row of a Hessian that is summed by entries: enough for clearing it to be cheap.
_ROWS_AN_ENTRY = 16
#: Tasks ahead of the sum, a thread, and how many where each of their Hessians takes some ten megabytes.
_AHEAD, _AHEAD_WIDE, _WIDE = 4, 1, 1_000


class Sums(NamedTuple):
    """The log-likelihood of all rows around one point of ψ = (θ, others)."""

    value: float  # Σ ℓ_i
    gradient: np.ndarray  # shape (E,)
    hessian: np.ndarray  # empty where it was not asked for, shape (E, E)

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
    """Evaluates Σ ℓ_i, its gradient and its Hessian along the entries `coordinates` of ψ = (θ, others).

    Memory stays at a few chunks of rows; `rows_read` counts the rows that were evaluated so far.
    """

    def __init__(self, likelihood: RowLikelihood, coordinates: np.ndarray, row_sums: RowSums | None = None):
        self.coordinates, self.theta_size = coordinates, likelihood.theta_size
        self.rows_read = 0
        self.likelihood, self._sums = likelihood, row_sums

    def __call__(
        self,
        psi: np.ndarray,
        fixed: Sequence[np.ndarray],
        rows: Table,
        *,
        hessian: bool = True,
        advance: Callable[[int], None] = no_op,
    ) -> Sums:
        """Sum over all rows at `psi`; `advance` is told the number of rows done, chunk by chunk."""
        work = SumsAt(self, psi, tuple(fixed), hessian)

        def learn() -> Sums:
            # A BLAS with threads of its own in each of these would have them wait for each other.
            with _blas().limit(limits=1, user_api="blas"):
                return summed(rows.each(work, advance))

        value, gradient, curvature = rows.remembered(work, learn)
        self.rows_read += len(rows)
        return Sums(float(value), gradient, (curvature + curvature.T) / 2)

    @property
    def sums(self) -> RowSums:
        """The sums over a chunk of rows, compiled when they are first asked for."""
        with _one_at_a_time:
            if self._sums is None:
                self._sums = compile_sums(self.likelihood, {"mode": "NUMBA"})
            return self._sums

    def __reduce__(self) -> Any:
        # Another process compiles for itself.
        return FullPass, (self.likelihood, self.coordinates)


class SumsAt(NamedTuple):
    """What a pass does with rows: add up the log-likelihood and its derivatives at one point."""

    of: FullPass
    psi: np.ndarray
    fixed: tuple[np.ndarray, ...]
    hessian: bool

    @property
    def about(self) -> tuple[np.ndarray, ...]:
        """The point, and along what derivatives are taken."""
        return self.psi, self.of.coordinates, np.array(self.hessian), *self.fixed

    def released(self) -> SumsAt:
        """Return itself, once it is compiled."""
        assert self.of.sums is not None
        return self

    def __call__(self, rows: Rows, n_threads: int | None = None, advance: Callable[[int], None] = no_op) -> Sums:
        """Add up, in order, so that the sum does not depend on the number of threads."""
        sums_of, coordinates = self.of.sums, self.of.coordinates
        of_hessian = coordinates if self.hessian else coordinates[:0]
        size = max(_CHUNK, _ROWS_AN_ENTRY * of_hessian.size) if sums_of.by_entries else _CHUNK
        ahead = _AHEAD if of_hessian.size < _WIDE else _AHEAD_WIDE

        def chunk(start: int) -> tuple[int, Sums]:
            stop = min(start + size, len(rows))
            arrays = tuple(np.array(a[start:stop], order="C") for a in rows.arrays)
            value, gradient, curvature = sums_of(self.psi, self.fixed + arrays, of_hessian)
            return stop - start, Sums(value, gradient[coordinates], curvature)

        total: Sums | None = None
        for n, part in _results(chunk, range(0, len(rows), size), n_threads or os.cpu_count() or 1, ahead):
            check_time()
            total = part if total is None else total + part
            advance(n)
        assert total is not None
        return total


@cache
def _blas() -> ThreadpoolController:
    """Return what sets the threads of BLAS: it looks through the libraries of the process, which takes milliseconds."""
    return ThreadpoolController()


def _results(task: Callable[[int], Any], starts: Sequence[int], n_threads: int, ahead: int) -> Iterator[Any]:
    """Yield results in order, on several threads where there are several of them."""
    if len(starts) == 1 or n_threads == 1:
        for start in starts:
            yield uninterrupted(task, start)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield from in_order((pool.submit(task, start) for start in starts), ahead * n_threads)


def read_coordinates(likelihood: RowLikelihood) -> np.ndarray:
    """Return the entries of ψ = (θ, others) in the variables that the row likelihood reads."""
    blocks = [b for b in likelihood.psi_blocks if b.name in likelihood.read]
    return np.concatenate([np.empty(0, np.int64), *(np.arange(b.start, b.stop) for b in blocks)])
