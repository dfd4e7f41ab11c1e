"""The move of what only the prior reads, given the effects: means and scales of effects, coefficients of their means.

With the groups as they are no row changes, so the prior decides.  The carried move is quick where groups say little of
their effects, this one where they say much; a chain that makes both is quick at either end (interweaving; Yu and Meng,
Journal of Computational and Graphical Statistics 20, 2011).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.along_line import MoveAlong
from pymc_austerity.groups.group_parts import GroupData, GroupState
from pymc_austerity.kernel import PROPOSE

#: Parameters that are moved in a draw: of more, some at random.
_MOST = 4


class MoveGiven(Protocol):
    """Moves of parameters that no row reads, compiled."""

    def __call__(self, theta: np.ndarray, data: GroupData, state: GroupState, generators: Any) -> np.ndarray:
        """Return θ."""
        ...


@built_once
def build_move_given(move: MoveAlong) -> MoveGiven:
    """Compile moves along single parameters."""

    @njit
    def given(theta, data, state, generators):  # type: ignore[no-untyped-def]
        shared, unread, factor = data.expansion.shared, data.unread, state.shared.factor
        for i in range(min(unread.size, _MOST)):
            p = unread[i if unread.size <= _MOST else integer_below(generators[PROPOSE], unread.size)]
            direction = np.zeros(theta.size)
            direction[shared[p]] = 1.0
            square = 0.0
            for j in range(p + 1):
                square += factor[p, j] ** 2
            theta, _ = move(theta, direction, np.sqrt(square), data, generators)
        return theta

    return given
