"""The quadratic expansion of every group's log-likelihood, and what it makes of a group given the rest.

With φ all that is no group's own and u_g the K parameters of group g, the rows of g are expanded together around
(φ̂, û_g).  With the prior of u_g, expanded at û_g, this gives u_g | φ ≈ N(m_g(φ), Σ_g(φ)): the coordinates
z_g = Σ_g(φ)^{-1/2} (u_g − m_g(φ)) are nearly free of φ.  Memory is O(G (K² + K R)) for R shared parameters that the
rows read; no matrix over all parameters is made.  With several factors, u_g is what the groups of all of them have,
m(φ) the mean of all together (`crossed_means`), and Σ_g(φ) the covariance of a group given φ and all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pymc_austerity.likelihood import GroupPrior
from pymc_austerity.proxy.crossed_means import factorise, join, solve_lower, solve_transposed

#: What keeps a precision positive where neither rows nor prior say anything about a group.
_RIDGE = 1e-8


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


class Conditional(NamedTuple):
    """The normal approximation of all groups given φ.

    Attributes
    ----------
    mean : numpy.ndarray, shape (G, K)
        m_g(φ), of the groups of all factors together.
    factor : numpy.ndarray, shape (G, K, K)
        Lower Cholesky factor C_g of the precision: z_g = C_gᵀ(u_g − m_g).
    log_det : float
        ½ Σ_g log det Σ_g(φ).
    """

    mean: np.ndarray
    factor: np.ndarray
    log_det: float


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


@njit
def _precision(curvature: np.ndarray, of_rows: np.ndarray, out: np.ndarray, diagonal: bool) -> None:
    """Add the precision of a prior to that of the rows; of one that is no precision only what is positive."""
    size = out.shape[0]
    for i in range(size):
        for j in range(size):
            out[i, j] = of_rows[i, j]
            if i == j:
                out[i, i] += max(curvature[i, i], 0.0) + _RIDGE if diagonal else curvature[i, i]
            elif not diagonal:
                out[i, j] += curvature[i, j]


def build_condition(prior: GroupPrior) -> Callable[..., Any]:
    """Compile ``condition(theta, others, fixed, expansion)``, which returns the `Conditional` given φ in θ.

    What θ holds of the groups is not read.
    """
    derivatives = prior.derivatives

    @njit
    def condition(theta, others, fixed, e):  # type: ignore[no-untyped-def]
        n_groups, size = e.own.shape
        at = theta.copy()
        for g in range(n_groups):
            for k in range(e.size[g]):
                at[e.own[g, k]] = e.centre[e.own[g, k]]
        slope, curvature = derivatives(at, others, fixed, e.own, e.size)
        mean, factor, log_det = np.zeros((n_groups, size)), np.zeros((n_groups, size, size)), 0.0
        shift = np.empty(e.read.size)
        for r in range(e.read.size):
            shift[r] = theta[e.read[r]] - e.centre[e.read[r]]
        for g in range(n_groups):
            of_g = factor[g, : e.size[g], : e.size[g]]
            _precision(curvature[g], e.precision[g], of_g, False)
            if not factorise(of_g):
                _precision(curvature[g], e.precision[g], of_g, True)
                if not factorise(of_g):
                    # The determinant alone says that φ is impossible; what divides by the factor goes on.
                    for h in range(n_groups):
                        factor[h] = np.eye(size)
                    return Conditional(mean, factor, -np.inf)
            for k in range(e.size[g]):
                entry = slope[g, k] + e.gradient[g, k]
                for r in range(shift.size):
                    entry += e.cross[g, k, r] * shift[r]
                mean[g, k] = entry
                log_det -= np.log(factor[g, k, k])
            solve_lower(factor[g], mean[g, : e.size[g]])
            solve_transposed(factor[g], mean[g, : e.size[g]])
        if e.cell_with.size > 0:
            join(mean, factor, e)
        for g in range(n_groups):
            for k in range(e.size[g]):
                mean[g, k] += at[e.own[g, k]]
        return Conditional(mean, factor, log_det)

    return condition


@njit
def whiten(theta: np.ndarray, e: GroupExpansion, conditional: Conditional) -> np.ndarray:
    """Return z_g = C_gᵀ(u_g − m_g) of all groups, shape (G, K)."""
    n_groups, size = e.own.shape
    z = np.zeros((n_groups, size))
    for g in range(n_groups):
        for j in range(e.size[g]):
            shift = theta[e.own[g, j]] - conditional.mean[g, j]
            for k in range(j + 1):
                z[g, k] += conditional.factor[g, j, k] * shift
    return z


@njit
def place(theta: np.ndarray, g: int, z: np.ndarray, e: GroupExpansion, conditional: Conditional) -> None:
    """Put u_g = m_g + C_g⁻ᵀz_g into θ for one group."""
    u = z[: e.size[g]].copy()
    solve_transposed(conditional.factor[g], u)
    for k in range(u.size):
        theta[e.own[g, k]] = conditional.mean[g, k] + u[k]


@njit
def place_all(theta: np.ndarray, z: np.ndarray, e: GroupExpansion, conditional: Conditional) -> None:
    """Put all u_g = m_g + C_g⁻ᵀz_g into θ."""
    for g in range(e.own.shape[0]):
        place(theta, g, z[g], e, conditional)
