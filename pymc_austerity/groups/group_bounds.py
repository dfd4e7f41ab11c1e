"""Bounds on what the expansion leaves of the rows of a group: a move changes a row by at most c_i M_g.

M_g = ‖(z_g, w)‖³ + ‖(z′_g, w′)‖³ within a radius, with z_g = C_gᵀ(u_g − û_g), C_gC_gᵀ the precision of u_g given φ̂, and
w = L⁻¹(φ − φ̂)/κ over what the rows read of φ.  With several factors the largest distance of those groups that have rows
in common with g is added.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from pymc_austerity.bounds import NoRemainderBoundError, RemainderBounds
from pymc_austerity.cholesky import cholesky_of
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.by_group_bounds import GroupBoundTable, group_bound_table
from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import RowLikelihood
from pymc_austerity.rows import OUTWARDS, Rows

#: Share of the draws of a normal law whose distance is beyond the radius, where all rows of the group are read.
_OUTSIDE = 1e-9
#: Rows that read θ through more numbers have bounds that take longer to find than they save.
_MOST_NUMBERS = 3
#: Values of κ that are tried, and the rows on which they are.
_SCALES, _TRIED = 2.0 ** np.arange(-1, 6), 4096
#: Rows that a group draws at most on average, and as a share of its own: one that would draw more reads all of them.
_MOST_DRAWN, _SHARE_DRAWN = 8.0, 1 / 64


class GroupBounds(NamedTuple):
    """Bounds of all rows, and what the distances are measured with."""

    table: GroupBoundTable  # the c_i
    whiten: np.ndarray  # (G, K, K): C_g, lower triangular
    whiten_shared: np.ndarray  # (R, R): L⁻¹/κ
    radius: float  # the bounds hold up to this distance
    outwards: float  # what makes up for rounding in the distances
    #: By how much the bounds are raised for a carried move, so that more rows with less noise are drawn.
    widening: float = 1.0


def no_bounds(n_groups: int, size: int, n_read: int) -> GroupBounds:
    """Return what stands for bounds where there are none."""
    table = GroupBoundTable(np.empty(0), np.zeros(n_groups + 1, np.int64), 0, np.empty(0, np.int64))
    return GroupBounds(table, np.empty((n_groups, size, size)), np.empty((n_read, n_read)), 0.0, 1.0)


@njit
def square_of_shared(theta: np.ndarray, e: GroupExpansion, bounds: GroupBounds) -> float:
    """Return ‖w‖²."""
    total = 0.0
    for r in range(e.read.size):
        w = 0.0
        for s in range(r + 1):
            w += bounds.whiten_shared[r, s] * (theta[e.read[s]] - e.centre[e.read[s]])
        total += w * w
    return total


@njit
def squares_of_some(theta: np.ndarray, groups: np.ndarray, e: GroupExpansion, bounds: GroupBounds) -> np.ndarray:
    """Return ‖z_g‖² of some groups."""
    own, sizes, centre, whiten, squares = e.own, e.size, e.centre, bounds.whiten, np.zeros(groups.size)
    for i in range(groups.size):
        g = groups[i]
        for k in range(sizes[g]):
            z = 0.0
            for j in range(k, sizes[g]):
                z += whiten[g, j, k] * (theta[own[g, j]] - centre[own[g, j]])
            squares[i] += z * z
    return squares


@njit
def squares_of_groups(theta: np.ndarray, e: GroupExpansion, bounds: GroupBounds) -> np.ndarray:
    """Return ‖z_g‖² of all groups."""
    return squares_of_some(theta, np.arange(e.own.shape[0]), e, bounds)


@njit
def most_drawn(size: float) -> float:
    """Return how many rows a group of some size draws at most on average."""
    return min(size, max(_MOST_DRAWN, size * _SHARE_DRAWN))


@njit
def largest_beside(groups: np.ndarray, squares: np.ndarray, e: GroupExpansion) -> np.ndarray:
    """Return for some groups the largest ‖z_h‖² of those with which they have rows in common, summed over factors."""
    start, other, first, totals = e.cell_start, e.cell_with, e.first, np.zeros(groups.size)
    for i in range(groups.size if other.size > 0 else 0):
        g, total, largest, end = groups[i], 0.0, 0.0, np.int64(0)
        for c in range(start[g], start[g + 1]):  # in the order of the factors
            h = other[c]
            if h >= end:
                total, largest = total + largest, 0.0
                f = 0
                while first[f] <= h:
                    f += 1
                end = first[f]
            largest = max(largest, squares[h])
        totals[i] = total + largest
    return totals


@njit
def span(square_new: float, square: float, outwards: float, radius: float) -> float:
    """Return M from the squares of both distances, infinite beyond the radius."""
    distance_new, distance = np.sqrt(square_new) * outwards, np.sqrt(square) * outwards
    if not max(distance_new, distance) <= radius:
        return np.inf
    return distance_new**3 + distance**3


@njit
def spans_of_groups(
    theta_new: np.ndarray, theta: np.ndarray, n_groups: int, e: GroupExpansion, bounds: GroupBounds
) -> np.ndarray:
    """Return M_g of the first groups for a move of everything."""
    new, old = squares_of_groups(theta_new, e, bounds), squares_of_groups(theta, e, bounds)
    groups = np.arange(n_groups)
    shared_new, beside_new = square_of_shared(theta_new, e, bounds), largest_beside(groups, new, e)
    shared, beside = square_of_shared(theta, e, bounds), largest_beside(groups, old, e)
    spans, outwards, radius = np.empty(n_groups), bounds.outwards, bounds.radius
    for g in range(n_groups):
        spans[g] = span(new[g] + (shared_new + beside_new[g]), old[g] + (shared + beside[g]), outwards, radius)
    return spans


def spans_of_move(theta_new: np.ndarray, theta: np.ndarray, e: GroupExpansion, bounds: GroupBounds) -> np.ndarray:
    """Return M_g of all groups for a move of everything, to Python."""
    return np.asarray(uninterrupted(spans_of_groups, theta_new, theta, len(e.own), by_reference(e), bounds))


def find_group_bounds(
    likelihood: RowLikelihood,
    e: GroupExpansion,
    factor: np.ndarray,
    shared: tuple[np.ndarray, np.ndarray],
    fixed: tuple[np.ndarray, ...],
    rows: Rows,
    order: tuple[np.ndarray, np.ndarray],
    most: float,
) -> GroupBounds:
    """Find the bounds of all rows.

    `factor`, shape (G, K, K): C_g at the centre; what stands above the diagonal is not read; `shared`, shapes (P,) and
    (P, P): mean of φ and the Cholesky factor of its covariance; `order`: `start` and `places`, see `PreparedGroups`;
    `most`: rows that a typical refresh may read by these bounds, as a share of all. Raises NoRemainderBoundError where
    none are known for the model, with the reason, or more rows would be read.
    """
    of_rows, (start, places), factor = RemainderBounds(likelihood), order, np.tril(factor)
    read = np.searchsorted(e.shared, e.read)
    if not (np.diagonal(factor, axis1=1, axis2=2) != 0).all():
        raise NoRemainderBoundError("neither the rows nor the prior of a group limit it in some direction")
    spread = cholesky_of((shared[1] @ shared[1].T)[np.ix_(read, read)], "the covariance of what groups share")
    whiten = np.linalg.inv(spread)
    away = np.sum((whiten @ (shared[0] - e.centre[e.shared])[read]) ** 2)
    own = _directions_of_groups(e, factor, likelihood.theta_size)
    along_shared = np.zeros((likelihood.theta_size, read.size))
    along_shared[e.read] = spread
    n_own, n_read = own.shape[1], read.size
    radius_own, radius_read = (np.sqrt(special.chdtri(n, _OUTSIDE)) if n else 0.0 for n in (n_own, n_read))

    def bounds(scale: float, of: Rows) -> tuple[np.ndarray, float]:
        radius = float(np.hypot(radius_own, (radius_read + np.sqrt(away)) / scale))
        return of_rows(e.centre, np.hstack([own, scale * along_shared]), radius, fixed, of), radius

    numbers = of_rows.numbers_read(e.centre, np.hstack([own, along_shared]), fixed, rows)
    if numbers > _MOST_NUMBERS:
        raise NoRemainderBoundError(
            f"a row reads the parameters through {numbers} numbers, and bounds on rows of more than {_MOST_NUMBERS} "
            "take longer to find than they save"
        )
    some = rows.take(np.sort(np.random.default_rng(1973).choice(len(rows), min(_TRIED, len(rows)), replace=False)))
    typical = [2 * (n_own + (n_read + away) / scale**2) ** 1.5 for scale in _SCALES]
    rates = [_mean_rate(bounds(scale, some)[0], m) for scale, m in zip(_SCALES, typical, strict=True)]
    best = float(_SCALES[int(np.argmin(rates))])
    if not min(rates) <= most:
        raise NoRemainderBoundError(
            f"the bounds would have a row read {min(rates):.2g} times to decide about its group"
        )
    sizes, radius = bounds(best, rows)
    unclear = max(np.abs(whiten @ spread - np.eye(n_read)).sum(), _unclear(e, factor, own))
    if not unclear < 1:
        raise NoRemainderBoundError("parameters that the rows do not tell apart leave the distances without a digit")
    table = group_bound_table(sizes, start, places, int(e.first[1]))
    return GroupBounds(table, factor, whiten / best, radius, (1 + OUTWARDS) / (1 - unclear))


def _mean_rate(bounds: np.ndarray, typical: float) -> float:
    """Return how often a row is read where bounds are known; groups with rows of which none is are read as they are."""
    known = bounds[np.isfinite(bounds)]
    return float(known.mean() * typical) if known.size else np.inf


def _unclear(e: GroupExpansion, factor: np.ndarray, own: np.ndarray) -> float:
    """Return how far C_gᵀ times the directions of a group is from the identity, at most."""
    largest, column = 0.0, 0
    for first, last in zip(e.first[:-1], e.first[1:], strict=True):
        size = e.size[first]
        widths = own[e.own[first:last, :size], column : column + size]
        product = factor[first:last, :size, :size].transpose(0, 2, 1) @ widths
        largest = max(largest, float(np.abs(product - np.eye(size)).sum(axis=(1, 2)).max()))
        column += size
    return largest


def _directions_of_groups(e: GroupExpansion, factor: np.ndarray, theta_size: int) -> np.ndarray:
    """Return the directions of z: a column moves one coordinate of every group of a factor, shape (D, E)."""
    columns = []
    for first, last in zip(e.first[:-1], e.first[1:], strict=True):
        size = e.size[first]
        widths = np.linalg.inv(factor[first:last, :size, :size]).transpose(0, 2, 1)
        for k in range(size):
            column = np.zeros(theta_size)
            column[e.own[first:last, :size]] = widths[:, :, k]
            columns.append(column)
    return np.column_stack(columns)


def rows_of_refresh(bounds: GroupBounds, spans: Any) -> float:
    """Return how many rows a refresh of all groups reads on average, with the M_g of a typical one."""
    sizes, drawn = np.diff(bounds.table.start), bounds.table.totals() * spans
    most = np.array([most_drawn(float(n)) for n in sizes.tolist()])
    return float(np.where(drawn < most, drawn, sizes)[sizes > 0].sum())
