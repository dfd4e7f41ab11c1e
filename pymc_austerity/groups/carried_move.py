"""The carried move: φ with the groups carried along.

φ′ is proposed, on the surrogate or about a learnt centre, while every z_g = Σ_g(φ)^{-1/2}(u_g − m_g(φ)) stays:
u′_g = m_g(φ′) + Σ_g(φ′)^{1/2}z_g.  The map (φ, u) → (φ′, u′) at given z has the Jacobian
Π|Σ_g(φ′)|^{1/2}/|Σ_g(φ)|^{1/2}.  One test decides on all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pymc_austerity.acceptance import BAD_PRIOR, DECIDED, Conclude, Question
from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_conditional import Condition, OnSurrogate, build_surrogate, place_all, whiten
from pymc_austerity.groups.group_expansion import grouped_sum
from pymc_austerity.groups.group_parts import (
    GroupData,
    GroupParts,
    GroupPlace,
    GroupState,
    build_conclude,
    conditional_of,
)
from pymc_austerity.groups.normal_given import build_normal_given
from pymc_austerity.groups.shared_move import propose_shared
from pymc_austerity.groups.slice_step import build_slice
from pymc_austerity.groups.surrogate_move import build_surrogate_move, no_step
from pymc_austerity.kernel import DECIDE, PROPOSE, ROWS, Outcome
from pymc_austerity.likelihood import KnownSum, LinkedLogPrior, Place
from pymc_austerity.likelihood.linked_functions import prior_slope_at


class CarriedMove(Protocol):
    """A carried move and its decision, compiled."""

    def __call__(self, theta: np.ndarray, data: GroupData, state: GroupState, generators: Any) -> tuple[Outcome, bool]:
        """Return its outcome, and whether φ′ was proposed about the centre."""
        ...


def build_carried_move(
    parts: GroupParts,
    place: Callable[..., None] = place_all,
    build_move: Callable[..., Callable[..., OnSurrogate]] = build_surrogate_move,
) -> CarriedMove:
    """Compile the carried move; `place` puts the groups where their z say."""
    conclude = build_conclude(parts, parts.drawn, parts.source)
    surrogate = build_surrogate(parts.density.log_prior, parts.condition, place)
    given = build_normal_given(surrogate, prior_slope_at) if parts.normal else no_step
    move = build_move(build_slice(surrogate), given)
    of_model = parts.density.log_prior, parts.seen.known_sum, parts.condition, surrogate
    return _carried_by(*of_model, move, parts.drawn.draw_noise, conclude, parts.reach)


@built_once
def _carried_by(
    log_prior: LinkedLogPrior,
    known_sum: KnownSum,
    condition: Condition,
    surrogate: Callable[..., OnSurrogate],
    move: Callable[..., OnSurrogate],
    draw_noise: Callable[..., Any],
    conclude: Conclude,
    reach: Callable[..., Any],
) -> CarriedMove:

    @njit
    def carried(theta, data, state, generators):  # type: ignore[no-untyped-def]
        e, n_total, rng = data.expansion, n_rows_at(data.arrays), generators[PROPOSE]
        phi, moved = np.empty(e.shared.size), False
        for p in range(phi.size):
            phi[p] = theta[e.shared[p]]
            moved = moved or phi[p] != state.phi[p]
        if moved:
            _keep(phi, condition(data.links.prior, theta, data.others, data.fixed, data.steering), state)
        conditional = conditional_of(state)
        noise = draw_noise(generators[DECIDE])
        prior = log_prior(data.links.rows, theta, data.others, data.fixed)
        z = whiten(theta, data.steering, conditional)
        value = prior + grouped_sum(theta, data.others, data.steering) + conditional.log_det
        about_centre = rng.random() >= data.steps.share
        if about_centre:
            phi_new, log_q_ratio = propose_shared(rng, phi, state.shared)
            there = surrogate(phi_new, z, data)
        else:
            there = move(rng, OnSurrogate(phi, theta, conditional, prior, value), z, data)
            log_q_ratio = value - there.value
        if not np.isfinite(prior):
            return Outcome(theta, BAD_PRIOR, False, 0, 0, np.nan, np.nan, -1, False, np.nan), about_centre
        offset = there.log_prior - prior + log_q_ratio + there.conditional.log_det - conditional.log_det
        offset += known_sum(there.theta, data.others, e) - known_sum(theta, data.others, e)
        if not np.isfinite(offset):
            return Outcome(theta, DECIDED, False, 0, 0, -np.inf, 0.0, -1, False, np.nan), about_centre
        proposed = Place(data.links.seen, there.theta, theta, data.others, e.centre, data.fixed, data.arrays)
        at = GroupPlace(proposed, data.places, 0)
        asked = Question(at, n_total, reach(there.theta, theta, data), offset, float(n_total), noise)
        d = conclude(generators[ROWS], data.row_state, data.looks, asked)
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
    # Loops: numba takes seconds to compile what copies whole arrays.
    for p in range(phi.size):
        state.phi[p] = phi[p]
    for g in range(state.mean.shape[0]):
        for k in range(state.mean.shape[1]):
            state.mean[g, k] = conditional.mean[g, k]
            state.alone[g, k] = conditional.alone[g, k]
            for j in range(state.mean.shape[1]):
                state.factor[g, k, j] = conditional.factor[g, k, j]
    for i in range(state.left.shape[0]):
        for j in range(i + 1):
            state.left[i, j] = conditional.left[i, j]
    state.log_det[0] = conditional.log_det
