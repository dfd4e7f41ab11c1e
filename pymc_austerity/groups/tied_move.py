"""The move of all groups that their prior or their rows tie to each other, given φ: one decision on all rows.

z′ = cos α z + sin α ξ leaves to it what the expansion leaves of the rows.  α is learnt while tuning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_conditional import place_all, whiten
from pymc_austerity.groups.group_parts import (
    GroupParts,
    GroupState,
    RefreshOutcome,
    build_decide_on_all,
    conditional_of,
    followed_by,
    stayed,
)
from pymc_austerity.groups.shared_move import FURTHEST, TARGET
from pymc_austerity.kernel import DECIDE, PROPOSE
from pymc_austerity.likelihood import KnownSum
from pymc_austerity.likelihood.linked_functions import log_prior_at
from pymc_austerity.proxy import towards_target

#: Moves a draw: beside the carried move, which factorises the precision at many φ, one costs little.
_MOVES = 3


#: ``tied(theta, data, state, generators)``: a `RefreshOutcome`; the φ in θ must be that of the state.
TiedMove = Callable[..., RefreshOutcome]


def build_tied_move(parts: GroupParts, place: Callable[..., None] = place_all) -> TiedMove:
    """Compile the move; `place` puts the groups where their z say."""
    if not parts.tied:
        return no_tied_move
    return _tied_by(parts.seen.known_sum, parts.drawn.draw_noise, build_decide_on_all(parts), place)


@njit
def no_tied_move(theta, data, state, generators):  # type: ignore[no-untyped-def]
    """Stay, where no groups are tied to each other."""
    return stayed(theta)


@built_once
def _tied_by(
    known_sum: KnownSum, draw_noise: Callable[..., Any], decide: Callable[..., Any], place: Callable[..., None]
) -> TiedMove:

    @njit
    def tied(theta, data, state, generators):  # type: ignore[no-untyped-def]
        e, at, size = data.expansion, data.steering.together, data.steering.own.shape[1]
        conditional, noise = conditional_of(state), draw_noise(generators[DECIDE])
        z, steps = whiten(theta, data.steering, conditional), generators[PROPOSE].standard_normal(at.size)
        ahead, aside, log_q_ratio = np.cos(np.exp(state.tied[0])), np.sin(np.exp(state.tied[0])), 0.0
        for i in range(at.size):
            g, k = at[i] // size, at[i] % size
            step = ahead * z[g, k] + aside * steps[i]
            log_q_ratio += (step**2 - z[g, k] ** 2) / 2
            z[g, k] = step
        theta_new = theta.copy()
        place(theta_new, z, data.steering, conditional)
        offset = log_prior_at(data.links.rows, theta_new, data.others, data.fixed)
        offset += log_q_ratio - log_prior_at(data.links.rows, theta, data.others, data.fixed)
        offset += known_sum(theta_new, data.others, e) - known_sum(theta, data.others, e)
        if not np.isfinite(offset):
            return RefreshOutcome(theta, DECIDED, -1, 1, 0, 0, 0, 0)
        d = decide(theta_new, theta, offset, noise, data, generators)
        accepted = 1 if d.accepted else 0
        return RefreshOutcome(theta_new if d.accepted else theta, d.status, d.row, 1, accepted, d.n_rows, d.n_stages, 0)

    @njit
    def several(theta, data, state, generators):  # type: ignore[no-untyped-def]
        all_moves = stayed(theta)
        for _ in range(_MOVES):
            if all_moves.status == DECIDED:
                all_moves = followed_by(all_moves, tied(all_moves.theta, data, state, generators))
        state.tied[1] += 1.0
        state.tied[2] = all_moves.n_accepted / _MOVES
        return all_moves

    return several


def tied_state() -> np.ndarray:
    """Return log α, the number of draws, and the share of the moves of the last one that was accepted, shape (3,)."""
    return np.array([FURTHEST, 0.0, 0.0])


def adapt_tied(state: GroupState) -> None:
    """Take a draw of tuning in."""
    log_angle, n_draws, accepted = state.tied.tolist()
    if n_draws:
        state.tied[0] = min(FURTHEST, towards_target(log_angle, accepted, TARGET, int(n_draws)))
