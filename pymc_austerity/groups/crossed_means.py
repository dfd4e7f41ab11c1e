"""Means of the groups of several factors together, by conjugate gradients in their joint precision Q.

Q has a block P_g for each group, the preconditioner, and −r(s) H_gh for groups with rows in common.  Where the search
begins and ends depends on φ alone, so that the means are a function of φ to whatever accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.cells import add_through_cells

#: Steps at most, and the distance from the solution, in standard deviations of all groups together, that ends them.
_MOST_STEPS, _NEAR_ENOUGH = 200, 1e-3
#: The same for the moves: the log ratio of one changes by about as much.
_NEAR_FORESEEN = 0.1


class Tangent(NamedTuple):
    """The joint means of all groups as a linear function of φ, as arrays for compiled code."""

    at: np.ndarray  # (P,): φ̂; empty where nothing has been worked out
    shift: np.ndarray  # (G, K): m(φ̂), from the centre of the expansion
    slope: np.ndarray  # (P, G, K)


NO_TANGENT = Tangent(np.empty(0), np.empty((0, 0)), np.empty((0, 0, 0)))


@njit
def along_tangent(phi: np.ndarray, tangent: Tangent) -> np.ndarray:
    """Return the means there, from the centre of the expansion."""
    shift = tangent.shift.copy()
    slope = tangent.slope
    for p in range(phi.size):
        distance = phi[p] - tangent.at[p]
        for g in range(shift.shape[0]):  # a loop is compiled in a tenth of the time that whole arrays take
            for k in range(shift.shape[1]):
                shift[g, k] += distance * slope[p, g, k]
    return shift


def find_tangent(means: Callable[[np.ndarray], np.ndarray], centre: np.ndarray, factor: np.ndarray) -> Tangent:
    """Work the means out around a centre of φ.

    `means` returns m(φ) from the centre of the expansion, shape (G, K); `centre`, `factor`, shapes (P,) and (P, P):
    normal approximation of φ. Return none where there are no means a standard deviation away.
    """
    sides = np.array([[means(centre + sign * axis) for sign in (1, -1)] for axis in factor.T])
    differences = (sides[:, 0] - sides[:, 1]) / 2
    slope = np.linalg.solve(factor.T, differences.reshape(centre.size, -1)).reshape(differences.shape)
    found = Tangent(centre.copy(), means(centre), np.ascontiguousarray(slope))
    return found if np.isfinite(found.shift).all() and np.isfinite(slope).all() else NO_TANGENT


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
def solve_transposed(factor: np.ndarray, g: int, z: np.ndarray, i: int, size: int) -> None:
    """Put C⁻ᵀz in the place of the i-th z, of group g."""
    for k in range(size - 1, -1, -1):
        for j in range(k + 1, size):
            z[i, k] -= factor[g, j, k] * z[i, j]
        z[i, k] /= factor[g, k, k]


@njit
def solve_group(factor: np.ndarray, g: int, x: np.ndarray, i: int, size: int) -> None:
    """Put P⁻¹x in the place of the i-th x, P = CCᵀ of group g."""
    for k in range(size):
        entry = x[i, k]
        for j in range(k):
            entry -= factor[g, k, j] * x[i, j]
        x[i, k] = entry / factor[g, k, k]
    solve_transposed(factor, g, x, i, size)


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

    Where Q is not positive the search ends early, and the means are those that it has come to.
    """
    foreseen = e.tangent.at.size > 0
    begin = along_tangent(phi, e.tangent) if foreseen else shift.copy()
    search(shift, begin, _NEAR_FORESEEN if foreseen else _NEAR_ENOUGH, factor, rate, e)


@njit
def search(shift: np.ndarray, begin: np.ndarray, near: float, factor: np.ndarray, rate: float, e: Any) -> None:
    """Turn P⁻¹b, in its place, into Q⁻¹b by conjugate gradients, to be searched for from `begin`."""
    _add_times(shift, -1.0, begin)
    residual = times_blocks(factor, shift, e.size)
    add_through_cells(begin, rate, e, residual)
    for g in range(shift.shape[0]):
        for k in range(shift.shape[1]):
            shift[g, k] = begin[g, k]
    solved = solve_blocks(factor, residual, e.size)
    direction, gap = solved.copy(), inner(residual, solved)
    for _ in range(_MOST_STEPS):
        if not gap > near**2:
            break
        image = times_blocks(factor, direction, e.size)
        add_through_cells(direction, -rate, e, image)
        curvature = inner(direction, image)
        if not curvature > 0.0:
            break
        length = gap / curvature
        _add_times(shift, length, direction)
        _add_times(residual, -length, image)
        solved = solve_blocks(factor, residual, e.size)
        gap_before, gap = gap, inner(residual, solved)
        for g in range(shift.shape[0]):
            for k in range(shift.shape[1]):
                direction[g, k] = solved[g, k] + gap / gap_before * direction[g, k]


# Loops over entries: numba compiles them in a fraction of the time that whole arrays take.
@njit
def _add_times(x: np.ndarray, times: float, y: np.ndarray) -> None:
    """Add a multiple of y to x."""
    for g in range(x.shape[0]):
        for k in range(x.shape[1]):
            x[g, k] += times * y[g, k]


@njit
def inner(x: np.ndarray, y: np.ndarray) -> float:
    """Return the sum of the products of the entries of two matrices."""
    total = 0.0
    for g in range(x.shape[0]):
        for k in range(x.shape[1]):
            total += x[g, k] * y[g, k]
    return total


@njit
def means_given_others(groups: np.ndarray, pull: np.ndarray, rate: float, e: Any, conditional: Any) -> np.ndarray:
    """Return the means of some groups of a factor given φ and the groups of other factors, whose `pull` is given."""
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
