"""The quadratic expansion of every group's log-likelihood.

With φ all that is no group's own and u_g the K parameters of group g, the rows of g are expanded together around
(φ̂, û_g).  Memory is O(G (K² + K R)) for R shared parameters that the rows read; no matrix over all parameters is made.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit


class GroupExpansion(NamedTuple):
    """Expansion of the rows of all groups around one centre, as arrays for compiled code.

    Attributes
    ----------
    centre : numpy.ndarray, shape (D,)
        θ̂ = (φ̂, û).
    own : numpy.ndarray of int64, shape (G, K)
        Where the parameters of each group lie in θ.
    size : numpy.ndarray of int64, shape (G,)
        Parameters of each group: with several factors, those of some may be fewer than K.
    first : numpy.ndarray of int64, shape (F + 1,)
        The groups of factor f are ``first[f]`` to ``first[f + 1] - 1``.
    shared, read : numpy.ndarray of int64, shapes (P,) and (R,)
        Where φ lies in θ, and that part of it which the rows read.
    gradient : numpy.ndarray, shape (G, K)
        Of each group's log-likelihood by its own parameters.
    hessian : numpy.ndarray, shape (G, K, K)
    precision : numpy.ndarray, shape (G, K, K)
        Minus `hessian` with negative eigenvalues put to zero.
    cross : numpy.ndarray, shape (G, K, R)
        Second derivatives by the group's own parameters and those that the rows read.
    shared_gradient : numpy.ndarray, shape (R,)
    shared_hessian : numpy.ndarray, shape (R, R)
    cell_start : numpy.ndarray of int64, shape (G + 1,)
        The cells of group g are ``cell_start[g]`` to ``cell_start[g + 1] - 1``: one for each group of another factor
        with which it has rows in common.
    cell_with : numpy.ndarray of uint32, shape (C,)
        These groups.
    cell_hessian : numpy.ndarray, shape (C, K, K)
        Second derivatives by the parameters of the group and of the other.
    """

    centre: np.ndarray
    own: np.ndarray
    size: np.ndarray
    first: np.ndarray
    shared: np.ndarray
    read: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    precision: np.ndarray
    cross: np.ndarray
    shared_gradient: np.ndarray
    shared_hessian: np.ndarray
    cell_start: np.ndarray
    cell_with: np.ndarray
    cell_hessian: np.ndarray


@njit
def own_sum(theta: np.ndarray, g: int, e: GroupExpansion) -> float:
    """Return that part of the expansion of a group's rows which reads the group's own parameters."""
    total = _alone(theta, g, e)
    for c in range(e.cell_start[g], e.cell_start[g + 1]):
        total += _in_common(theta, g, c, e)
    return total


@njit
def _in_common(theta: np.ndarray, g: int, c: int, e: GroupExpansion) -> float:
    """Return the product of a group's parameters and those of another factor's group in the expansion of their rows."""
    h, total = e.cell_with[c], 0.0
    for k in range(e.size[g]):
        slope = 0.0
        for j in range(e.size[h]):
            slope += e.cell_hessian[c, k, j] * (theta[e.own[h, j]] - e.centre[e.own[h, j]])
        total += slope * (theta[e.own[g, k]] - e.centre[e.own[g, k]])
    return total


@njit
def _alone(theta: np.ndarray, g: int, e: GroupExpansion) -> float:
    size, total = e.size[g], 0.0
    for k in range(size):
        shift = theta[e.own[g, k]] - e.centre[e.own[g, k]]
        slope = e.gradient[g, k]
        for j in range(size):
            slope += 0.5 * e.hessian[g, k, j] * (theta[e.own[g, j]] - e.centre[e.own[g, j]])
        for r in range(e.read.size):
            slope += e.cross[g, k, r] * (theta[e.read[r]] - e.centre[e.read[r]])
        total += shift * slope
    return total


@njit
def grouped_sum(theta: np.ndarray, others: np.ndarray, e: GroupExpansion) -> float:
    """Return Σ q_i(θ) − Σ ℓ_i(θ̂) over all rows."""
    total = 0.0
    for r in range(e.read.size):
        slope = e.shared_gradient[r]
        for s in range(e.read.size):
            slope += 0.5 * e.shared_hessian[r, s] * (theta[e.read[s]] - e.centre[e.read[s]])
        total += slope * (theta[e.read[r]] - e.centre[e.read[r]])
    for g in range(e.own.shape[0]):
        total += _alone(theta, g, e)
        for c in range(e.cell_start[g], e.cell_start[g + 1]):
            if e.cell_with[c] > g:
                total += _in_common(theta, g, c, e)
    return total
