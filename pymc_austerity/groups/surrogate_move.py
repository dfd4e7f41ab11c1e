"""φ on the surrogate, in coordinates (φ, z): groups go along with their z as they are.

A move that is reversible for π̃(φ, u(φ, z)) Π|Σ_g(φ)|^{1/2}, the surrogate in these coordinates, leaves to the decision
what the expansion leaves of the rows, and nothing else.  The order of its steps is one way or the other at random, so
that all of them together are reversible too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit


@built_once
def build_surrogate_move(along: Callable[..., Any], given: Callable[..., Any]) -> Callable[..., Any]:
    """Compile ``move(rng, here, z, data)``: slice steps, and a step of what is normal given the rest, before or after.

    `along`: from `build_slice`; `given`: from `build_normal_given`, or `no_step`.
    """

    @njit
    def direction_of(rng, phi, steps):  # type: ignore[no-untyped-def]
        """Return an axis, or a direction across all of them."""
        sliced, direction = steps.sliced, np.zeros(phi.size)
        if rng.random() < 0.5:
            s = integer_below(rng, sliced.size)
            direction[sliced[s]] = steps.axes[s]
            return direction
        sphere = rng.standard_normal(sliced.size)
        length = 0.0
        for s in range(sliced.size):
            length += sphere[s] ** 2
        for s in range(sliced.size):
            for t in range(s + 1):
                direction[sliced[s]] += steps.oblique[s, t] * sphere[t] / np.sqrt(length)
        return direction

    @njit
    def move(rng, here, z, data):  # type: ignore[no-untyped-def]
        first = rng.random() < 0.5
        if first:
            here = given(rng, here, z, data)
        for _ in range(data.steps.n_slices):
            here = along(rng, here, direction_of(rng, here.phi, data.steps), z, data)
        return here if first else given(rng, here, z, data)

    return move


@njit
def no_step(rng, here, z, data):  # type: ignore[no-untyped-def]
    """Stay, where nothing is normal given the rest."""
    return here
