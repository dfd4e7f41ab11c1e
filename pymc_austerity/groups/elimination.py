"""The joint law of the groups of several factors given φ, by elimination of those of the first, where the rest are few.

Without the first, of precisions P_g = C_gC_gᵀ, the rest has the precision S = Q_rr − Σ_g Q_rg P_g⁻¹ Q_gr = LLᵀ.  Then
z_r = Lᵀ(u_r − m_r) of the rest and z_g = C_gᵀ(u_g − E[u_g | u_r]) are independent and standard normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.cells import through_cells
from pymc_austerity.groups.crossed_means import search, solve_blocks, solve_group, solve_transposed, times_blocks

#: Parameters of all factors but the first up to which they are eliminated.
MOST_LEFT = 300
#: Distance from a solution, in standard deviations of all groups together, where it is searched for.
_NEAR_ENOUGH = 0.03
#: A group has cells with many others if these have more than this part of all parameters, one in so many.
_MANY = 4


def places_left(
    first: np.ndarray, size: np.ndarray, tied: Sequence[bool], read_together: Sequence[bool] | None = None
) -> np.ndarray:
    """Return where in S the parameters of each group begin, and how many there are; all 0 for nothing to eliminate.

    `first` and `size` are those of a `GroupExpansion`; `tied` says of which factors the groups move together, and
    `read_together` of which rows read several groups.  Tied ones are among the rest, and where the groups of the first
    factor are either, they are not eliminated.
    """
    begin = 0 if tied[0] or (read_together is not None and read_together[0]) else first[1]
    places = np.concatenate([np.zeros(begin, np.int64), [0], np.cumsum(size[begin:])])
    return places if any(tied) or places[-1] <= MOST_LEFT else np.zeros_like(places)


@njit
def n_eliminated(e: Any) -> int:
    """Return how many groups, the first ones, are eliminated."""
    return e.first[1] if e.left[1] == 0 else e.first[0]


@njit
def eliminate(factor: np.ndarray, between: np.ndarray, rate: float, e: Any) -> tuple[np.ndarray, float]:
    """Return L and the sum of the logarithms of its diagonal, which is no number where S is not positive.

    `factor` holds C_g, and the same for all other groups given those of the first; `between` is what the prior has
    between the groups that it ties.
    """
    places, size = e.left, e.own.shape[1]
    n = places[-1]
    left, half = np.zeros((n, n)), np.zeros((n, size, size))
    rows = np.zeros((1 + size, n))
    if n == 0:
        return left, 0.0
    start, other, hessian, sizes, n_first = e.cell_start, e.cell_with, e.cell_hessian, e.size, n_eliminated(e)
    row, column = e.ties.row, e.ties.column
    for t in range(between.size):
        left[row[t], column[t]] += between[t]
    for h in np.arange(n_first, e.own.shape[0]):
        for i in range(sizes[h]):
            for j in range(i + 1):
                for k in range(j + 1):
                    left[places[h] + i, places[h] + j] += factor[h, i, k] * factor[h, j, k]
        for c in range(start[h], start[h + 1]):
            o = np.int64(other[c])
            if n_first <= o < h:
                for i in range(sizes[h]):
                    for j in range(sizes[o]):
                        left[places[h] + i, places[o] + j] -= rate * hessian[c, i, j]
    for g in range(n_first):
        for c in range(start[g], start[g + 1]):
            a, h = c - start[g], np.int64(other[c])
            for j in range(sizes[h]):
                for i in range(sizes[g]):
                    entry = rate * hessian[c, i, j]
                    for k in range(i):
                        entry -= factor[g, i, k] * half[a, k, j]
                    half[a, i, j] = entry / factor[g, i, i]
        _take_off(left, half, g, rows, e)
    return left, _factorise(left)


@njit
def _take_off(left: np.ndarray, half: np.ndarray, g: int, rows: np.ndarray, e: Any) -> None:
    """Take what group g has between its cells, H_aᵀH_b, off S; `rows` are zeros to work in, and are left so."""
    places, other, sizes, first = e.left, e.cell_with, e.size, e.cell_start[g]
    # Where g has cells with many groups, rows of S are gone through as a whole: eight times as fast.
    n_cells, row, spread = e.cell_start[g + 1] - first, rows[-1], rows[:-1]
    many = _MANY * n_cells * len(spread) > len(left)
    for a in range(n_cells if many else 0):
        h = np.int64(other[first + a])
        for k in range(sizes[g]):
            for j in range(sizes[h]):
                spread[k, places[h] + j] = half[a, k, j]
    for a in range(n_cells):
        h = np.int64(other[first + a])
        for i in range(sizes[h]):
            r = places[h] + i
            if many:
                for j in range(r + 1):
                    row[j] = half[a, 0, i] * spread[0, j]
                for k in range(1, sizes[g]):
                    for j in range(r + 1):
                        row[j] += half[a, k, i] * spread[k, j]
                for j in range(r + 1):
                    left[r, j] -= row[j]
                continue
            for b in range(a + 1):
                o = np.int64(other[first + b])
                for j in range(sizes[o] if o != h else i + 1):
                    total = 0.0
                    for k in range(sizes[g]):
                        total += half[a, k, i] * half[b, k, j]
                    left[r, places[o] + j] -= total
    if many:
        rows[:] = 0.0


@njit
def _factorise(matrix: np.ndarray) -> float:
    """Put a lower Cholesky factor in place, and return the sum of the logarithms of its diagonal."""
    n, total = matrix.shape[0], 0.0
    # Lᵀ, whose rows are what is taken off each other: loops over a row are five times as fast as those over products.
    upper = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            upper[j, i] = matrix[i, j]
    for i in range(n):
        row = upper[i, i:]
        for k in range(i):
            above = upper[k, i:]
            times = above[0]
            if times != 0.0:
                for j in range(row.size):
                    row[j] -= times * above[j]
        if not row[0] > 0.0:
            return np.nan
        diagonal = np.sqrt(row[0])
        total += np.log(diagonal)
        for j in range(row.size):
            row[j] /= diagonal
            matrix[i + j, i] = row[j]
        matrix[i, i] = row[0] = diagonal
    return total


@njit
def solve_joint(x: np.ndarray, factor: np.ndarray, left: np.ndarray, rate: float, e: Any) -> np.ndarray:
    """Return Q⁻¹x, x of about the length that the distance from a solution is measured by."""
    out = solve_blocks(factor, x, e.size)
    if left.size > 0:
        join_eliminated(out, factor, left, rate, e)
    elif e.cell_with.size > 0:
        search(out, out.copy(), _NEAR_ENOUGH, factor, rate, e)
    return out


@njit
def to_white(shift: np.ndarray, factor: np.ndarray, left: np.ndarray, rate: float, e: Any) -> np.ndarray:
    """Return z_g = C_gᵀu_g of all groups, shape (G, K), or those of elimination; the shift is not kept."""
    sizes, z = e.size, np.zeros(shift.shape)
    if left.size > 0:
        follow(shift, -1.0, factor, rate, e)
    for g in range(shift.shape[0]):
        for j in range(sizes[g]):
            for k in range(j + 1):
                z[g, k] += factor[g, j, k] * shift[g, j]
    if left.size > 0:
        whiten_left(shift, left, z, e)
    return z


@njit
def from_white(z: np.ndarray, factor: np.ndarray, left: np.ndarray, rate: float, e: Any) -> None:
    """Turn such z, in their place, into the u that they stand for."""
    flat = taken_left(z, e) if left.size > 0 else np.empty(0)
    for g in range(z.shape[0]):
        solve_transposed(factor, g, z, g, e.size[g])
    if left.size > 0:
        place_left(flat, left, z, e)
        follow(z, 1.0, factor, rate, e)


@njit
def join_eliminated(x: np.ndarray, factor: np.ndarray, left: np.ndarray, rate: float, e: Any) -> None:
    """Turn P⁻¹b, in its place, into Q⁻¹b."""
    places, n_first, (n_groups, size) = e.left, n_eliminated(e), x.shape
    b, of_first, given = np.zeros(left.shape[0]), np.zeros(x.shape), times_blocks(factor, x, e.size)
    for g in range(n_first):
        for k in range(size):
            of_first[g, k] = x[g, k]
    pulled = through_cells(of_first, np.arange(n_first, n_groups), e)
    for h in range(n_first, n_groups):
        for k in range(e.size[h]):
            b[places[h] + k] = given[h, k] + rate * pulled[h - n_first, k]
    for i in range(b.size):
        for j in range(i):
            b[i] -= left[i, j] * b[j]
        b[i] /= left[i, i]
    place_left(b, left, x, e)
    follow(x, 1.0, factor, rate, e)


@njit
def place_left(z: np.ndarray, left: np.ndarray, x: np.ndarray, e: Any) -> None:
    """Put L⁻ᵀz in the place of z, and in x for all groups but those of the first factor."""
    for i in range(z.size - 1, -1, -1):
        z[i] /= left[i, i]
        for j in range(i):
            z[j] -= left[i, j] * z[i]
    put_left(z, x, e)


@njit
def taken_left(x: np.ndarray, e: Any) -> np.ndarray:
    """Return what is left of x, all but the groups of the first factor, as one vector."""
    places, flat = e.left, np.zeros(e.left[-1])
    for h in range(n_eliminated(e), x.shape[0]):
        for k in range(e.size[h]):
            flat[places[h] + k] = x[h, k]
    return flat


@njit
def put_left(flat: np.ndarray, x: np.ndarray, e: Any) -> None:
    """Put such a vector in its place in x."""
    places = e.left
    for h in range(n_eliminated(e), x.shape[0]):
        for k in range(e.size[h]):
            x[h, k] = flat[places[h] + k]


@njit
def follow(x: np.ndarray, sign: float, factor: np.ndarray, rate: float, e: Any) -> None:
    """Add to the groups of the first factor what they follow the others by, times a sign."""
    n_first, of_left = n_eliminated(e), x.copy()
    for g in range(n_first):
        for k in range(x.shape[1]):
            of_left[g, k] = 0.0
    pulled = through_cells(of_left, np.arange(n_first), e)
    for g in range(n_first):
        solve_group(factor, g, pulled, g, e.size[g])
        for k in range(e.size[g]):
            x[g, k] += sign * rate * pulled[g, k]


@njit
def whiten_left(x: np.ndarray, left: np.ndarray, z: np.ndarray, e: Any) -> None:
    """Put Lᵀx of all groups but those of the first factor into z."""
    flat, white = taken_left(x, e), np.zeros(left.shape[0])
    for i in range(flat.size):
        for j in range(i + 1):
            white[j] += left[i, j] * flat[i]
    put_left(white, z, e)
