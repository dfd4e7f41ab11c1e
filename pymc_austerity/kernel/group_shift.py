"""The move that reads no row: effects of a factor against an intercept, or against those of another factor.

θ′ = θ + δ d(θ), with d the direction of `Shifts`, along which neither a row changes nor d itself: a translation, whose
Jacobian is one.  The prior decides.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_austerity.kernel.along_line import build_move_along
from pymc_austerity.kernel.group_parts import GroupData
from pymc_austerity.lean_njit import njit
from pymc_austerity.likelihood import LinkedDensity
from pymc_austerity.proxy import SlopeAlong
from pymc_austerity.rows import build_gather


class Shift(Protocol):
    """Every shift of a model once, compiled."""

    def __call__(self, theta: np.ndarray, data: GroupData, generators: Any) -> tuple[np.ndarray, int]:
        """Return θ and how many were accepted."""
        ...


def build_shift(density: LinkedDensity, slope: SlopeAlong, ndims: tuple[int, ...]) -> Shift:
    """Compile the shifts."""
    move, gather = build_move_along(density), build_gather(ndims)

    @njit
    def shift(theta, data, generators):  # type: ignore[no-untyped-def]
        shifts, n_accepted = data.shifts, 0
        for s in range(shifts.length.size):
            row = gather(data.arrays, shifts.row[s : s + 1])
            along = slope(data.links.slope, shifts.up[s], theta, data.others, data.fixed, row)[0]
            against = slope(data.links.slope, shifts.down[s], theta, data.others, data.fixed, row)[0]
            if against == 0.0:  # here and wherever the shift leads: along it no row changes
                continue
            direction = np.empty(theta.size)
            for i in range(theta.size):
                direction[i] = shifts.up[s, i] - along / against * shifts.down[s, i]
            theta, moved = move(theta, direction, shifts.length[s], data, generators)
            n_accepted += moved
        return theta, n_accepted

    return shift
