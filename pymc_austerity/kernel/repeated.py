"""Several transitions for one draw, in compiled code: what Python does around a transition is done once for all."""

from __future__ import annotations

from numba import njit

from pymc_austerity.acceptance import DECIDED
from pymc_austerity.compile_cache import built_once, cached
from pymc_austerity.kernel.transition import RepeatedTransition, Transition

#: The name of the statistic that says how many transitions made a draw.
TRANSITIONS = "n_transitions"


@built_once
def build_repeated(transition: Transition) -> RepeatedTransition:
    """Compile ``repeated(n, ...)``: `n` transitions, each from where the one before it ended.

    Parameters
    ----------
    transition : Transition

    Returns
    -------
    RepeatedTransition
        Uses the generators as `n` calls of the transition would, and comes to the same point.
    """

    @njit
    def repeated(  # type: ignore[no-untyped-def]
        n,
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
        n_made, n_accepted, n_rows, n_stages, going = 0, 0, 0, 0, True
        while going:  # the model's code is compiled once for each call
            outcome = transition(
                links, theta, others, fixed, arrays, row_state, state, looks, temperature, generators,
                bound_constants, expansion,
            )  # fmt: skip
            theta, status, accepted = outcome[0], outcome[1], outcome[2]
            n_made, n_accepted = n_made + 1, n_accepted + int(accepted)
            n_rows, n_stages = n_rows + outcome[3], n_stages + outcome[4]
            going = status == DECIDED and n_made < n
        share = n_accepted / n_made
        return theta, status, share, n_rows, n_stages, outcome[5], outcome[6], outcome[7], outcome[8], outcome[9]

    return cached(repeated)
