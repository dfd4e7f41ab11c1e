"""Whether a chain goes anywhere, in units that do not depend on those of the parameters.

The log density of a posterior of D dimensions varies by about √(D/2) over its own draws.  A chain whose step size has
collapsed accepts nearly everything and keeps its log density; its own standard deviations cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from pymc_austerity.diagnostics.density_on_rows import DensityOnRows
from pymc_austerity.diagnostics.drawn_states import DrawnStates
from pymc_austerity.diagnostics.spot_check import evaluate_pair
from pymc_austerity.diagnostics.verdicts import MOVEMENT
from pymc_austerity.kernel import Decider, Proposed

#: Of three draws, those furthest apart first.
_PAIRS = ((0, 2), (0, 1), (1, 2))


def least_movement(decider: Decider, states: DrawnStates) -> tuple[float, int]:
    """Return `movement` of the chain that goes least far, and the passes that it took for all chains."""
    of = [states.chain == chain for chain in np.unique(states.chain)]
    found = [movement(decider, states.theta[own][[0, own.sum() // 2, -1]], states.others[own][0]) for own in of]
    return min(change for change, _ in found), sum(passes for _, passes in found)


def movement_on_rows(density: DensityOnRows, states: DrawnStates) -> float:
    """Return what `least_movement` does, from a sample of the rows where these are many."""
    found = []
    for chain in np.unique(states.chain):
        own = np.flatnonzero(states.chain == chain)
        some = own[[0, own.size // 2, -1]]
        values = density.differences(states.theta[some], states.others[some[0]])
        if not np.isfinite(values).all():
            return np.inf  # impossible beside the present values of the others: it has moved
        changes = [abs(values[new] - values[old]) / np.sqrt(states.theta.shape[1]) for old, new in _PAIRS]
        found.append(next((change for change in changes if change > max(MOVEMENT)), max(changes)))
    return float(min(found))


def movement(decider: Decider, states: Sequence[np.ndarray], others: np.ndarray) -> tuple[float, int]:
    """Return the largest change of the log posterior between some draws over √D, and the passes that it took.

    The `states` are draws of θ of one chain, far apart; those furthest apart are looked at first, and no more than are
    needed. Where a discrete variable is among them, which may stay where it is, the change is infinite.
    """
    if any(np.dtype(block.dtype).kind != "f" for block in decider.likelihood.blocks):
        return np.inf, 0
    largest, passes = 0.0, 0
    for old, new in sorted(combinations(range(len(states)), 2), key=lambda pair: pair[0] - pair[1]):
        if np.array_equal(states[old], states[new]):
            continue
        pair = evaluate_pair(decider, Proposed(states[new], states[old], others, 0.0))
        if pair is None or not np.isfinite(pair.terms).all():
            return np.inf, passes  # impossible beside the present values of the others: it has moved
        passes += 1
        change = pair.terms.sum() / float(decider.parts.temperature.final) + pair.offset
        largest = max(largest, abs(change) / np.sqrt(len(states[old])))
        if largest > max(MOVEMENT):
            break
    return float(largest), passes
