"""The move of all groups that their prior or their rows tie to each other, given φ: one decision on all rows.

Each by itself, given its neighbours, would hardly move where the prior is smooth.  Together they are standard normal in
z, as the expansion has them, so that z′ = cos α z + sin α ξ leaves to the decision what the expansion leaves of the
rows.  α is learnt while tuning: across the mean where that is accepted, and a short way where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pymc_austerity.acceptance import DECIDED, Conclude, Question
from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_conditional import place_all, whiten
from pymc_austerity.groups.group_parts import (
    GroupData,
    GroupParts,
    GroupPlace,
    GroupState,
    RefreshOutcome,
    build_conclude,
    conditional_of,
)
from pymc_austerity.groups.shared_move import FURTHEST, TARGET
from pymc_austerity.kernel import DECIDE, PROPOSE, ROWS
from pymc_austerity.likelihood import KnownSum, LinkedLogPrior, Place
from pymc_austerity.proxy import towards_target

#: Moves a draw: beside the carried move, which factorises the precision at many φ, one costs little.
_MOVES = 3


class TiedMove(Protocol):
    """Moves of all tied groups and their decisions, compiled."""

    def __call__(self, theta: np.ndarray, data: GroupData, state: GroupState, generators: Any) -> RefreshOutcome:
        """Return what became of them; the φ in θ must be that of the state."""
        ...


def build_tied_move(parts: GroupParts, place: Callable[..., None] = place_all) -> TiedMove:
    """Compile the move; `place` puts the groups where their z say."""
    if not parts.tied:
        return no_tied_move
    conclude = build_conclude(parts, parts.drawn, parts.source)
    of_model = parts.density.log_prior, parts.seen.known_sum
    return _tied_by(*of_model, parts.drawn.draw_noise, conclude, parts.reach, place)


@njit
def no_tied_move(theta, data, state, generators):  # type: ignore[no-untyped-def]
    """Stay, where no groups are tied to each other."""
    return RefreshOutcome(theta, DECIDED, -1, 0, 0, 0, 0, 0)


@built_once
def _tied_by(
    log_prior: LinkedLogPrior,
    known_sum: KnownSum,
    draw_noise: Callable[..., Any],
    conclude: Conclude,
    reach: Callable[..., Any],
    place: Callable[..., None],
) -> TiedMove:

    @njit
    def tied(theta, data, state, generators):  # type: ignore[no-untyped-def]
        e, n_total, at, size = data.expansion, n_rows_at(data.arrays), data.steering.ties.at, data.steering.own.shape[1]
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
        offset = log_prior(data.links.rows, theta_new, data.others, data.fixed)
        offset += log_q_ratio - log_prior(data.links.rows, theta, data.others, data.fixed)
        offset += known_sum(theta_new, data.others, e) - known_sum(theta, data.others, e)
        if not np.isfinite(offset):
            return RefreshOutcome(theta, DECIDED, -1, 1, 0, 0, 0, 0)
        proposed = Place(data.links.seen, theta_new, theta, data.others, e.centre, data.fixed, data.arrays)
        reached = reach(theta_new, theta, data)
        asked = Question(GroupPlace(proposed, data.places, 0), n_total, reached, offset, float(n_total), noise)
        d = conclude(generators[ROWS], data.row_state, data.looks, asked)
        accepted = 1 if d.accepted else 0
        return RefreshOutcome(theta_new if d.accepted else theta, d.status, d.row, 1, accepted, d.n_rows, d.n_stages, 0)

    @njit
    def several(theta, data, state, generators):  # type: ignore[no-untyped-def]
        all_moves = RefreshOutcome(theta, DECIDED, -1, 0, 0, 0, 0, 0)
        for _ in range(_MOVES):
            if all_moves.status == DECIDED:
                one = tied(all_moves.theta, data, state, generators)
                all_moves = RefreshOutcome(
                    one.theta, one.status, one.row, all_moves.n_groups + one.n_groups,
                    all_moves.n_accepted + one.n_accepted, all_moves.n_rows + one.n_rows,
                    all_moves.n_stages + one.n_stages, 0,
                )  # fmt: skip
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
