"""A slice step along a line: stepping out and shrinking (Neal, Annals of Statistics 31, 2003)."""

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


@built_once
def build_slice(value_at: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``along(rng, here, direction, *context)``, which returns a point of the slice.

    Points are what ``value_at(phi, *context)`` returns, with fields `phi` and `value`.  The direction is as long as the
    slice is likely to be wide.
    """

    @njit
    def moved(phi, step, direction):  # type: ignore[no-untyped-def]
        there = np.empty(phi.size)
        for p in range(phi.size):
            there[p] = phi[p] + step * direction[p]
        return there

    @njit
    def along(rng, here, direction, z, data):  # type: ignore[no-untyped-def]
        level = here.value - rng.standard_exponential()
        low = -rng.random()
        high = low + 1.0
        down = int(_LONGEST * rng.random())
        up = _LONGEST - 1 - down
        while down > 0 and value_at(moved(here.phi, low, direction), z, data).value > level:
            low, down = low - 1.0, down - 1
        while up > 0 and value_at(moved(here.phi, high, direction), z, data).value > level:
            high, up = high + 1.0, up - 1
        for _ in range(_MOST_SHRINKS):
            step = low + (high - low) * rng.random()
            there = value_at(moved(here.phi, step, direction), z, data)
            if there.value > level:
                return there
            if step < 0.0:
                low = step
            else:
                high = step
        return here

    return along
