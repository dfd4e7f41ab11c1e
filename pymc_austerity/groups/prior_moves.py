"""Moves on which no row changes, so that the prior decides: along parameters, along directions, and of nested effects.

A chain is quick where groups say little of their effects by the carried move, and where they say much by moves given
the effects (interweaving; Yu and Meng, Journal of Computational and Graphical Statistics 20, 2011).  Shifts of effects
against those nested in them keep the sums u_g + v_s(g), as where a hierarchy is centred (Papaspiliopoulos, Roberts and
Sköld, Statistical Science 22, 2007): where rows say much of these, moves of u and v one after the other are slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_density import group_derivatives_at, group_terms_at
from pymc_austerity.groups.slice_step import build_slice, moved
from pymc_austerity.kernel import DECIDE, PROPOSE
from pymc_austerity.likelihood import LinkedLogPrior

#: Parameters that are moved in a draw: at most, and at least where a prior of many parameters takes longer; of more,
#: some at random.
_MOST_GIVEN, _LEAST_GIVEN = 256, 4
#: Terms of the prior that these moves may evaluate, about, and shifts in a draw.
_MOST_TERMS, MOST_SHIFTS = 20_000, 8

#: ``move(theta, direction, length, data, generators)``: θ + δ direction, or θ, and whether it moved; differences of the
#: prior are taken over the length.
MoveAlong = Callable[..., tuple[np.ndarray, bool]]
#: ``given(theta, data, state, generators)``: θ.
MoveGiven = Callable[..., np.ndarray]
#: ``shift(theta, data, generators)``: θ, and how many shifts were accepted.
Shift = Callable[..., tuple[np.ndarray, int]]
#: ``nested(theta, data, generators)``: θ.
NestedShift = Callable[..., np.ndarray]


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
        if not 0.0 < curvature < np.inf:  # infinite beside the end of what can be computed
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


class PriorPoint(NamedTuple):
    """A θ and its log prior."""

    theta: np.ndarray
    value: float


@built_once
def build_move_given(move: MoveAlong, log_prior: LinkedLogPrior) -> MoveGiven:
    """Compile moves along single parameters that no row reads: by `move` where the prior is normal, else by slices.

    In the tail of a local scale of a horseshoe the prior has no curvature, and proposals that take it for normal go far
    and are rejected.
    """

    @njit
    def point_at(here, step, direction, data):  # type: ignore[no-untyped-def]
        theta = moved(here.theta, step, direction)
        return PriorPoint(theta, log_prior(data.links.rows, theta, data.others, data.fixed))

    along = build_slice(point_at)

    @njit
    def given(theta, data, state, generators):  # type: ignore[no-untyped-def]
        shared, steps, slices, unread = data.expansion.shared, data.steps, state.shared, data.steps.unread
        most = max(_LEAST_GIVEN, min(_MOST_GIVEN, _MOST_TERMS // theta.size))
        for i in range(steps.n_sweeps * min(unread.size, most)):
            q = i % unread.size if unread.size <= most else integer_below(generators[PROPOSE], unread.size)
            p, s, direction = unread[q], steps.sliced_as[q], np.zeros(theta.size)
            if s < 0:
                direction[shared[p]] = 1.0
                theta, _ = move(theta, direction, steps.unit_of_unread[q], data, generators)
            else:
                direction[shared[p]] = slices.wider[s] * steps.axes[s]
                here = PriorPoint(theta, log_prior(data.links.rows, theta, data.others, data.fixed))
                there, length = along(generators[PROPOSE], here, direction, data)
                slices.lengths[s] = max(slices.lengths[s], length)
                theta = there.theta
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


@built_once
def build_nested_shift() -> NestedShift:
    """Compile the shifts of all coarser effects at once, each proposed from the normal law of its prior.

    The prior decides on each. Where the prior is normal all are accepted: v is then drawn given the sums.
    """

    @njit
    def normal_along(theta, pair, data):  # type: ignore[no-untyped-def]
        """Return the mean of each δ, its precision, and the log prior terms that it changes, by coarser group."""
        e, nested = data.expansion, data.nested
        t, own = e.ties, e.own
        links, at = data.links.prior, (theta, data.others, data.fixed)
        slope, curvature, _ = group_derivatives_at(
            links.derivatives, *at, own, e.size, t.at, t.probes, t.weights, t.own_at, t.own, t.between
        )
        terms = group_terms_at(links.terms, *at)
        mean, precision, total = np.zeros(len(own)), np.zeros(len(own)), np.zeros(len(own))
        for i in range(nested.start[pair], nested.start[pair + 1]):
            g, k = nested.child[i]
            s, q = nested.parent[i]
            if precision[s] == 0.0:
                mean[s], precision[s], total[s] = slope[s, q], curvature[s, q, q], terms[s]
            mean[s] -= nested.column[i] * slope[g, k]
            precision[s] += nested.column[i] ** 2 * curvature[g, k, k]
            total[s] += terms[g]
        for s in range(mean.size):
            mean[s] = mean[s] / precision[s] if precision[s] > 0.0 else 0.0
        return mean, precision, total

    @njit
    def shifted(theta, step, pair, data):  # type: ignore[no-untyped-def]
        nested, own, theta_new = data.nested, data.expansion.own, theta.copy()
        for i in range(nested.start[pair], nested.start[pair + 1]):
            g, k = nested.child[i]
            s, q = nested.parent[i]
            theta_new[own[g, k]] -= nested.column[i] * step[s]
            theta_new[own[s, q]] = theta[own[s, q]] + step[s]
        return theta_new

    @njit
    def nested_shift(theta, data, generators):  # type: ignore[no-untyped-def]
        for pair in range(data.nested.start.size - 1):
            mean, precision, here = normal_along(theta, pair, data)
            step, z = np.zeros(mean.size), np.zeros(mean.size)
            for s in range(mean.size):
                if precision[s] > 0.0:
                    z[s] = generators[PROPOSE].standard_normal()
                    step[s] = mean[s] + z[s] / np.sqrt(precision[s])
            mean_back, precision_back, there = normal_along(shifted(theta, step, pair, data), pair, data)
            for s in range(mean.size):
                if precision[s] > 0.0:
                    u, back = generators[DECIDE].random(), -step[s] - mean_back[s]
                    log_ratio = there[s] - here[s] + (z[s] ** 2 - precision_back[s] * back**2) / 2.0
                    log_ratio += np.log(precision_back[s] / precision[s]) / 2.0 if precision_back[s] > 0.0 else -np.inf
                    if not np.log1p(-u) < log_ratio:
                        step[s] = 0.0
            theta = shifted(theta, step, pair, data)
        return theta

    return nested_shift
