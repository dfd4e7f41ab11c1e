"""The move that reads no row: effects of a factor against an intercept, or against those of another factor.

θ′ = θ + δ d(θ), with d the direction of `Shifts`, along which neither a row changes nor d itself: a translation, whose
Jacobian is one.  The prior decides.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.along_line import MoveAlong
from pymc_austerity.groups.group_parts import GroupData
from pymc_austerity.groups.group_pass import SlopeAlong


class Shift(Protocol):
    """Every shift of a model once, compiled."""

    def __call__(self, theta: np.ndarray, data: GroupData, generators: Any) -> tuple[np.ndarray, int]:
        """Return θ and how many were accepted."""
        ...


@built_once
def build_shift(move: MoveAlong, slope: SlopeAlong) -> Shift:
    """Compile the shifts."""

    @njit
    def shift(theta, data, generators):  # type: ignore[no-untyped-def]
        shifts, n_accepted = data.shifts, 0
        for s in range(shifts.length.size):
            row, slope_at = shifts.row[s : s + 1], data.links.slope
            along = slope(slope_at, shifts.up[s], theta, data.others, data.fixed, data.arrays, row)[0]
            against = slope(slope_at, shifts.down[s], theta, data.others, data.fixed, data.arrays, row)[0]
            if against == 0.0:  # here and wherever the shift leads: along it no row changes
                continue
            direction = np.empty(theta.size)
            for i in range(theta.size):
                direction[i] = shifts.up[s, i] - along / against * shifts.down[s, i]
            theta, moved = move(theta, direction, shifts.length[s], data, generators)
            n_accepted += moved
        return theta, n_accepted

    return shift
