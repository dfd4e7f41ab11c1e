"""The carried move: φ′ is proposed while every z_g = Σ_g(φ)^{-1/2}(u_g − m_g(φ)) stays; one test decides on all rows.

The map (φ, u) → (φ′, u′) at given z has the Jacobian Π|Σ_g(φ′)|^{1/2}/|Σ_g(φ)|^{1/2}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_austerity.acceptance import BAD_PRIOR, DECIDED
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_conditional import Condition, OnSurrogate, whiten
from pymc_austerity.groups.group_expansion import grouped_sum
from pymc_austerity.groups.group_parts import GroupParts, build_decide_on_all, conditional_of
from pymc_austerity.groups.shared_move import propose_shared, share_on_surrogate
from pymc_austerity.groups.surrogate_move import build_normal_given, build_slice, build_surrogate_move, no_step
from pymc_austerity.kernel import DECIDE, PROPOSE, Outcome
from pymc_austerity.likelihood import KnownSum
from pymc_austerity.likelihood.linked_functions import log_prior_at

#: ``carried(theta, data, state, generators)``: the `Outcome`, and whether φ′ was proposed about the centre.
CarriedMove = Callable[..., tuple[Outcome, bool]]


def build_carried_move(
    parts: GroupParts, build_move: Callable[..., Callable[..., OnSurrogate]] = build_surrogate_move
) -> CarriedMove:
    """Compile the carried move."""
    surrogate = _surrogate_of(parts.surrogate)
    given = build_normal_given(surrogate, parts.sums) if parts.normal else no_step
    move = build_move(build_slice(surrogate), given)
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
