"""Several draws of several transitions each in one compiled call: what Python does around a call is done once."""

from __future__ import annotations

import numpy as np
from numba import njit

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.compile_cache import built_once, cached
from pymc_austerity.kernel.transition import RepeatedTransition, Transition

#: The name of the statistic that says how many transitions made a draw.
TRANSITIONS = "n_transitions"
#: Numbers of a draw: what an `Outcome` holds beside θ, and the logarithm of the proposal's scale.
_NUMBERS = 10


@built_once
def build_repeated(transition: Transition) -> RepeatedTransition:
    """Compile ``repeated(n_draws, n_transitions, ...)``: each transition from where the one before it ended.

    Parameters
    ----------
    transition : Transition

    Returns
    -------
    RepeatedTransition
        Uses the generators as so many calls of the transition would, and comes to the same points.
    """

    @njit
    def repeated(  # type: ignore[no-untyped-def]
        n_draws,
        n_transitions,
        links,
        theta,
        others,
        fixed,
        arrays,
        row_state,
        state,
        looks,
        temperature,
        generators,
        bound_constants,
        expansion,
    ):
        thetas, numbers = np.empty((n_draws, theta.size)), np.empty((n_draws, _NUMBERS))
        n_made, m, n_accepted, n_rows, n_stages, going = 0, 0, 0, 0, 0, True
        while going:  # the model's code is compiled once for each call
            outcome = transition(
                links, theta, others, fixed, arrays, row_state, state, looks, temperature, generators,
                bound_constants, expansion,
            )  # fmt: skip
            theta, m = outcome[0], m + 1
            n_accepted, n_rows, n_stages = n_accepted + int(outcome[2]), n_rows + outcome[3], n_stages + outcome[4]
            going = outcome[1] == DECIDED
            if m == n_transitions or not going:
                thetas[n_made] = theta
                found = numbers[n_made]
                found[0], found[1], found[2], found[3] = outcome[1], n_accepted / m, n_rows, n_stages
                found[4], found[5], found[6], found[7], found[8] = outcome[5:]
                found[9] = state.log_scale[0]
                n_made, m, n_accepted, n_rows, n_stages = n_made + 1, 0, 0, 0, 0
                going = going and n_made < n_draws
        return thetas[:n_made], numbers[:n_made]

    return cached(repeated)
