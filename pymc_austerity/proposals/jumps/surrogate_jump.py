"""Jumps between sub-models on the surrogate, exact prior × exp(summed proxy), which read no rows.

Many such jumps in a row are reversible for the surrogate together and make one proposal; the test decides on the
remainders alone, as for the other moves on a surrogate (Liu 2001, §9.4).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pymc_austerity.compile.bounded_integers import integer_below
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.likelihood import LinkedLogPrior
from pymc_austerity.likelihood.linked_functions import log_prior_at
from pymc_austerity.proposals.jumps.excluded_law import LinkedExcludedLaw, excluded_law_at
from pymc_austerity.proposals.jumps.model_changes import build_flip, build_membership, build_swap, build_update
from pymc_austerity.proposals.jumps.sub_models import SurrogateJumpState
from pymc_austerity.proposals.jumps.tableau import sweep, swept_tableau
from pymc_austerity.proposals.proposal import Propose


def build_log_surrogate(log_prior: LinkedLogPrior) -> Callable[..., float]:
    """Compile the log density of the surrogate, up to a constant, given the linear term of the summed proxy."""

    @njit
    def log_surrogate(theta, linear, state, surroundings):  # type: ignore[no-untyped-def]
        prior = log_prior(surroundings.links, theta, surroundings.others, surroundings.fixed)
        selected = theta[state.places]
        for p in range(selected.size):
            if state.switches[p] >= 0:
                selected[p] *= theta[state.switches[p]]
        proxy = 0.0
        for p in range(selected.size):
            if selected[p] != 0.0:
                curved = 0.0
                for q in range(selected.size):
                    curved += state.curvature[p, q] * selected[q]
                proxy += (linear[p] - 0.5 * curved) * selected[p]
        return prior + proxy / surroundings.temperature

    return log_surrogate


@njit
def linear_term(state: SurrogateJumpState, others: np.ndarray) -> np.ndarray:
    """Return the linear term of the summed proxy at the present values of the other variables."""
    linear = state.linear.copy()
    for j in range(state.other_places.size):
        shift = others[state.other_places[j]] - state.other_centre[j]
        for p in range(linear.size):
            linear[p] -= state.cross[p, j] * shift
    return linear


# Loops: of whole arrays numba would compile the words of an error too.
@njit
def normal_law(linear: np.ndarray, state: SurrogateJumpState, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Return A and b of the full model at a temperature, see `swept_tableau`."""
    size = linear.size
    precision, pull = np.empty((size, size)), np.empty(size)
    for p in range(size):
        for q in range(size):
            precision[p, q] = state.curvature[p, q] / temperature
        precision[p, p] += state.prior_precision[p]
        pull[p] = linear[p] / temperature + state.prior_precision[p] * state.prior_loc[p]
    return precision, pull


@built_once
def build_surrogate_jump(
    family: int,
    redraw: bool,
    transitions: int,
    log_prior: LinkedLogPrior = log_prior_at,
    excluded_law: LinkedExcludedLaw = excluded_law_at,
) -> Propose:
    """Compile some transitions on the surrogate.

    `family`: of the law from which excluded coefficients are drawn; `redraw`: whether an update draws all excluded
    coefficients anew; `transitions`: at most; how many is drawn uniformly each time.
    """
    membership = build_membership(family, excluded_law)
    flip, swap = build_flip(membership), build_swap(membership)
    update, log_surrogate = build_update(membership, redraw), build_log_surrogate(log_prior)

    @njit
    def propose(rng, theta, state, surroundings):  # type: ignore[no-untyped-def]
        size = state.places.size
        linear = linear_term(state, surroundings.others)
        precision, pull = normal_law(linear, state, surroundings.temperature)
        included = np.empty(size, np.bool_)
        for p in range(size):
            included[p] = state.switches[p] < 0 or theta[state.switches[p]] > 0.5
        tableau = swept_tableau(precision, pull, included)
        start = log_surrogate(theta, linear, state, surroundings)
        here, value = theta.copy(), start
        # How many is drawn without looking at θ; a few alone leave a start where the surrogate is poor.
        for _ in range(1 + integer_below(rng, transitions)):
            new, u = here.copy(), rng.random()
            first, second = -1, -1
            if u < state.kinds[0]:
                ratio, first, second = flip(rng, new, included, tableau, state, surroundings)
            elif u < state.kinds[0] + state.kinds[1]:
                ratio, first, second = swap(rng, new, included, tableau, state, surroundings)
            else:
                ratio = update(rng, new, included, tableau, precision, state, surroundings)
            value_new = log_surrogate(new, linear, state, surroundings)
            if np.log1p(-rng.random()) < value_new - value + ratio:
                here, value = new, value_new
                continue
            for p in (second, first):  # undo what the move did to the model
                if p >= 0 and first != second:
                    sweep(tableau, p, -1.0 if included[p] else 1.0)
                    included[p] = not included[p]
        return here, start - value, 0

    return propose
