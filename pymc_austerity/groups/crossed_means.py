"""Means of the groups of several factors, which depend on each other where groups have rows in common.

Given φ the groups of one factor are independent; those of two are not, and their joint precision Q has a block P_g for
each group and, for groups g and h with rows in common, minus the second derivatives H_gh of the likelihood of these,
multiplied by what the expansion is multiplied by (`known_scale`).
Qx = b is solved by conjugate gradients, with the blocks as preconditioner.  Where the search begins, at P⁻¹b or on the
plane of a `Tangent`, and the rule by which it ends read nothing but φ.  So the means are a function of φ, to whatever
accuracy: all that a carried move asks for.  No matrix beyond the blocks and the cells of the table of groups is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.cells import add_through_cells
from pymc_austerity.groups.tangent import along_tangent

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
def solve_group(factor: np.ndarray, g: int, x: np.ndarray, i: int, size: int) -> None:
    """Put P⁻¹x in the place of the i-th x, P = CCᵀ of group g."""
    for k in range(size):
        entry = x[i, k]
        for j in range(k):
            entry -= factor[g, k, j] * x[i, j]
        x[i, k] = entry / factor[g, k, k]
    for k in range(size - 1, -1, -1):
        for j in range(k + 1, size):
            x[i, k] -= factor[g, j, k] * x[i, j]
        x[i, k] /= factor[g, k, k]


@njit
def solve_transposed(factor: np.ndarray, g: int, z: np.ndarray, size: int) -> None:
    """Put C⁻ᵀz in the place of the z of group g."""
    for k in range(size - 1, -1, -1):
        for j in range(k + 1, size):
            z[k] -= factor[g, j, k] * z[j]
        z[k] /= factor[g, k, k]


@njit
def solve_blocks(factor: np.ndarray, x: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return P⁻¹x."""
    out = x.copy()
    for g in range(x.shape[0]):
        solve_group(factor, g, out, g, sizes[g])
    return out


@njit
def times_blocks(factor: np.ndarray, x: np.ndarray, sizes: np.ndarray) -> np.ndarray:
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
def join(shift: np.ndarray, factor: np.ndarray, rate: float, phi: np.ndarray, e: Any) -> None:
    """Turn P⁻¹b, in its place, into Q⁻¹b; `rate` is what the expansion is multiplied by.

    Where Q is not positive (predictors that are products of effects) the search ends early, and the means are those
    that it has come to.
    """
    foreseen = e.tangent.at.size > 0
    begin = along_tangent(phi, e.tangent) if foreseen else shift.copy()
    search(shift, begin, _NEAR_FORESEEN if foreseen else _NEAR_ENOUGH, factor, rate, e)


@njit
def search(shift: np.ndarray, begin: np.ndarray, near: float, factor: np.ndarray, rate: float, e: Any) -> None:
    """Turn P⁻¹b, in its place, into Q⁻¹b by conjugate gradients, to be searched for from `begin`."""
    n_groups, size = shift.shape
    # Loops over entries throughout: numba compiles them in a fraction of the time that whole arrays take.
    for g in range(n_groups):
        for k in range(size):
            shift[g, k] -= begin[g, k]
    residual = times_blocks(factor, shift, e.size)
    add_through_cells(begin, rate, e, residual)
    for g in range(n_groups):
        for k in range(size):
            shift[g, k] = begin[g, k]
    solved = solve_blocks(factor, residual, e.size)
    direction, gap = solved.copy(), _inner(residual, solved)
    for _ in range(_MOST_STEPS):
        if not gap > near**2:
            break
        image = times_blocks(factor, direction, e.size)
        add_through_cells(direction, -rate, e, image)
        curvature = _inner(direction, image)
        if not curvature > 0.0:
            break
        length = gap / curvature
        for g in range(n_groups):
            for k in range(size):
                shift[g, k] += length * direction[g, k]
                residual[g, k] -= length * image[g, k]
        solved = solve_blocks(factor, residual, e.size)
        gap_before, gap = gap, _inner(residual, solved)
        for g in range(n_groups):
            for k in range(size):
                direction[g, k] = solved[g, k] + gap / gap_before * direction[g, k]


@njit
def _inner(x: np.ndarray, y: np.ndarray) -> float:
    total = 0.0
    for g in range(x.shape[0]):
        for k in range(x.shape[1]):
            total += x[g, k] * y[g, k]
    return total


@njit
def means_given_others(groups: np.ndarray, pull: np.ndarray, rate: float, e: Any, conditional: Any) -> np.ndarray:
    """Return the means of some groups of a factor given φ and the groups of other factors, whose `pull` is given.

    One row each, in which what lies beyond the group's size means nothing.
    """
    own, sizes, centre, factor, alone = e.own, e.size, e.centre, conditional.factor, conditional.alone
    means = np.empty(pull.shape)
    for i in range(groups.size):
        g = groups[i]
        for k in range(pull.shape[1]):
            means[i, k] = rate * pull[i, k]
        solve_group(factor, g, means, i, sizes[g])
        for k in range(sizes[g]):
            means[i, k] += centre[own[g, k]] + alone[g, k]
    return means
