"""Several draws of several transitions each in one compiled call: what Python does around a call is done once."""

from __future__ import annotations

import numpy as np
from numba import njit

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.compile_cache import built_once, cached
from pymc_austerity.kernel.transition import Outcome, RepeatedTransition, Transition

#: The name of the statistic that says how many transitions made a draw.
TRANSITIONS = "n_transitions"
#: Numbers of a draw: the fields of an `Outcome` after θ, in their order, and the logarithm of the proposal's scale.
_NUMBERS = len(Outcome._fields)


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
            last = Outcome(*transition(
                links, theta, others, fixed, arrays, row_state, state, looks, temperature, generators,
                bound_constants, expansion,
            ))  # fmt: skip
            theta, going = last.theta, last.status == DECIDED
            m, n_accepted = m + 1, n_accepted + int(last.accepted)
            n_rows, n_stages = n_rows + last.n_rows, n_stages + last.n_stages
            if m == n_transitions or not going:
                for k in range(theta.size):  # of two arrays numba would compile the words of an error too
                    thetas[n_made, k] = theta[k]
                found = numbers[n_made]
                found[0], found[1], found[2], found[3] = last.status, n_accepted / m, n_rows, n_stages
                found[4], found[5], found[6] = last.log_ratio, last.log_ratio_sd, last.row
                found[7], found[8], found[9] = last.full_data, last.threshold, state.log_scale[0]
                n_made, m, n_accepted, n_rows, n_stages = n_made + 1, 0, 0, 0, 0
                going = going and n_made < n_draws
        return thetas[:n_made], numbers[:n_made]

    return cached(repeated)
