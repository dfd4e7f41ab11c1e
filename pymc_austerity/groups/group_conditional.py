"""All groups given φ, and φ with the groups integrated out, as the quadratic expansion has them.

With their prior, expanded at û_g, it gives u_g | φ ≈ N(m_g(φ), Σ_g(φ)).  With several factors m(φ) is the mean of all
groups together, and Σ_g(φ) the covariance of a group given φ and all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from pymc_austerity.compile.addresses import ADDRESSES
from pymc_austerity.compile.by_address import compile_apart
from pymc_austerity.compile.by_reference import by_reference
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.crossed_means import factorise, join, solve_group
from pymc_austerity.groups.elimination import eliminate, from_white, join_eliminated, n_eliminated, to_white
from pymc_austerity.groups.group_density import group_derivatives_at
from pymc_austerity.groups.group_expansion import GroupExpansion, grouped_sum, rate_of_rows
from pymc_austerity.groups.zero_sums import reflect, reflect_back, take_sums_off
from pymc_austerity.likelihood.linked_functions import MATRIX, VECTOR, log_prior_at

#: What keeps a precision positive where neither rows nor prior say anything about a group.
_RIDGE = 1e-8
#: Standard deviations that the mean of an effect may be from zero: three of the sixteen digits of a number are then
#: left for the distance from the mean.
_TOLD_APART = 1e13


class Conditional(NamedTuple):
    """The normal approximation of all groups given φ."""

    mean: np.ndarray  # (G, K): m_g(φ), of the groups of all factors together
    #: (G, K): mean of a group where those of all other factors are at the centre, from the centre: with one factor m_g
    #: − û_g.
    alone: np.ndarray
    factor: np.ndarray  # (G, K, K): lower Cholesky factor C_g of the precision: z_g = C_gᵀ(u_g − m_g)
    log_det: float  # ½ Σ_g log det Σ_g(φ), or where groups are eliminated ½ log det of the covariance of all together
    left: np.ndarray  # (L, L): L of `elimination`; empty where nothing is eliminated
    normals: np.ndarray  # (S, G, K): of `reflections`, for each sum of effects that is zero


#: ``condition(links, theta, others, fixed, e)``, see `condition`.
Condition = Callable[..., Conditional]


@njit
def _precision(
    curvature: np.ndarray, of_rows: np.ndarray, rate: float, out: np.ndarray, g: int, size: int, diagonal: bool
) -> None:
    """Add the precision of a group's prior to that of its rows; of one that is no precision only what is positive."""
    for i in range(size):
        for j in range(size):
            out[g, i, j] = rate * of_rows[g, i, j]
            if i == j:
                out[g, i, i] += max(curvature[g, i, i], 0.0) + _RIDGE if diagonal else curvature[g, i, i]
            elif not diagonal:
                out[g, i, j] += curvature[g, i, j]


@njit
def condition(links, theta, others, fixed, e):  # type: ignore[no-untyped-def]
    """Return the `Conditional` given the φ in θ; the groups in θ are not read, and no sum of effects is zero."""
    # Not in the loops, where numba would count references.
    own, sizes, centre, precision, gradient, cross = e.own, e.size, e.centre, e.precision, e.gradient, e.cross
    n_groups, size = own.shape
    at = theta.copy()
    for g in range(n_groups):
        for k in range(sizes[g]):
            at[own[g, k]] = centre[own[g, k]]
    t = e.ties
    slope, curvature, between = group_derivatives_at(
        links.derivatives, at, others, fixed, e.own, e.size, t.at, t.probes, t.weights, t.own_at, t.own, t.between
    )
    mean, alone = np.zeros((n_groups, size)), np.zeros((n_groups, size))
    factor, log_det, rate = np.zeros((n_groups, size, size)), 0.0, rate_of_rows(theta, e.centre, e.scale)
    normals = np.zeros((len(e.zero_sums), n_groups, size))
    shift = np.empty(e.read.size)
    for r in range(e.read.size):
        shift[r] = theta[e.read[r]] - e.centre[e.read[r]]
    for g in range(n_groups):
        _precision(curvature, precision, rate, factor, g, sizes[g], False)
        if not factorise(factor, g, sizes[g]):
            _precision(curvature, precision, rate, factor, g, sizes[g], True)
            if not factorise(factor, g, sizes[g]):
                # The determinant alone says that φ is impossible; what divides by the factor goes on.
                for h in range(n_groups):
                    for i in range(size):
                        for j in range(size):
                            factor[h, i, j] = 1.0 if i == j else 0.0
                return Conditional(mean, alone, factor, -np.inf, np.eye(e.left[-1]), normals)
        for k in range(sizes[g]):
            entry = gradient[g, k]
            for r in range(shift.size):
                entry += cross[g, k, r] * shift[r]
            mean[g, k] = slope[g, k] + rate * entry
            log_det -= np.log(factor[g, k, k])
        solve_group(factor, g, mean, g, sizes[g])
        for k in range(sizes[g]):
            alone[g, k] = mean[g, k]
    left, log_diagonal = eliminate(factor, between, rate, e)
    if left.size > 0:
        for h in range(n_eliminated(e), n_groups):
            for k in range(sizes[h]):
                log_det += np.log(factor[h, k, k])
        if not np.isfinite(log_diagonal):
            return Conditional(mean, alone, factor, -np.inf, np.eye(left.shape[0]), normals)
        log_det -= log_diagonal
        join_eliminated(mean, factor, left, rate, e)
    elif e.cell_with.size > 0:
        phi = np.empty(e.shared.size)
        for p in range(phi.size):
            phi[p] = theta[e.shared[p]]
        join(mean, factor, rate, phi, e)
    for g in range(n_groups):
        for k in range(sizes[g]):
            mean[g, k] += at[own[g, k]]
            if np.abs(mean[g, k]) * factor[g, k, k] > _TOLD_APART:
                log_det = -np.inf
    return Conditional(mean, alone, factor, log_det, left, normals)


@njit
def condition_on_sums(links, theta, others, fixed, e):  # type: ignore[no-untyped-def]
    """Return what `condition` does, given that some sums of effects are zero."""
    found = condition(links, theta, others, fixed, e)
    if not np.isfinite(found.log_det):
        return found
    rate = rate_of_rows(theta, e.centre, e.scale)
    normals, of_sums = take_sums_off(found.mean, found.factor, found.left, rate, e)
    return Conditional(found.mean, found.alone, found.factor, found.log_det - of_sums, found.left, normals)


@njit
def whiten(theta: np.ndarray, e: GroupExpansion, conditional: Conditional) -> np.ndarray:
    """Return z_g = C_gᵀ(u_g − m_g) of all groups, shape (G, K), or those of `elimination` and `zero_sums`."""
    own, sizes, mean, shift = e.own, e.size, conditional.mean, np.zeros(e.own.shape)
    for g in range(own.shape[0]):
        for k in range(sizes[g]):
            shift[g, k] = theta[own[g, k]] - mean[g, k]
    z = to_white(shift, conditional.factor, conditional.left, rate_of_rows(theta, e.centre, e.scale), e)
    reflect(z, conditional.normals)
    return z


@njit
def place_all(theta: np.ndarray, z: np.ndarray, e: GroupExpansion, conditional: Conditional) -> None:
    """Put all u_g = m_g + C_g⁻ᵀz_g into θ, or those that z as of `whiten` stands for; the φ in θ is that of m."""
    own, sizes, mean, u = e.own, e.size, conditional.mean, z.copy()
    reflect_back(u, conditional.normals, e)
    from_white(u, conditional.factor, conditional.left, rate_of_rows(theta, e.centre, e.scale), e)
    for g in range(own.shape[0]):
        for k in range(sizes[g]):
            theta[own[g, k]] = mean[g, k] + u[g, k]


class OnSurrogate(NamedTuple):
    """A point of the surrogate in coordinates (φ, z)."""

    phi: np.ndarray  # (P,)
    theta: np.ndarray  # (D,): φ, and u where φ and z say
    conditional: Conditional  # at φ
    log_prior: float  # at θ
    value: float  # log of π̃(θ) Π|Σ_g(φ)|^{1/2}, up to a constant


@built_once
def build_surrogate(
    condition: Condition = condition, place: Callable[..., None] = place_all
) -> Callable[..., OnSurrogate]:
    """Compile ``surrogate(phi, z, links, others, fixed, e)``: a point; `place` puts the groups where their z say."""

    @njit
    def surrogate(phi, z, links, others, fixed, e):  # type: ignore[no-untyped-def]
        theta = e.centre.copy()
        for p in range(phi.size):
            theta[e.shared[p]] = phi[p]
        conditional = condition(links.prior, theta, others, fixed, e)
        place(theta, z, e, conditional)
        prior = log_prior_at(links.rows, theta, others, fixed)
        value = prior + grouped_sum(theta, others, e) + conditional.log_det
        return OnSurrogate(phi, theta, conditional, prior, value)

    return surrogate


def compile_condition(links: Any, e: GroupExpansion) -> Condition:
    """Compile what conditions on the sums that an expansion has: numba takes seconds to compile that of any."""
    found, of_expansion = condition_on_sums if len(e.zero_sums) else condition, numba.typeof(by_reference(e))
    return compile_apart(found, numba.typeof(links.prior), VECTOR, VECTOR, ADDRESSES, of_expansion)


def compile_surrogate(links: Any, e: GroupExpansion) -> Callable[..., OnSurrogate]:
    """Compile what `build_surrogate` does for an expansion."""
    surrogate, of_expansion = build_surrogate(compile_condition(links, e)), numba.typeof(by_reference(e))
    return compile_apart(surrogate, VECTOR, MATRIX, numba.typeof(links), VECTOR, ADDRESSES, of_expansion)
