"""Moves on which no row changes, so that the prior decides: along single parameters, and along directions.

A chain is quick where groups say little of their effects by the carried move, and where they say much by moves given
the effects (interweaving; Yu and Meng, Journal of Computational and Graphical Statistics 20, 2011).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.kernel import DECIDE, PROPOSE
from pymc_austerity.likelihood import LinkedLogPrior

#: Parameters that are moved in a draw: at most, and at least where a prior of many parameters takes longer; of more,
#: some at random.
_MOST_GIVEN, _LEAST_GIVEN = 64, 4
#: Terms of the prior that these moves may evaluate, about, and shifts in a draw.
_MOST_TERMS, MOST_SHIFTS = 20_000, 8

#: ``move(theta, direction, length, data, generators)``: θ + δ direction, or θ, and whether it moved; differences of the
#: prior are taken over the length.
MoveAlong = Callable[..., tuple[np.ndarray, bool]]
#: ``given(theta, data, state, generators)``: θ.
MoveGiven = Callable[..., np.ndarray]
#: ``shift(theta, data, generators)``: θ, and how many shifts were accepted.
Shift = Callable[..., tuple[np.ndarray, int]]


# A loop: numba takes a second to compile each of the expressions of arrays that it stands for.
@njit
def moved(theta, step, direction):  # type: ignore[no-untyped-def]
    """Return θ + δ direction."""
    theta_new = np.empty(theta.size)
    for i in range(theta.size):
        theta_new[i] = theta[i] + step * direction[i]
    return theta_new


@built_once
def build_move_along(log_prior: LinkedLogPrior) -> MoveAlong:
    """Compile a move along a line on which no row changes: a translation, whose Jacobian is one.

    δ is proposed from the normal law that has the prior's slope and curvature at θ, and the way back from that at θ′:
    where the prior is normal along the line that is the prior itself, and all are accepted.
    """

    @njit
    def normal_along(theta, direction, length, middle, data):  # type: ignore[no-untyped-def]
        """Return the mean and the standard deviation of the prior along a line, from here."""
        above = log_prior(data.links.rows, moved(theta, length, direction), data.others, data.fixed)
        below = log_prior(data.links.rows, moved(theta, -length, direction), data.others, data.fixed)
        curvature = (2.0 * middle - above - below) / length**2
        if not curvature > 0.0:
            return 0.0, length
        return (above - below) / (2.0 * length) / curvature, 1.0 / np.sqrt(curvature)

    @njit
    def move(theta, direction, length, data, generators):  # type: ignore[no-untyped-def]
        z, u = generators[PROPOSE].standard_normal(), generators[DECIDE].random()
        for i in range(direction.size):
            if not np.isfinite(direction[i]):
                return theta, False
        here = log_prior(data.links.rows, theta, data.others, data.fixed)
        mean, sd = normal_along(theta, direction, length, here, data)
        step = mean + sd * z
        theta_new = moved(theta, step, direction)
        there = log_prior(data.links.rows, theta_new, data.others, data.fixed)
        if not np.isfinite(there):
            return theta, False
        mean_back, sd_back = normal_along(theta_new, direction, length, there, data)
        back = (-step - mean_back) / sd_back
        log_ratio = there - here - back * back / 2.0 - np.log(sd_back) + z * z / 2.0 + np.log(sd)
        if np.log1p(-u) < log_ratio:
            return theta_new, True
        return theta, False

    return move


@built_once
def build_move_given(move: MoveAlong) -> MoveGiven:
    """Compile moves along single parameters that no row reads."""

    @njit
    def given(theta, data, state, generators):  # type: ignore[no-untyped-def]
        shared, unread, factor = data.expansion.shared, data.unread, state.shared.factor
        most = max(_LEAST_GIVEN, min(_MOST_GIVEN, _MOST_TERMS // theta.size))
        for i in range(min(unread.size, most)):
            p = unread[i if unread.size <= most else integer_below(generators[PROPOSE], unread.size)]
            direction = np.zeros(theta.size)
            direction[shared[p]] = 1.0
            square = 0.0
            for j in range(p + 1):
                square += factor[p, j] ** 2
            theta, _ = move(theta, direction, np.sqrt(square), data, generators)
        return theta

    return given


@built_once
def build_shift(move: MoveAlong) -> Shift:
    """Compile the shifts."""

    @njit
    def shift(theta, data, generators):  # type: ignore[no-untyped-def]
        shifts, n_accepted = data.shifts, 0
        for i in range(min(len(shifts), MOST_SHIFTS)):
            s = i if len(shifts) <= MOST_SHIFTS else integer_below(generators[PROPOSE], len(shifts))
            theta, accepted = move(theta, shifts[s], 1.0, data, generators)
            n_accepted += accepted
        return theta, n_accepted

    return shift
