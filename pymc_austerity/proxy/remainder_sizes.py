"""How much a proxy typically leaves of every row: what rows are weighted by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
from numba import types as numba_types

from pymc_austerity.compile.addresses import tuple_of
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import VECTOR, BothSides, RowLikelihood
from pymc_austerity.proxy.expansion import compile_remainder
from pymc_austerity.rows import CHUNK, Rows, no_op

_one_at_a_time = Lock()


@dataclass(eq=False)
class SizesOfRows:
    """What a pass does with rows: find how much the proxy typically leaves of each."""

    likelihood: RowLikelihood
    order: int
    options: dict[str, Any]  # from which remainders are compiled in another process
    pairs: Sequence[tuple[np.ndarray, np.ndarray]]  # draws of θ between which remainders change
    psi: np.ndarray  # the centre, with the powers of bent coordinates behind it where there are any
    fixed: tuple[np.ndarray, ...]
    both_sides: BothSides | None  # the remainders, compiled; None in another process before they are

    @property
    def about(self) -> tuple[np.ndarray, ...]:
        """The draws and the centre."""
        return np.array(self.pairs), self.psi, np.array(self.order), *self.fixed

    @property
    def _size(self) -> int:
        return int(self.likelihood.psi_blocks[-1].stop)

    def released(self) -> SizesOfRows:
        """Return the same with code that lets other threads run."""
        both = self.both_sides or compile_remainder(
            self.likelihood, self.order, self.options, self.psi.size > self._size
        )

        @njit(nogil=True)
        def of_types(theta_new, theta, others, inputs, batch):  # type: ignore[no-untyped-def]
            new, old = both(theta_new, theta, others, *(inputs + batch))
            return np.ascontiguousarray(new), np.ascontiguousarray(old)

        compiled: Any = of_types
        fixed, batch = tuple_of(self.likelihood.fixed), tuple_of(self.likelihood.batches)
        compiled.compile((VECTOR, VECTOR, VECTOR, numba_types.Tuple((VECTOR, *fixed.types)), batch))
        n_inputs = 1 + len(self.fixed)

        def both_sides(theta_new: Any, theta: Any, others: Any, *data: Any) -> Any:
            return compiled(theta_new, theta, others, data[:n_inputs], data[n_inputs:])

        return replace(self, both_sides=both_sides)

    def __call__(self, rows: Rows, n_threads: int | None = None, advance: Callable[[int], None] = no_op) -> np.ndarray:
        """Return the sizes."""
        with _one_at_a_time:
            both_sides = self.both_sides or self.released().both_sides
            assert both_sides is not None
            self.both_sides = both_sides
        others = self.psi[self.pairs[0][0].size : self._size]
        return remainder_sizes(both_sides, self.pairs, others, self.psi, self.fixed, rows, advance)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "both_sides": None}


def remainder_sizes(
    both_sides: BothSides,
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    others: np.ndarray,
    centre: np.ndarray,
    fixed: Sequence[np.ndarray],
    rows: Rows,
    advance: Callable[[int], None] = no_op,
) -> np.ndarray:
    """Return the root mean square of r_i(θ′) − r_i(θ) over some pairs of draws, for each of the N rows, in one pass."""
    sizes = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), CHUNK):
        stop = min(start + CHUNK, len(rows))
        batch = rows.take(np.arange(start, stop)).arrays
        squares = np.zeros(stop - start)
        for theta_new, theta in pairs:
            new, old = uninterrupted(both_sides, theta_new, theta, others, centre, *fixed, *batch)
            with np.errstate(invalid="ignore"):  # a row that is impossible at both points
                squares += (new - old) ** 2
        sizes[start:stop] = np.minimum(np.sqrt(squares / len(pairs)), np.finfo(np.float32).max)
        advance(stop - start)
    return np.where(np.isfinite(sizes), sizes, np.nanmax(np.where(np.isfinite(sizes), sizes, 0)))
