"""The generators of a chain as one list: numba needs eight microseconds to look at a generator, and one for a list."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.typed import List

from pymc_austerity.compile.lean_njit import njit

#: Places in the list.
PROPOSE, DECIDE, ROWS = 0, 1, 2


@njit(cache=True)
def pack_generators(propose: np.random.Generator, decide: np.random.Generator, rows: np.random.Generator) -> Any:
    """Return the three as a list for compiled code; they stay the same generators."""
    packed = List()
    packed.append(propose)
    packed.append(decide)
    packed.append(rows)
    return packed
