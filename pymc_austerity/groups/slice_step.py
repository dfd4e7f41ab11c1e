"""Moves of a point along a line, and the slice step there, which knows of no scale and no tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit

#: Widths that a slice may be long: beyond that it is cut, at random.
_LONGEST = 32
#: Halvings, about, of a slice of any length until nothing is left of it in double precision.
_MOST_SHRINKS = 200


# A loop: numba takes a second to compile each of the expressions of arrays that it stands for.
@njit
def moved(theta, step, direction):  # type: ignore[no-untyped-def]
    """Return θ + δ direction."""
    theta_new = np.empty(theta.size)
    for i in range(theta.size):
        theta_new[i] = theta[i] + step * direction[i]
    return theta_new


@built_once
def build_slice(point_at: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``along(rng, here, direction, given)``: a slice step along a line.

    It returns a point of the slice, and how many times as long as the direction the slice is.  By stepping out and
    shrinking (Neal, Annals of Statistics 31, 2003).  ``point_at(here, step, direction, given)`` is a point on the line,
    whose `value` is its log density.
    """

    @njit
    def along(rng, here, direction, given):  # type: ignore[no-untyped-def]
        level = here.value - rng.standard_exponential()
        low = -rng.random()
        high = low + 1.0
        down = int(_LONGEST * rng.random())
        up = _LONGEST - 1 - down
        while down > 0 and point_at(here, low, direction, given).value > level:
            low, down = low - 1.0, down - 1
        while up > 0 and point_at(here, high, direction, given).value > level:
            high, up = high + 1.0, up - 1
        length = high - low
        for _ in range(_MOST_SHRINKS):
            step = low + (high - low) * rng.random()
            there = point_at(here, step, direction, given)
            if there.value > level:
                return there, length
            if step < 0.0:
                low = step
            else:
                high = step
        return here, length

    return along
