"""The carried move: φ with the groups carried along.

φ′ is proposed while every z_g = Σ_g(φ)^{-1/2}(u_g − m_g(φ)) stays: u′_g = m_g(φ′) + Σ_g(φ′)^{1/2}z_g.  The map
(φ, u) → (φ′, u′) at given z has the Jacobian Π|Σ_g(φ′)|^{1/2}/|Σ_g(φ)|^{1/2}.  One test decides on all rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pymc_austerity.acceptance import BAD_PRIOR, DECIDED, Conclude, Question
from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_conditional import Condition, place_all, whiten
from pymc_austerity.groups.group_parts import (
    GroupData,
    GroupParts,
    GroupPlace,
    GroupState,
    build_conclude,
    conditional_of,
)
from pymc_austerity.groups.shared_move import propose_shared
from pymc_austerity.kernel import DECIDE, PROPOSE, ROWS, Outcome
from pymc_austerity.likelihood import KnownSum, LinkedLogPrior, Place


class CarriedMove(Protocol):
    """A carried move and its decision, compiled."""

    def __call__(self, theta: np.ndarray, data: GroupData, state: GroupState, generators: Any) -> tuple[Outcome, bool]:
        """Return its outcome, and whether φ′ came by a walk."""
        ...


def build_carried_move(parts: GroupParts, place: Callable[..., None] = place_all) -> CarriedMove:
    """Compile the carried move; `place` puts the groups where their z say."""
    conclude = build_conclude(parts, parts.drawn, parts.source)
    of_model = parts.density.log_prior, parts.seen.known_sum, parts.condition
    return _carried_by(*of_model, parts.drawn.draw_noise, conclude, parts.reach, place)


@built_once
def _carried_by(
    log_prior: LinkedLogPrior,
    known_sum: KnownSum,
    condition: Condition,
    draw_noise: Callable[..., Any],
    conclude: Conclude,
    reach: Callable[..., Any],
    place: Callable[..., None],
) -> CarriedMove:

    @njit
    def carry(theta, phi_new, data, conditional):  # type: ignore[no-untyped-def]
        """Return θ′ with φ′ and every z_g kept, and the conditional there."""
        e = data.steering
        z = whiten(theta, e, conditional)
        theta_new = theta.copy()
        for p in range(e.shared.size):
            theta_new[e.shared[p]] = phi_new[p]
        there = condition(data.links.prior, theta_new, data.others, data.fixed, e)
        place(theta_new, z, e, there)
        return theta_new, there

    @njit
    def carried(theta, data, state, generators):  # type: ignore[no-untyped-def]
        e, n_total = data.expansion, n_rows_at(data.arrays)
        phi, moved = np.empty(e.shared.size), False
        for p in range(phi.size):
            phi[p] = theta[e.shared[p]]
            moved = moved or phi[p] != state.phi[p]
        if moved:
            _keep(phi, condition(data.links.prior, theta, data.others, data.fixed, data.steering), state)
        here = conditional_of(state)
        noise = draw_noise(generators[DECIDE])
        phi_new, log_q_ratio, walks = propose_shared(generators[PROPOSE], phi, state.shared)
        theta_new, there = carry(theta, phi_new, data, here)
        prior = log_prior(data.links.rows, theta, data.others, data.fixed)
        prior_new = log_prior(data.links.rows, theta_new, data.others, data.fixed)
        if not np.isfinite(prior):
            return Outcome(theta, BAD_PRIOR, False, 0, 0, np.nan, np.nan, -1, False, np.nan), walks
        offset = prior_new - prior + log_q_ratio + there.log_det - here.log_det
        offset += known_sum(theta_new, data.others, e) - known_sum(theta, data.others, e)
        if not np.isfinite(offset):
            return Outcome(theta, DECIDED, False, 0, 0, -np.inf, 0.0, -1, False, np.nan), walks
        proposed = Place(data.links.seen, theta_new, theta, data.others, e.centre, data.fixed, data.arrays)
        at = GroupPlace(proposed, data.places, 0)
        asked = Question(at, n_total, reach(theta_new, theta, data), offset, float(n_total), noise)
        d = conclude(generators[ROWS], data.row_state, data.looks, asked)
        if d.accepted:
            _keep(phi_new, there, state)
        outcome = Outcome(
            theta_new if d.accepted else theta, d.status, d.accepted, d.n_rows, d.n_stages, d.log_ratio,
            d.log_ratio_sd, d.row, d.full_data, d.threshold,
        )  # fmt: skip
        return outcome, walks

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
    state.log_det[0] = conditional.log_det
