"""Moves on the surrogate: from one sub-model to another, and of the parameters within one.

A coefficient that comes in is drawn from its normal law given the others, which shift by what it takes from them; one
that goes out shifts them back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.proposals.jumps.excluded_law import LinkedExcludedLaw
from pymc_austerity.proposals.jumps.jump_moves import draw_law, log_law, log_normal
from pymc_austerity.proposals.jumps.tableau import (
    choose_weighted,
    conditional,
    flip_weights,
    log_share,
    seat_weights,
    sweep,
)

#: Autocorrelation of an update, one of the two at random: independent draws, and a small step where the prior is far
#: from normal.
_RHO = (0.0, 0.9)


#: ``change(rng, theta, included, tableau, state, surroundings)`` moves θ to another model in place: log q(θ|θ′) −
#: log q(θ′|θ), and up to two coefficients that came or went, −1 for none.
ChangeModel = Callable[..., tuple[float, int, int]]


class Membership(NamedTuple):
    """How a coefficient comes into a model and leaves it, compiled; all return a log density."""

    #: ``include(rng, theta, included, tableau, state, p)`` draws coefficient p, shifts the others: that of the draw.
    include: Callable[..., float]
    #: ``exclude(theta, included, tableau, state, p)`` takes the shift back: that of a draw which would lead here.
    exclude: Callable[..., float]
    #: ``leave_out(rng, theta, p, state, surroundings)`` draws the value of an excluded coefficient: that of the value.
    leave_out: Callable[..., float]
    #: ``log_left_out(theta, p, state, surroundings)``: that of the value that an excluded coefficient has.
    log_left_out: Callable[..., float]


def build_membership(family: int, excluded_law: LinkedExcludedLaw) -> Membership:
    """Compile how a coefficient comes into a model and leaves it."""

    @njit
    def include(rng, theta, included, tableau, state, p):  # type: ignore[no-untyped-def]
        mean, precision = conditional(tableau, p)
        spread = 1 / np.sqrt(precision)
        value = mean + spread * rng.standard_normal()
        for i in range(included.size):
            if included[i]:
                theta[state.places[i]] -= tableau[i, p] * value  # (A_gg⁻¹A_gp)_i
        theta[state.places[p]], theta[state.switches[p]], included[p] = value, 1.0, True
        sweep(tableau, p, 1.0)
        return log_normal(value, mean, spread)

    @njit
    def exclude(theta, included, tableau, state, p):  # type: ignore[no-untyped-def]
        value = theta[state.places[p]]
        theta[state.switches[p]], included[p] = 0.0, False
        sweep(tableau, p, -1.0)
        for i in range(included.size):
            if included[i]:
                theta[state.places[i]] += tableau[i, p] * value
        mean, precision = conditional(tableau, p)
        return log_normal(value, mean, 1 / np.sqrt(precision))

    @njit
    def law_of_excluded(theta, p, state, surroundings):  # type: ignore[no-untyped-def]
        j = 0
        for i in range(p):
            j += state.switches[i] >= 0
        loc, scale, df = excluded_law(surroundings.links, theta, surroundings.others, surroundings.fixed)
        return loc[j], scale[j], df[j]

    @njit
    def leave_out(rng, theta, p, state, surroundings):  # type: ignore[no-untyped-def]
        loc, scale, df = law_of_excluded(theta, p, state, surroundings)
        value = draw_law(rng, family, loc, scale, df)
        theta[state.places[p]] = value
        return log_law(value, family, loc, scale, df)

    @njit
    def log_left_out(theta, p, state, surroundings):  # type: ignore[no-untyped-def]
        loc, scale, df = law_of_excluded(theta, p, state, surroundings)
        return log_law(theta[state.places[p]], family, loc, scale, df)

    return Membership(include, exclude, leave_out, log_left_out)


def build_flip(membership: Membership) -> ChangeModel:
    """Compile a move that includes or excludes one coefficient and returns log q(θ|θ′) − log q(θ′|θ)."""
    include, exclude, leave_out, log_left_out = membership

    @njit
    def flip(rng, theta, included, tableau, state, surroundings):  # type: ignore[no-untyped-def]
        before = flip_weights(tableau, included, state)
        p = choose_weighted(rng, before)
        if included[p]:
            ratio = exclude(theta, included, tableau, state, p)
            ratio -= leave_out(rng, theta, p, state, surroundings)
        else:
            ratio = log_left_out(theta, p, state, surroundings)
            ratio -= include(rng, theta, included, tableau, state, p)
        after = flip_weights(tableau, included, state)
        return ratio + (log_share(after, p) - log_share(before, p)), p, -1

    return flip


def build_swap(membership: Membership) -> ChangeModel:
    """Compile a move that excludes one coefficient and gives its seat to another, or to itself."""
    include, exclude, leave_out, log_left_out = membership

    @njit
    def swap(rng, theta, included, tableau, state, surroundings):  # type: ignore[no-untyped-def]
        candidates = np.flatnonzero(included & (state.switches >= 0))
        if not candidates.size:
            return 0.0, -1, -1
        leaving = candidates[integer_below(rng, candidates.size)]
        old = theta.copy()
        ratio = exclude(theta, included, tableau, state, leaving)
        weights = seat_weights(tableau, included, state)
        entering = choose_weighted(rng, weights)
        ratio -= include(rng, theta, included, tableau, state, entering)
        ratio += weights[leaving] - weights[entering]
        if entering != leaving:
            ratio += log_left_out(old, entering, state, surroundings)
            ratio -= leave_out(rng, theta, leaving, state, surroundings)
        return ratio, leaving, entering

    return swap


@njit
def cholesky_of(matrix: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of a block of a matrix."""
    lower = np.zeros((own.size, own.size))
    for i in range(own.size):
        for j in range(i + 1):
            total = matrix[own[i], own[j]]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            lower[i, j] = np.sqrt(total) if i == j else total / lower[j, j]
    return lower


def build_update(membership: Membership, redraw: bool) -> Callable[..., float]:
    """Compile a move of all included parameters about the normal law of their model, which returns its log ratio."""
    _, _, leave_out, log_left_out = membership

    @njit
    def update(rng, theta, included, tableau, precision, state, surroundings):  # type: ignore[no-untyped-def]
        ratio = 0.0
        if redraw:
            old = theta.copy()
            for p in range(included.size):
                if not included[p]:
                    ratio += log_left_out(old, p, state, surroundings)
                    ratio -= leave_out(rng, theta, p, state, surroundings)
        own = np.flatnonzero(included)
        lower = cholesky_of(precision, own)
        x = np.empty(own.size)
        for i in range(own.size):
            x[i] = theta[state.places[own[i]]] - tableau[own[i], -1]
        rho = _RHO[integer_below(rng, 2)]
        fresh = np.sqrt(1 - rho * rho)
        new = np.empty(own.size)
        for i in range(own.size):
            y = 0.0
            for j in range(i, own.size):
                y += lower[j, i] * x[j]
            new[i] = rho * y + fresh * rng.standard_normal()
            ratio += 0.5 * (new[i] * new[i] - y * y)
        for i in range(own.size - 1, -1, -1):
            for j in range(i + 1, own.size):
                new[i] -= lower[j, i] * new[j]
            new[i] /= lower[i, i]
            theta[state.places[own[i]]] = tableau[own[i], -1] + new[i]
        return ratio

    return update
