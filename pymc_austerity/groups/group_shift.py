"""The move that reads no row: effects of a factor against a coefficient, or against those of another factor.

θ′ = θ + δ d along the directions of `find_shifts`: a translation, whose Jacobian is one.  The prior decides.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.along_line import MoveAlong
from pymc_austerity.groups.group_parts import GroupData
from pymc_austerity.kernel import PROPOSE

#: Shifts in a draw: of more, some at random.
MOST_SHIFTS = 8


class Shift(Protocol):
    """Shifts of a model, compiled."""

    def __call__(self, theta: np.ndarray, data: GroupData, generators: Any) -> tuple[np.ndarray, int]:
        """Return θ and how many were accepted."""
        ...


@built_once
def build_shift(move: MoveAlong) -> Shift:
    """Compile the shifts."""

    @njit
    def shift(theta, data, generators):  # type: ignore[no-untyped-def]
        shifts, n_accepted = data.shifts, 0
        for i in range(min(len(shifts), MOST_SHIFTS)):
            s = i if len(shifts) <= MOST_SHIFTS else integer_below(generators[PROPOSE], len(shifts))
            theta, moved = move(theta, shifts[s], 1.0, data, generators)
            n_accepted += moved
        return theta, n_accepted

    return shift
