"""How much a proxy typically leaves of every row: what rows are weighted by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.rows import CHUNK, Rows


def remainder_sizes(
    both_sides: Callable[..., Any],
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    others: np.ndarray,
    centre: np.ndarray,
    fixed: Sequence[np.ndarray],
    rows: Rows,
    advance: Callable[[int], None] = lambda n: None,
) -> np.ndarray:
    """Return the root mean square of r_i(θ′) − r_i(θ) over some pairs of draws, for every row, in one pass.

    Returns
    -------
    numpy.ndarray of float32, shape (N,)
    """
    sizes = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), CHUNK):
        stop = min(start + CHUNK, len(rows))
        batch = rows.take(np.arange(start, stop)).arrays
        squares = np.zeros(stop - start)
        for theta_new, theta in pairs:
            new, old = uninterrupted(both_sides, theta_new, theta, others, centre, *fixed, *batch)
            with np.errstate(invalid="ignore"):  # a row that is impossible at both points
                squares += (new - old) ** 2
        sizes[start:stop] = np.sqrt(squares / len(pairs))
        advance(stop - start)
    return np.where(np.isfinite(sizes), sizes, np.nanmax(np.where(np.isfinite(sizes), sizes, 0)))
