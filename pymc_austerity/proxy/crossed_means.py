"""Means of the groups of several factors, which depend on each other where groups have rows in common.

Given φ the groups of one factor are independent; those of two are not, and their joint precision Q has a block P_g for
each group and, for groups g and h with rows in common, minus the second derivatives H_gh of the likelihood of these.
Qx = b is solved by conjugate gradients, with the blocks as preconditioner.  Where the search begins, at P⁻¹b or on the
plane of a `Tangent`, and the rule by which it ends read nothing but φ.  So the means are a function of φ, to whatever
accuracy: all that a carried move asks for.  No matrix beyond the blocks and the cells of the table of groups is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_austerity.lean_njit import njit
from pymc_austerity.proxy.cells import add_through_cells
from pymc_austerity.proxy.tangent import along_tangent

#: Steps at most, and the distance from the solution, in standard deviations of all groups together, that ends them.
_MOST_STEPS, _NEAR_ENOUGH = 200, 1e-3
#: The same for the moves: the log ratio of one changes by about as much.
_NEAR_FORESEEN = 0.1


# All groups in one array and the number of one of them: numba counts references to a part of an array that is taken out
# for a group, which costs more than what is done with it.
@njit
def factorise(matrices: np.ndarray, g: int, size: int) -> bool:
    """Put the lower Cholesky factor of the g-th of some small matrices in its place; return whether there is one."""
    for j in range(size):
        for i in range(j, size):
            entry = matrices[g, i, j]
            for k in range(j):
                entry -= matrices[g, i, k] * matrices[g, j, k]
            if i == j:
                if not entry > 0.0:
                    return False
                matrices[g, j, j] = np.sqrt(entry)
            else:
                matrices[g, i, j] = entry / matrices[g, j, j]
    return True


@njit
def solve_group(factor: np.ndarray, x: np.ndarray, g: int, size: int) -> None:
    """Put P⁻¹x in the place of the x of a group, P = CCᵀ."""
    for k in range(size):
        entry = x[g, k]
        for j in range(k):
            entry -= factor[g, k, j] * x[g, j]
        x[g, k] = entry / factor[g, k, k]
    for k in range(size - 1, -1, -1):
        for j in range(k + 1, size):
            x[g, k] -= factor[g, j, k] * x[g, j]
        x[g, k] /= factor[g, k, k]


@njit
def solve_transposed(factor: np.ndarray, z: np.ndarray) -> None:
    """Put C⁻ᵀz in the place of z."""
    for k in range(z.size - 1, -1, -1):
        for j in range(k + 1, z.size):
            z[k] -= factor[j, k] * z[j]
        z[k] /= factor[k, k]


@njit
def _solve_blocks(factor: np.ndarray, x: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return P⁻¹x."""
    out = x.copy()
    for g in range(x.shape[0]):
        solve_group(factor, out, g, sizes[g])
    return out


@njit
def _times_blocks(factor: np.ndarray, x: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return Px."""
    out = np.zeros(x.shape)
    for g in range(x.shape[0]):
        for j in range(sizes[g]):
            half = 0.0
            for k in range(j, sizes[g]):
                half += factor[g, k, j] * x[g, k]
            for k in range(j, sizes[g]):
                out[g, k] += factor[g, k, j] * half
    return out


@njit
def join(shift: np.ndarray, factor: np.ndarray, phi: np.ndarray, e: Any) -> None:
    """Turn P⁻¹b, in its place, into Q⁻¹b.

    Where Q is not positive (predictors that are products of effects) the search ends early, and the means are those
    that it has come to.
    """
    foreseen, n_groups = e.tangent.at.size > 0, shift.shape[0]
    begin = along_tangent(phi, e.tangent) if foreseen else shift.copy()
    near = _NEAR_FORESEEN if foreseen else _NEAR_ENOUGH
    residual = _times_blocks(factor, shift - begin, e.size)
    add_through_cells(begin, 0, n_groups, e, residual)
    shift[:] = begin
    solved = _solve_blocks(factor, residual, e.size)
    direction, gap = solved.copy(), (residual * solved).sum()
    for _ in range(_MOST_STEPS):
        if not gap > near**2:
            break
        image = _times_blocks(factor, direction, e.size)
        add_through_cells(-direction, 0, n_groups, e, image)
        curvature = (direction * image).sum()
        if not curvature > 0.0:
            break
        shift += gap / curvature * direction
        residual -= gap / curvature * image
        solved = _solve_blocks(factor, residual, e.size)
        gap_before, gap = gap, (residual * solved).sum()
        direction = solved + gap / gap_before * direction


@njit
def means_given_others(theta: np.ndarray, groups: np.ndarray, e: Any, conditional: Any) -> np.ndarray:
    """Return the means of some groups of a factor given φ and the groups of other factors as they are in θ.

    One row each, in which what lies beyond the group's size means nothing.
    """
    own, sizes, factor = e.own, e.size, conditional.factor
    mean = conditional.mean[groups]
    if e.cell_with.size == 0:
        return mean
    apart, pull = np.zeros(own.shape), np.zeros(own.shape)
    for g in range(own.shape[0]):
        for k in range(sizes[g]):
            apart[g, k] = theta[own[g, k]] - conditional.mean[g, k]
    for i in range(groups.size):
        g = groups[i]
        add_through_cells(apart, g, g + 1, e, pull)
        solve_group(factor, pull, g, sizes[g])
        mean[i] += pull[g]
    return mean
