"""One draw of groups and of what they share, compiled: a carried move, a refresh of each factor, moves without rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.compile.by_address import compile_apart
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_parts import GroupParts, RefreshOutcome, followed_by, stayed
from pymc_austerity.groups.group_refresh import Refresh, build_refresh
from pymc_austerity.groups.moves_on_all_rows import CarriedMove, TiedMove, build_carried_move, build_tied_move
from pymc_austerity.groups.prior_moves import (
    MoveGiven,
    NestedShift,
    Shift,
    build_move_along,
    build_move_given,
    build_nested_shift,
    build_shift,
)
from pymc_austerity.likelihood.linked_functions import VECTOR, log_prior_at

#: ``transition(theta, data, state, looks_of_large, generators)``: the fields of the `Outcome` of the carried move and
#: those of a `RefreshOutcome`, as plain tuples, and whether φ′ was proposed about the centre.
GroupTransition = Callable[..., tuple[tuple[Any, ...], tuple[Any, ...], bool]]


def build_group_transition(
    parts: GroupParts, data: types.Type, state: types.Type, looks: types.Type, generators: types.Type
) -> GroupTransition:
    """Compile all moves of a draw, for a θ and values of these types."""
    given, move = (data, state, generators), build_move_along(log_prior_at)
    refresh = compile_apart(build_refresh(parts), VECTOR, types.int64, data, state, looks, generators)
    return _composed(
        compile_apart(build_carried_move(parts), VECTOR, *given), compile_apart(build_tied_move(parts), VECTOR, *given),
        refresh, compile_apart(build_move_given(move, log_prior_at), VECTOR, *given),
        build_shift(move), build_nested_shift(),
    )  # fmt: skip


@built_once
def _composed(
    carried: CarriedMove,
    tied: TiedMove,
    refresh: Refresh,
    given: MoveGiven,
    shift: Shift,
    nested: NestedShift,
) -> GroupTransition:

    @njit
    def transition(theta, data, state, looks_of_large, generators):  # type: ignore[no-untyped-def]
        first, about_centre = carried(theta, data, state, generators)
        if first.status != DECIDED:
            return first[:], stayed(theta)[:], about_centre
        # All factors given one φ, before a shift changes it: what belongs to φ is worked out once a draw.
        second = tied(first.theta, data, state, generators)
        for t in range(state.next.size):
            if second.status == DECIDED and data.n_refreshed[t] > 0:
                then = refresh(second.theta, t, data, state, looks_of_large, generators)
                second = followed_by(second, then)
        if second.status == DECIDED:
            theta_new, n_shifted = shift(given(second.theta, data, state, generators), data, generators)
            if data.nested.start.size > 1:
                theta_new = nested(theta_new, data, generators)
            second = followed_by(second, RefreshOutcome(theta_new, DECIDED, second.row, 0, 0, 0, 0, n_shifted))
        return first[:], second[:], about_centre

    return transition
