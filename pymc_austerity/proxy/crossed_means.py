"""Means of the groups of several factors, which depend on each other where groups have rows in common.

Given φ the groups of one factor are independent; those of two are not, and their joint precision Q has a block P_g for
each group and, for groups g and h with rows in common, minus the second derivatives H_gh of the likelihood of these.
Qx = b is solved by conjugate gradients, with the blocks as preconditioner.  The search begins at P⁻¹b and ends by a
rule that reads nothing else, so that the means are a function of φ, to whatever accuracy: all that a carried move asks
for.  No matrix beyond the blocks and the cells of the table of groups is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

#: Steps at most, and the distance from the solution, in standard deviations of all groups together, that ends them.
_MOST_STEPS, _NEAR_ENOUGH = 200, 1e-3


@njit
def factorise(matrix: np.ndarray) -> bool:
    """Put the lower Cholesky factor of a small matrix in its place; return whether there is one."""
    size = matrix.shape[0]
    for j in range(size):
        for i in range(j, size):
            entry = matrix[i, j]
            for k in range(j):
                entry -= matrix[i, k] * matrix[j, k]
            if i == j:
                if not entry > 0.0:
                    return False
                matrix[j, j] = np.sqrt(entry)
            else:
                matrix[i, j] = entry / matrix[j, j]
    return True


@njit
def solve_lower(factor: np.ndarray, x: np.ndarray) -> None:
    """Put C⁻¹x in the place of x."""
    for k in range(x.size):
        entry = x[k]
        for j in range(k):
            entry -= factor[k, j] * x[j]
        x[k] = entry / factor[k, k]


@njit
def solve_transposed(factor: np.ndarray, z: np.ndarray) -> None:
    """Put C⁻ᵀz in the place of z."""
    for k in range(z.size - 1, -1, -1):
        for j in range(k + 1, z.size):
            z[k] -= factor[j, k] * z[j]
        z[k] /= factor[k, k]


@njit
def _solve_blocks(factor: np.ndarray, x: np.ndarray, e: Any) -> np.ndarray:
    """Return P⁻¹x."""
    out = x.copy()
    for g in range(x.shape[0]):
        solve_lower(factor[g], out[g, : e.size[g]])
        solve_transposed(factor[g], out[g, : e.size[g]])
    return out


@njit
def _times_precision(factor: np.ndarray, x: np.ndarray, e: Any, with_blocks: bool) -> np.ndarray:
    """Return Qx, or what is beside the blocks of it."""
    out = np.zeros(x.shape)
    half = np.empty(x.shape[1])
    for g in range(x.shape[0]):
        size = e.size[g]
        if with_blocks:
            for k in range(size):
                half[k] = 0.0
                for j in range(k, size):
                    half[k] += factor[g, j, k] * x[g, j]
            for k in range(size):
                for j in range(k + 1):
                    out[g, k] += factor[g, k, j] * half[j]
        for c in range(e.cell_start[g], e.cell_start[g + 1]):
            h = e.cell_with[c]
            for k in range(size):
                for j in range(e.size[h]):
                    out[g, k] -= e.cell_hessian[c, k, j] * x[h, j]
    return out


@njit
def join(shift: np.ndarray, factor: np.ndarray, e: Any) -> None:
    """Turn P⁻¹b, in its place, into Q⁻¹b.

    Where Q is not positive (predictors that are products of effects) the search ends early, and the means are those
    that it has come to.
    """
    residual = -_times_precision(factor, shift, e, False)
    solved = _solve_blocks(factor, residual, e)
    direction, gap = solved.copy(), (residual * solved).sum()
    for _ in range(_MOST_STEPS):
        if not gap > _NEAR_ENOUGH**2:
            break
        image = _times_precision(factor, direction, e, True)
        curvature = (direction * image).sum()
        if not curvature > 0.0:
            break
        shift += gap / curvature * direction
        residual -= gap / curvature * image
        solved = _solve_blocks(factor, residual, e)
        gap_before, gap = gap, (residual * solved).sum()
        direction = solved + gap / gap_before * direction


@njit
def mean_given_others(theta: np.ndarray, g: int, e: Any, conditional: Any) -> np.ndarray:
    """Return the mean of a group given φ and the groups of other factors as they are in θ."""
    size = e.size[g]
    mean = conditional.mean[g, :size].copy()
    if e.cell_start[g + 1] > e.cell_start[g]:
        shift = np.zeros(size)
        for c in range(e.cell_start[g], e.cell_start[g + 1]):
            h = e.cell_with[c]
            for j in range(e.size[h]):
                far = theta[e.own[h, j]] - conditional.mean[h, j]
                for k in range(size):
                    shift[k] += e.cell_hessian[c, k, j] * far
        solve_lower(conditional.factor[g], shift)
        solve_transposed(conditional.factor[g], shift)
        mean += shift
    return mean
