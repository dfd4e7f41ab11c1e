"""The move that reads no row: effects of a factor against an intercept, or against those of another factor.

θ′ = θ + δ d(θ), with d the direction of `Shifts`, along which neither a row changes nor d itself: a translation, whose
Jacobian is one.  The prior decides.  δ is proposed from the normal law that has the prior's slope and curvature along
the line, by differences, with the law at θ′ for the way back: where effects are normal that is the prior itself, and
all are accepted.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_austerity.kernel.generators import DECIDE, PROPOSE
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
    log_prior, gather = density.log_prior, build_gather(ndims)

    @njit
    def normal_along(theta, direction, length, middle, data):  # type: ignore[no-untyped-def]
        """Return the mean and the standard deviation of the prior along a line, from here."""
        above = log_prior(data.links.rows, theta + length * direction, data.others, data.fixed)
        below = log_prior(data.links.rows, theta - length * direction, data.others, data.fixed)
        curvature = (2.0 * middle - above - below) / length**2
        if not curvature > 0.0:
            return 0.0, length
        return (above - below) / (2.0 * length) / curvature, 1.0 / np.sqrt(curvature)

    @njit
    def shift(theta, data, generators):  # type: ignore[no-untyped-def]
        shifts, n_accepted = data.shifts, 0
        for s in range(shifts.length.size):
            row = gather(data.arrays, shifts.row[s : s + 1])
            along = slope(data.links.slope, shifts.up[s], theta, data.others, data.fixed, row)[0]
            against = slope(data.links.slope, shifts.down[s], theta, data.others, data.fixed, row)[0]
            z, u = generators[PROPOSE].standard_normal(), generators[DECIDE].random()
            direction = shifts.up[s] - along / against * shifts.down[s]
            if not np.all(np.isfinite(direction)):
                continue
            here = log_prior(data.links.rows, theta, data.others, data.fixed)
            mean, sd = normal_along(theta, direction, shifts.length[s], here, data)
            step = mean + sd * z
            theta_new = theta + step * direction
            there = log_prior(data.links.rows, theta_new, data.others, data.fixed)
            if not np.isfinite(there):
                continue
            mean_back, sd_back = normal_along(theta_new, direction, shifts.length[s], there, data)
            back = (-step - mean_back) / sd_back
            log_ratio = there - here - back * back / 2.0 - np.log(sd_back) + z * z / 2.0 + np.log(sd)
            if np.log1p(-u) < log_ratio:
                theta = theta_new
                n_accepted += 1
        return theta, n_accepted

    return shift
