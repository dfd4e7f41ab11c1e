"""The generators of a chain as one list: numba needs eight microseconds to look at a generator, and one for a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.typed import List

from pymc_austerity.compile_cache import cached


@njit(cache=True)
def pack_generators(propose: np.random.Generator, decide: np.random.Generator, rows: np.random.Generator) -> Any:
    """Return the three as a list for compiled code; they stay the same generators."""
    packed = List()
    packed.append(propose)
    packed.append(decide)
    packed.append(rows)
    return packed


def take_packed(transition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a transition of `build_transition` that takes its generators packed, and all its arguments."""

    @njit
    def packed_transition(  # type: ignore[no-untyped-def]
        theta, others, fixed, arrays, row_state, state, looks, temperature, generators, bound_constants, expansion
    ):
        return transition(
            theta, others, fixed, arrays, row_state, state, looks, temperature, generators[0], generators[1],
            generators[2], bound_constants, expansion,
        )  # fmt: skip

    return cached(packed_transition)
