"""Moves of many groups at once, each of which one test decides on all rows.

The carried move: φ′ is proposed while every z_g = Σ_g(φ)^{-1/2}(u_g − m_g(φ)) stays.  The map (φ, u) → (φ′, u′) at
given z has the Jacobian Π|Σ_g(φ′)|^{1/2}/|Σ_g(φ)|^{1/2}.

The move, given φ, of the groups that their prior or their rows tie to each other: z′ = cos α z + sin α ξ leaves to the
test what the expansion leaves of the rows.  α is learnt while tuning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_austerity.acceptance import BAD_PRIOR, DECIDED, Conclude, Question
from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_conditional import Condition, OnSurrogate, place_all, whiten
from pymc_austerity.groups.group_expansion import grouped_sum
from pymc_austerity.groups.group_parts import (
    GroupParts,
    GroupPlace,
    GroupState,
    RefreshOutcome,
    build_conclude,
    conditional_of,
    followed_by,
    stayed,
)
from pymc_austerity.groups.shared_move import FURTHEST, TARGET, propose_shared, share_on_surrogate
from pymc_austerity.groups.surrogate_move import (
    build_normal_given,
    build_surrogate_move,
    build_surrogate_slice,
    no_step,
)
from pymc_austerity.kernel import DECIDE, PROPOSE, ROWS, Outcome
from pymc_austerity.likelihood import KnownSum, Place
from pymc_austerity.likelihood.linked_functions import log_prior_at
from pymc_austerity.proxy import towards_target

#: Moves of tied groups a draw: beside the carried move, which factorises the precision at many φ, one costs little.
_MOVES = 3

#: ``carried(theta, data, state, generators)``: the `Outcome`, and whether φ′ was proposed about the centre.
CarriedMove = Callable[..., tuple[Outcome, bool]]
#: ``tied(theta, data, state, generators)``: a `RefreshOutcome`; the φ in θ must be that of the state.
TiedMove = Callable[..., RefreshOutcome]


def build_decide_on_all(parts: GroupParts) -> Callable[..., Any]:
    """Compile ``decide(theta_new, theta, offset, noise, data, generators)``: one decision on a move of everything."""
    return _decide_by(build_conclude(parts, parts.drawn, parts.source), parts.reach)


@built_once
def _decide_by(conclude: Conclude, reach: Callable[..., Any]) -> Callable[..., Any]:
    @njit
    def decide(theta_new, theta, offset, noise, data, generators):  # type: ignore[no-untyped-def]
        centre, n_total = data.expansion.centre, n_rows_at(data.arrays)
        proposed = Place(data.links.seen, theta_new, theta, data.others, centre, data.fixed, data.arrays)
        at, reached = GroupPlace(proposed, data.places, 0), reach(theta_new, theta, data)
        asked = Question(at, n_total, reached, offset, float(n_total), noise)
        return conclude(generators[ROWS], data.row_state, data.looks, asked)

    return decide


def build_carried_move(
    parts: GroupParts, build_move: Callable[..., Callable[..., OnSurrogate]] = build_surrogate_move
) -> CarriedMove:
    """Compile the carried move."""
    surrogate = _surrogate_of(parts.surrogate)
    given = build_normal_given(surrogate, parts.sums) if parts.normal else no_step
    move = build_move(build_surrogate_slice(surrogate), given)
    decide = build_decide_on_all(parts)
    return _carried_by(parts.seen.known_sum, parts.condition, surrogate, move, parts.drawn.draw_noise, decide)


@built_once
def _surrogate_of(surrogate: Callable[..., OnSurrogate]) -> Callable[..., OnSurrogate]:
    """Compile ``surrogate(phi, z, data)``, with the `GroupData`."""
    return njit(lambda phi, z, data: surrogate(phi, z, data.links, data.others, data.fixed, data.steering))


@built_once
def _carried_by(
    known_sum: KnownSum,
    condition: Condition,
    surrogate: Callable[..., OnSurrogate],
    move: Callable[..., OnSurrogate],
    draw_noise: Callable[..., Any],
    decide: Callable[..., Any],
) -> CarriedMove:

    @njit
    def carried(theta, data, state, generators):  # type: ignore[no-untyped-def]
        e, rng = data.expansion, generators[PROPOSE]
        phi, moved = np.empty(e.shared.size), np.isnan(state.log_det[0])
        for p in range(phi.size):
            phi[p] = theta[e.shared[p]]
            moved = moved or phi[p] != state.phi[p]
        if moved:
            _keep(phi, condition(data.links.prior, theta, data.others, data.fixed, data.steering), state)
        conditional = conditional_of(state)
        noise = draw_noise(generators[DECIDE])
        prior = log_prior_at(data.links.rows, theta, data.others, data.fixed)
        z = whiten(theta, data.steering, conditional)
        value = prior + grouped_sum(theta, data.others, data.steering) + conditional.log_det
        about_centre = rng.random() >= share_on_surrogate(data.steps.share, state.shared)
        if about_centre:
            phi_new, log_q_ratio = propose_shared(rng, phi, state.shared)
            there = surrogate(phi_new, z, data)
        else:
            there = move(rng, OnSurrogate(phi, theta, conditional, prior, value), z, data, state.shared)
            log_q_ratio = value - there.value
        if not np.isfinite(prior):
            return Outcome(theta, BAD_PRIOR, False, 0, 0, np.nan, np.nan, -1, False, np.nan), about_centre
        offset = there.log_prior - prior + log_q_ratio + there.conditional.log_det - conditional.log_det
        offset += known_sum(there.theta, data.others, e) - known_sum(theta, data.others, e)
        if np.isnan(offset) or offset == -np.inf:
            return Outcome(theta, DECIDED, False, 0, 0, -np.inf, 0.0, -1, False, np.nan), about_centre
        d = decide(there.theta, theta, offset, noise, data, generators)
        if d.accepted:
            _keep(there.phi, there.conditional, state)
        outcome = Outcome(
            there.theta if d.accepted else theta, d.status, d.accepted, d.n_rows, d.n_stages, d.log_ratio,
            d.log_ratio_sd, d.row, d.full_data, d.threshold,
        )  # fmt: skip
        return outcome, about_centre

    return carried


@njit
def _keep(phi, conditional, state):  # type: ignore[no-untyped-def]
    """Remember the conditional at φ."""
    _copy(phi, state.phi)
    _copy(conditional.mean, state.mean)
    _copy(conditional.alone, state.alone)
    _copy(conditional.factor, state.factor)
    _copy(conditional.left, state.left)
    _copy(conditional.normals, state.normals)
    state.log_det[0] = conditional.log_det


@njit
def _copy(of, to):  # type: ignore[no-untyped-def]
    """Copy an array by a loop: numba takes seconds to compile what copies whole ones."""
    entries, kept = of.ravel(), to.ravel()
    for i in range(entries.size):
        kept[i] = entries[i]


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
