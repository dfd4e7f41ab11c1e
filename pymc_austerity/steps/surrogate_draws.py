"""Draws of θ from the surrogate of a step, for what is tried while the step is built."""

from __future__ import annotations

import numpy as np

from pymc_austerity.kernel import Decider

#: Proposals of moves between models, of which the first tenth is dropped.
_PROPOSALS = 100


def draws_of_surrogate(decider: Decider) -> np.ndarray:
    """Return draws of θ, shape (k, D): where coefficients are selected, by moves between models, indicators included.

    The draws of `Prepared` are then of the full model alone.
    """
    assert decider.parts.prepared is not None
    if decider.compiled.selected is None:
        return decider.parts.prepared.draws
    rng, state, draws = np.random.default_rng(0), decider.new_state(), [decider.parts.theta0]
    for _ in range(_PROPOSALS):
        draws.append(decider.propose(draws[-1], decider.parts.others0, state, rng).theta_new)
    return np.array(draws[_PROPOSALS // 10 :])
