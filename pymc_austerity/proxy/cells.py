"""Products with the cells: the second derivatives H_gh by two groups of two factors that have rows in common.

There are ten to thirty times as many cells as groups, and every draw goes through all of them a few times.  So what
they are multiplied with lies in a small array by group, and arrays are taken out of the expansion before the loops,
where numba would count references; one parameter a group has no inner loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_austerity.lean_njit import njit


@njit
def add_through_cells(x: np.ndarray, first: int, last: int, e: Any, out: np.ndarray) -> None:
    """Add Σ_h H_gh x_h to the rows of an array for the groups from first to last - 1; x is zero beyond their sizes."""
    start, other, hessian, size = e.cell_start, e.cell_with, e.cell_hessian, x.shape[1]
    if size == 1:
        for g in range(first, last):
            entry = 0.0
            for c in range(start[g], start[g + 1]):
                entry += hessian[c, 0, 0] * x[other[c], 0]
            out[g, 0] += entry
        return
    for g in range(first, last):
        for c in range(start[g], start[g + 1]):
            h = other[c]
            for k in range(size):
                for j in range(size):
                    out[g, k] += hessian[c, k, j] * x[h, j]


@njit
def sum_over_cells(x: np.ndarray, e: Any) -> float:
    """Return Σ x_gᵀ H_gh x_h over all cells, each counted once."""
    start, other, hessian, size, total = e.cell_start, e.cell_with, e.cell_hessian, x.shape[1], 0.0
    for g in range(x.shape[0]):
        c = start[g + 1] - 1
        while c >= start[g] and other[c] > g:  # those with groups of later factors, which come last
            h = other[c]
            for k in range(size):
                entry = 0.0
                for j in range(size):
                    entry += hessian[c, k, j] * x[h, j]
                total += x[g, k] * entry
            c -= 1
    return total
