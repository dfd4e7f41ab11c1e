"""The quadratic expansion of every group's log-likelihood, in φ, all that is no group's own, and its K parameters u_g.

Of rows with normal errors it holds at every value of their scale: where ℓ_i(θ) = c s + e^{ks} q_i(v) with q_i of second
degree (`RowScale`), that in v at (v̂, ŝ), multiplied by r(s) = e^{k(s − ŝ)}, is that at (v̂, s).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_austerity.bounds import RowScale
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.cells import sum_over_cells, through_cells
from pymc_austerity.groups.crossed_means import Tangent
from pymc_austerity.groups.tied_prior import Ties


class KnownScale(NamedTuple):
    """What the expansion needs to know of the scale of rows, as arrays and numbers for compiled code."""

    place: np.ndarray  # int64 (0,) or (1,): where s lies in θ; empty where the expansion is multiplied by nothing
    power: float  # k
    slope: float  # N c
    squares: float  # Q̂, the sum over all rows of e^{kŝ} q_i(v̂)


NO_SCALE = KnownScale(np.empty(0, np.int64), 0.0, 0.0, 0.0)


@njit
def nothing_of_rows(theta_new, theta, others, centre, *data):  # type: ignore[no-untyped-def]
    """Return what is left of each row at both ends of a move: nothing."""
    return np.zeros(data[-1].shape[0]), np.zeros(data[-1].shape[0])


@njit
def nothing_of_linked_rows(links, theta_new, theta, others, centre, fixed, arrays, numbers):  # type: ignore[no-untyped-def]
    """Return the same for code that is compiled for all models."""
    return np.zeros(numbers.size), np.zeros(numbers.size)


@njit
def rate_of_rows(theta: np.ndarray, centre: np.ndarray, scale: KnownScale) -> float:
    """Return r(s)."""
    if scale.place.size == 0:
        return 1.0
    s = scale.place[0]
    return np.exp(scale.power * (theta[s] - centre[s]))


@njit
def sum_at_centre(theta: np.ndarray, centre: np.ndarray, scale: KnownScale) -> float:
    """Return Σ ℓ_i(v̂, s) − Σ ℓ_i(v̂, ŝ)."""
    if scale.place.size == 0:
        return 0.0
    s = scale.place[0]
    shift = theta[s] - centre[s]
    return scale.slope * shift + scale.squares * np.expm1(scale.power * shift)


class GroupExpansion(NamedTuple):
    """Expansion of the rows of all groups around one centre, as arrays for compiled code."""

    centre: np.ndarray  # (D,): θ̂ = (φ̂, û)
    own: np.ndarray  # int64 (G, K): where the parameters of each group lie in θ
    size: np.ndarray  # int64 (G,): parameters of each group: with several factors, those of some may be fewer than K
    first: np.ndarray  # int64 (F + 1,): the groups of factor f are ``first[f]`` to ``first[f + 1] - 1``
    #: int64 (P,) and (R,): where φ lies in θ, and that part of it which the rows read.
    shared: np.ndarray
    read: np.ndarray
    gradient: np.ndarray  # (G, K): of each group's log-likelihood by its own parameters
    hessian: np.ndarray  # (G, K, K)
    precision: np.ndarray  # (G, K, K): minus `hessian` with negative eigenvalues put to zero
    cross: np.ndarray  # (G, K, R): second derivatives by the group's own parameters and those that the rows read
    shared_gradient: np.ndarray  # (R,)
    shared_hessian: np.ndarray  # (R, R)
    #: int64 (G + 1,): the cells of group g are ``cell_start[g]`` to ``cell_start[g + 1] - 1``: one for each group of
    #: another factor with which it has rows in common.
    cell_start: np.ndarray
    cell_with: np.ndarray  # uint32 (C,): these groups
    #: (C, K, K): second derivatives by the parameters of the group and of the other; zero beyond their sizes.
    cell_hessian: np.ndarray
    left: np.ndarray  # int64 (G + 1,): the `places_left` where the groups of the first factor are eliminated
    tangent: Tangent  # the joint means of several factors near the centre of φ, once they have been worked out
    scale: KnownScale  # what the expansion is multiplied by where it holds at every scale of the rows
    ties: Ties  # between groups that the prior ties to each other
    zero_sums: np.ndarray  # int64 (S, 3): see `Groups`
    together: np.ndarray  # int64: numbers g K + k of the coordinates of effects that move together


def with_shared(phi: np.ndarray, e: GroupExpansion) -> np.ndarray:
    """Return θ with a φ, and all groups at the centre."""
    theta = e.centre.copy()
    theta[e.shared] = phi
    return theta


def with_known_scale(e: GroupExpansion, of_rows: RowScale, n_rows: int) -> GroupExpansion:
    """Return the expansion in all that the rows read but their scale, which it is multiplied by."""
    if of_rows.place is None or e.scale.place.size:
        return e
    kept, slope = e.read != of_rows.place, n_rows * of_rows.slope
    squares = float(e.shared_gradient[~kept][0] - slope) / of_rows.power
    return e._replace(
        read=e.read[kept],
        cross=np.ascontiguousarray(e.cross[:, :, kept]),
        shared_gradient=e.shared_gradient[kept],
        shared_hessian=np.ascontiguousarray(e.shared_hessian[np.ix_(kept, kept)]),
        scale=KnownScale(np.array([of_rows.place]), of_rows.power, slope, squares),
    )


@njit
def pull_of_others(theta: np.ndarray, groups: np.ndarray, e: GroupExpansion) -> np.ndarray:
    """Return Σ_h H_gh (u_h − û_h) for some groups, a row each: the slope that those of other factors add to theirs."""
    if e.cell_with.size == 0:
        return np.zeros((groups.size, e.own.shape[1]))
    return through_cells(_shifts(theta, e), groups, e)


@njit
def own_changes(theta_new: np.ndarray, theta: np.ndarray, groups: np.ndarray, e: GroupExpansion) -> np.ndarray:
    """Return how much the expansion of all rows changes with each of some groups of a factor, all else as it is."""
    pull = pull_of_others(theta, groups, e)
    totals, before, rate = np.zeros(groups.size), np.zeros(groups.size), rate_of_rows(theta, e.centre, e.scale)
    _add_alone(totals, theta_new, groups, e)
    _add_alone(before, theta, groups, e)
    own, sizes = e.own, e.size  # not in the loop, where numba would count references
    for i in range(groups.size):
        g = groups[i]
        totals[i] -= before[i]
        for k in range(sizes[g]):
            totals[i] += pull[i, k] * (theta_new[own[g, k]] - theta[own[g, k]])
        totals[i] *= rate
    return totals


@njit
def _add_alone(totals: np.ndarray, theta: np.ndarray, groups: np.ndarray, e: GroupExpansion) -> None:
    """Add what each of some groups has in the expansion of all rows, beside the cells."""
    own, sizes, centre, gradient, hessian, cross = e.own, e.size, e.centre, e.gradient, e.hessian, e.cross
    read, shift = np.empty(e.read.size), np.empty(own.shape[1])
    for r in range(read.size):
        read[r] = theta[e.read[r]] - centre[e.read[r]]
    for i in range(groups.size):
        g, of_group = groups[i], 0.0
        for k in range(sizes[g]):
            shift[k] = theta[own[g, k]] - centre[own[g, k]]
        for k in range(sizes[g]):
            slope = gradient[g, k]
            for j in range(sizes[g]):
                slope += 0.5 * hessian[g, k, j] * shift[j]
            for r in range(read.size):
                slope += cross[g, k, r] * read[r]
            of_group += shift[k] * slope
        totals[i] += of_group


@njit
def grouped_sum(theta: np.ndarray, others: np.ndarray, e: GroupExpansion) -> float:
    """Return Σ q_i(θ) − Σ ℓ_i(θ̂) over all rows."""
    total = 0.0
    for r in range(e.read.size):
        slope = e.shared_gradient[r]
        for s in range(e.read.size):
            slope += 0.5 * e.shared_hessian[r, s] * (theta[e.read[s]] - e.centre[e.read[s]])
        total += slope * (theta[e.read[r]] - e.centre[e.read[r]])
    totals = np.zeros(e.own.shape[0])
    _add_alone(totals, theta, np.arange(totals.size), e)
    for g in range(totals.size):
        total += totals[g]
    if e.cell_with.size > 0:
        total += sum_over_cells(_shifts(theta, e), e)
    return sum_at_centre(theta, e.centre, e.scale) + rate_of_rows(theta, e.centre, e.scale) * total


@njit
def _shifts(theta: np.ndarray, e: GroupExpansion) -> np.ndarray:
    """Return u − û of all groups, shape (G, K)."""
    own, sizes, centre, shift = e.own, e.size, e.centre, np.zeros(e.own.shape)
    for g in range(own.shape[0]):
        for k in range(sizes[g]):
            shift[g, k] = theta[own[g, k]] - centre[own[g, k]]
    return shift
