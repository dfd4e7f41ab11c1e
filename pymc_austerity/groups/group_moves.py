"""One draw of groups and of what they share, compiled: a carried move, a refresh of each factor, moves without rows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.along_line import build_move_along
from pymc_austerity.groups.bounded_refresh import build_bounded_refresh
from pymc_austerity.groups.carried_move import CarriedMove, build_carried_move
from pymc_austerity.groups.group_given import MoveGiven, build_move_given
from pymc_austerity.groups.group_parts import GroupData, GroupParts, GroupState, RefreshOutcome
from pymc_austerity.groups.group_refresh import Refresh, build_refresh
from pymc_austerity.groups.group_shift import Shift, build_shift
from pymc_austerity.groups.tied_move import TiedMove, build_tied_move


class GroupTransition(Protocol):
    """One draw of groups and of what they share, compiled."""

    def __call__(
        self, theta: np.ndarray, data: GroupData, state: GroupState, looks_of_large: Any, generators: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], bool]:
        """Return the fields of the `Outcome` of the carried move and those of a `RefreshOutcome`, as plain tuples.

        And whether φ′ was proposed about the centre.
        """
        ...


def build_group_transition(parts: GroupParts) -> GroupTransition:
    """Compile a carried move, one of tied groups, a refresh of each factor, and the moves that the prior decides."""
    carried, move = build_carried_move(parts), build_move_along(parts.density.log_prior)
    refresh = build_bounded_refresh(parts) if parts.bounded else build_refresh(parts)
    return _composed(carried, build_tied_move(parts), refresh, build_move_given(move), build_shift(move))


@built_once
def _composed(
    carried: CarriedMove, tied: TiedMove, refresh: Refresh, given: MoveGiven, shift: Shift
) -> GroupTransition:

    @njit
    def transition(theta, data, state, looks_of_large, generators):  # type: ignore[no-untyped-def]
        first, about_centre = carried(theta, data, state, generators)
        if first.status != DECIDED:
            return first[:], RefreshOutcome(theta, DECIDED, -1, 0, 0, 0, 0, 0)[:], about_centre
        # All factors given one φ, before a shift changes it: what belongs to φ is worked out once a draw.
        second = tied(first.theta, data, state, generators)
        for f in range(state.next.size):
            if second.status == DECIDED and data.n_refreshed[f] > 0:
                then = refresh(second.theta, f, data, state, looks_of_large, generators)
                second = RefreshOutcome(
                    then.theta, then.status, then.row, second.n_groups + then.n_groups,
                    second.n_accepted + then.n_accepted, second.n_rows + then.n_rows,
                    second.n_stages + then.n_stages, 0,
                )  # fmt: skip
        theta_new, n_shifted = second.theta, 0
        if second.status == DECIDED:
            theta_new, n_shifted = shift(given(theta_new, data, state, generators), data, generators)
        second = RefreshOutcome(
            theta_new, second.status, second.row, second.n_groups, second.n_accepted, second.n_rows, second.n_stages,
            n_shifted,
        )  # fmt: skip
        return first[:], second[:], about_centre

    return transition
