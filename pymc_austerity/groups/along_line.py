"""A move along a line that the prior decides: by the normal law that has the prior's slope and curvature there."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_parts import GroupData
from pymc_austerity.kernel import DECIDE, PROPOSE
from pymc_austerity.likelihood import LinkedLogPrior


class MoveAlong(Protocol):
    """A move along a line, compiled."""

    def __call__(
        self, theta: np.ndarray, direction: np.ndarray, length: float, data: GroupData, generators: Any
    ) -> tuple[np.ndarray, bool]:
        """Return θ + δ direction, or θ, and whether it moved; differences of the prior are taken over the length."""
        ...


# A loop: numba takes a second to compile each of the expressions of arrays that it stands for.
@njit
def _moved(theta, step, direction):  # type: ignore[no-untyped-def]
    """Return θ + δ direction."""
    moved = np.empty(theta.size)
    for i in range(theta.size):
        moved[i] = theta[i] + step * direction[i]
    return moved


@built_once
def build_move_along(log_prior: LinkedLogPrior) -> MoveAlong:
    """Compile a move along a line on which no row changes.

    δ is proposed from the normal law at θ, and the way back from that at θ′: where the prior is normal along the line
    that is the prior itself, and all are accepted.
    """

    @njit
    def normal_along(theta, direction, length, middle, data):  # type: ignore[no-untyped-def]
        """Return the mean and the standard deviation of the prior along a line, from here."""
        above = log_prior(data.links.rows, _moved(theta, length, direction), data.others, data.fixed)
        below = log_prior(data.links.rows, _moved(theta, -length, direction), data.others, data.fixed)
        curvature = (2.0 * middle - above - below) / length**2
        if not curvature > 0.0:
            return 0.0, length
        return (above - below) / (2.0 * length) / curvature, 1.0 / np.sqrt(curvature)

    @njit
    def move(theta, direction, length, data, generators):  # type: ignore[no-untyped-def]
        z, u = generators[PROPOSE].standard_normal(), generators[DECIDE].random()
        for i in range(direction.size):
            if not np.isfinite(direction[i]):
                return theta, False
        here = log_prior(data.links.rows, theta, data.others, data.fixed)
        mean, sd = normal_along(theta, direction, length, here, data)
        step = mean + sd * z
        theta_new = _moved(theta, step, direction)
        there = log_prior(data.links.rows, theta_new, data.others, data.fixed)
        if not np.isfinite(there):
            return theta, False
        mean_back, sd_back = normal_along(theta_new, direction, length, there, data)
        back = (-step - mean_back) / sd_back
        log_ratio = there - here - back * back / 2.0 - np.log(sd_back) + z * z / 2.0 + np.log(sd)
        if np.log1p(-u) < log_ratio:
            return theta_new, True
        return theta, False

    return move
