"""Where a chain starts."""

from __future__ import annotations

import numpy as np

from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.kernel.decider import Decider

#: Proposals in a row that lead to a starting point among sub-models.
_STARTING_PROPOSALS = 20
#: Times that a start is taken half as far from the centre, and rows that say where the posterior is.
_NEARER, _ROWS = 5, 10_000


def draw_start(decider: Decider, rng: np.random.Generator) -> np.ndarray | None:
    """Draw a start further from the centre than a draw would be, so that R-hat can tell chains apart.

    Twice as far in up to ten dimensions.  In more the factor falls with their fourth root: twice as far in 800
    dimensions is sixty standard deviations of the log density away, a place that a proxy knows nothing about and
    that no proposal leads back from.  Nearer where the log posterior is far lower than at the mode, as in the tails of
    a horseshoe: twice as far in the logarithm of a scale is the square of it.
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
    away = draws[rng.integers(len(draws))] - mean
    for nearer in range(_NEARER):
        start = mean + further / 2**nearer * away
        if _fall(decider, start) < largest_fall(mean.size, further):
            return start
    return decider.prepared.expansion.centre[: mean.size].copy()


def largest_fall(size: int, further: float) -> float:
    """Return how much lower than at the mode the log posterior may be where a chain of that many parameters starts.

    About twenty times what is typical of a normal posterior: less than a heavy tail of a prior makes of it.
    """
    return 50 + 10 * further**2 * size


def _fall(decider: Decider, start: np.ndarray) -> float:
    """Return how much lower than at the mode the log posterior is, or the surrogate where that falls by more.

    What the proxy leaves is estimated from some rows; far out, where it is large, the surrogate says enough.
    """
    assert decider.prepared is not None
    others, stored, counts = decider.parts.others0, len(decider.rows), decider.row_source.counts
    numbers = np.sort(np.random.default_rng(1980).choice(stored, min(_ROWS, stored), replace=False))
    rows = decider.rows.take(numbers).arrays
    mode, around = decider.prepared.expansion.centre[: start.size], decider.surroundings(others)
    at = (others, around.fixed, around.temperature, around.expansion)
    _, offset = uninterrupted(decider.offset_of, around.links, start, mode, 0.0, *at)
    inputs = (decider.expansion[0], *decider.fixed) if decider.density.expands else decider.fixed
    new, old = uninterrupted(decider.density.both_sides, start, mode, others, *inputs, *rows)
    with np.errstate(invalid="ignore"):
        total = ((new - old) * (1.0 if counts is None else counts[numbers])).mean() * stored
        fall = -offset - total / around.temperature
    return float(max(fall, -offset)) if np.isfinite(fall) else np.inf
