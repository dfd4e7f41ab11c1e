"""Where a chain starts."""

from __future__ import annotations

import numpy as np

from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel.decider import Decider

#: Proposals in a row that lead to a starting point among sub-models.
_STARTING_PROPOSALS = 20


def draw_start(decider: Decider, rng: np.random.Generator) -> np.ndarray | None:
    """Draw a start further from the centre than a draw would be, so that R-hat can tell chains apart.

    Twice as far in up to ten dimensions.  In more the factor falls with their fourth root: twice as far in 800
    dimensions is sixty standard deviations of the log density away, a place that a proxy knows nothing about and
    that no proposal leads back from.
    """
    if decider.prepared is None:
        return None
    if decider.compiled.effects is not None:  # only the surrogate knows which coefficients to start with
        theta, state, around = decider.parts.theta0, decider.new_state(), decider.surroundings(decider.parts.others0)
        for _ in range(_STARTING_PROPOSALS):
            theta = uninterrupted(decider.move.propose, rng, theta, state, around)[0]
        return theta
    draws = decider.prepared.draws
    mean = draws.mean(axis=0)
    further = np.sqrt(1 + 3 * np.sqrt(10 / max(10, mean.size)))
    return mean + further * (draws[rng.integers(len(draws))] - mean)
