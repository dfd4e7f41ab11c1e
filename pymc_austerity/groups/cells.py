"""Products with the cells: the second derivatives H_gh by two groups of two factors that have rows in common.

There are ten to thirty times as many cells as groups, so arrays are taken out of the expansion before the loops, where
numba would count references, and one parameter a group has no inner loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_austerity.compile.lean_njit import njit


@njit
def through_cells(x: np.ndarray, groups: np.ndarray, e: Any) -> np.ndarray:
    """Return Σ_h H_gh x_h for some groups, a row each; x is zero beyond the sizes of its groups."""
    start, other, hessian, size = e.cell_start, e.cell_with, e.cell_hessian, x.shape[1]
    out = np.zeros((groups.size, size))
    if size == 1:
        entries, flat = hessian.ravel(), x.ravel()
        for i in range(groups.size):
            # Two sums, of which neither waits for the other.
            even, odd, c, end = 0.0, 0.0, start[groups[i]], start[groups[i] + 1]
            while c + 1 < end:
                even += entries[c] * flat[other[c]]
                odd += entries[c + 1] * flat[other[c + 1]]
                c += 2
            if c < end:
                even += entries[c] * flat[other[c]]
            out[i, 0] = even + odd
        return out
    for i in range(groups.size):
        for c in range(start[groups[i]], start[groups[i] + 1]):
            h = other[c]
            for k in range(size):
                for j in range(size):
                    out[i, k] += hessian[c, k, j] * x[h, j]
    return out


@njit
def _first_later(g: int, start: np.ndarray, other: np.ndarray) -> int:
    """Return where the cells of a group with those of later factors begin, which come last."""
    first, end = start[g], start[g + 1]
    if end > first and other[end - 1] < g:
        return end
    while first < end and other[first] < g:
        first += 1
    return first


@njit
def add_through_cells(x: np.ndarray, times: float, e: Any, out: np.ndarray) -> None:
    """Add Σ_h H_gh x_h, multiplied by a number, to the rows of an array for all groups."""
    start, other, hessian, size = e.cell_start, e.cell_with, e.cell_hessian, x.shape[1]
    if size == 1:
        entries, flat, total = hessian.ravel(), x.ravel(), out.ravel()
        for g in range(x.shape[0]):
            here, back = 0.0, times * flat[g]
            for c in range(_first_later(g, start, other), start[g + 1]):  # both ways at once
                here += entries[c] * flat[other[c]]
                total[other[c]] += entries[c] * back
            total[g] += times * here
        return
    for g in range(x.shape[0]):
        for c in range(_first_later(g, start, other), start[g + 1]):
            h = other[c]
            for k in range(size):
                for j in range(size):
                    out[g, k] += times * hessian[c, k, j] * x[h, j]
                    out[h, j] += times * hessian[c, k, j] * x[g, k]


@njit
def sum_over_cells(x: np.ndarray, e: Any) -> float:
    """Return Σ x_gᵀ H_gh x_h over all cells, each counted once."""
    start, other, hessian, size, total = e.cell_start, e.cell_with, e.cell_hessian, x.shape[1], 0.0
    if size == 1:
        entries, flat = hessian.ravel(), x.ravel()
        for g in range(x.shape[0]):
            of_group = 0.0
            for c in range(_first_later(g, start, other), start[g + 1]):
                of_group += entries[c] * flat[other[c]]
            total += of_group * flat[g]
        return total
    for g in range(x.shape[0]):
        for c in range(_first_later(g, start, other), start[g + 1]):
            for k in range(size):
                for j in range(size):
                    total += x[g, k] * hessian[c, k, j] * x[other[c], j]
    return total
