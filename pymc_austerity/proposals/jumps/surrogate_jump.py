"""Jumps between sub-models on the surrogate, exact prior × exp(summed proxy), which read no rows.

Many such jumps in a row are reversible for the surrogate together and make one proposal; the test decides on the
remainders alone, as for the other moves on a surrogate (Liu 2001, §9.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_austerity.bounded_integers import integer_below
from pymc_austerity.lean_njit import njit
from pymc_austerity.likelihood import LogPrior
from pymc_austerity.proposals.jumps.jump_moves import draw_law, log_law, log_normal
from pymc_austerity.proposals.jumps.signatures import (
    ChangeModel,
    Exclude,
    Include,
    LeaveOut,
    LogLeftOut,
    LogSurrogate,
    UpdateModel,
)
from pymc_austerity.proposals.jumps.sub_models import ExcludedLaw, SurrogateJumpState
from pymc_austerity.proposals.jumps.tableau import conditional, log_evidence_gain, sweep, swept_tableau
from pymc_austerity.proposals.protocol import Propose

#: Odds at which a flip counts as hopeless (or as sure): it is still tried now and then.
_MOST_LOG_ODDS = 8.0
#: Autocorrelation of an update, one of the two at random: independent draws, and a small step where the prior is far
#: from normal.
_RHO = (0.0, 0.9)


class Corrections(NamedTuple):
    """The parts of the moves that a mistake would spoil without being seen; the tests plant mistakes here.

    Attributes
    ----------
    shift : callable
        ``shift(state, tableau, i, j)``: what a unit of the newly included j takes from i.
    flip, swap : callable
        ``flip(state, forward, backward)``: log ratio of the probabilities of choosing the way back and the way there.
    """

    shift: Callable[..., float]
    flip: Callable[..., float]
    swap: Callable[..., float]


@njit
def regression_shift(state: SurrogateJumpState, tableau: np.ndarray, i: int, j: int) -> float:
    """Return (A_gg⁻¹A_gj)_i."""
    return tableau[i, j]


@njit
def choice_ratio(state: SurrogateJumpState, forward: float, backward: float) -> float:
    """Return log P(way back) − log P(way there)."""
    return backward - forward


CORRECT = Corrections(regression_shift, choice_ratio, choice_ratio)


@njit
def log_sum(log_weights: np.ndarray) -> float:
    """Log of the sum of weights."""
    top, total = log_weights.max(), 0.0
    for weight in log_weights:
        total += np.exp(weight - top)
    return top + np.log(total)


@njit
def choose_weighted(rng: np.random.Generator, log_weights: np.ndarray) -> int:
    """Pick an index with probability proportional to exp(log weight)."""
    share, total, last = rng.random(), log_sum(log_weights), 0
    for k in range(log_weights.size):
        if log_weights[k] > -np.inf:
            last = k
            share -= np.exp(log_weights[k] - total)
            if share < 0:
                break
    return last


@njit
def log_share(log_weights: np.ndarray, k: int) -> float:
    """Log probability that `choose_weighted` picks `k`."""
    return log_weights[k] - log_sum(log_weights)


@njit
def cholesky_of(matrix: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of a block of a matrix."""
    lower = np.zeros((own.size, own.size))
    for i in range(own.size):
        for j in range(i + 1):
            total = matrix[own[i], own[j]]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            lower[i, j] = np.sqrt(total) if i == j else total / lower[j, j]
    return lower


@njit
def log_odds(tableau: np.ndarray, included: np.ndarray, state: SurrogateJumpState, p: int) -> float:
    """Log odds of including `p`, given the others that are, in the normal approximation."""
    prior = (state.prior_loc[p], state.prior_precision[p])
    odds = state.prior_log_odds[p] + log_evidence_gain(tableau, p, included[p], prior)
    return odds if np.isfinite(odds) else 0.0


@njit
def flip_weights(tableau: np.ndarray, included: np.ndarray, state: SurrogateJumpState) -> np.ndarray:
    """Log weights of the coefficients to flip: the square root of the odds, which is locally balanced."""
    weights = np.full(included.size, -np.inf)
    k = 0
    for p in range(included.size):
        k += included[p] and state.switches[p] >= 0
    for p in range(included.size):
        if state.switches[p] < 0 or k == state.limits[0 if included[p] else 1]:
            continue
        odds = log_odds(tableau, included, state, p)
        odds = -odds if included[p] else odds
        weights[p] = 0.5 * min(max(odds, -_MOST_LOG_ODDS), _MOST_LOG_ODDS)
    return weights


@njit
def seat_weights(tableau: np.ndarray, included: np.ndarray, state: SurrogateJumpState) -> np.ndarray:
    """Log weights of the excluded coefficients for a seat that has become free: their odds."""
    weights = np.full(included.size, -np.inf)
    for p in range(included.size):
        if state.switches[p] >= 0 and not included[p]:
            weights[p] = log_odds(tableau, included, state, p)
    return weights


class Membership(NamedTuple):
    """How a coefficient comes into a model and leaves it, compiled.

    Attributes
    ----------
    include : Include
    exclude : Exclude
    leave_out : LeaveOut
    log_left_out : LogLeftOut
    """

    include: Include
    exclude: Exclude
    leave_out: LeaveOut
    log_left_out: LogLeftOut


def build_membership(family: int, excluded_law: ExcludedLaw, shift: Callable[..., float]) -> Membership:
    """Compile how a coefficient comes into a model and leaves it."""

    @njit
    def include(rng, theta, included, tableau, state, p):  # type: ignore[no-untyped-def]
        mean, precision = conditional(tableau, p)
        spread = 1 / np.sqrt(precision)
        value = mean + spread * rng.standard_normal()
        for i in range(included.size):
            if included[i]:
                theta[state.places[i]] -= shift(state, tableau, i, p) * value
        theta[state.places[p]], theta[state.switches[p]], included[p] = value, 1.0, True
        sweep(tableau, p, 1.0)
        return log_normal(value, mean, spread)

    @njit
    def exclude(theta, included, tableau, state, p):  # type: ignore[no-untyped-def]
        value = theta[state.places[p]]
        theta[state.switches[p]], included[p] = 0.0, False
        sweep(tableau, p, -1.0)
        for i in range(included.size):
            if included[i]:
                theta[state.places[i]] += regression_shift(state, tableau, i, p) * value
        mean, precision = conditional(tableau, p)
        return log_normal(value, mean, 1 / np.sqrt(precision))

    @njit
    def law_of_excluded(theta, p, state, surroundings):  # type: ignore[no-untyped-def]
        j = 0
        for i in range(p):
            j += state.switches[i] >= 0
        loc, scale, df = excluded_law(theta, surroundings.others, *surroundings.fixed)
        return loc[j], scale[j], df[j]

    @njit
    def leave_out(rng, theta, p, state, surroundings):  # type: ignore[no-untyped-def]
        loc, scale, df = law_of_excluded(theta, p, state, surroundings)
        value = draw_law(rng, family, loc, scale, df)
        theta[state.places[p]] = value
        return log_law(value, family, loc, scale, df)

    @njit
    def log_left_out(theta, p, state, surroundings):  # type: ignore[no-untyped-def]
        loc, scale, df = law_of_excluded(theta, p, state, surroundings)
        return log_law(theta[state.places[p]], family, loc, scale, df)

    return Membership(include, exclude, leave_out, log_left_out)


def build_flip(membership: Membership, flip_ratio: Callable[..., float]) -> ChangeModel:
    """Compile a move that includes or excludes one coefficient and returns log q(θ|θ′) − log q(θ′|θ)."""
    include, exclude, leave_out, log_left_out = membership

    @njit
    def flip(rng, theta, included, tableau, state, surroundings):  # type: ignore[no-untyped-def]
        before = flip_weights(tableau, included, state)
        p = choose_weighted(rng, before)
        if included[p]:
            ratio = exclude(theta, included, tableau, state, p)
            ratio -= leave_out(rng, theta, p, state, surroundings)
        else:
            ratio = log_left_out(theta, p, state, surroundings)
            ratio -= include(rng, theta, included, tableau, state, p)
        after = flip_weights(tableau, included, state)
        return ratio + flip_ratio(state, log_share(before, p), log_share(after, p)), p, -1

    return flip


def build_swap(membership: Membership, swap_ratio: Callable[..., float]) -> ChangeModel:
    """Compile a move that excludes one coefficient and gives its seat to another, or to itself."""
    include, exclude, leave_out, log_left_out = membership

    @njit
    def swap(rng, theta, included, tableau, state, surroundings):  # type: ignore[no-untyped-def]
        candidates = np.flatnonzero(included & (state.switches >= 0))
        if not candidates.size:
            return 0.0, -1, -1
        leaving = candidates[integer_below(rng, candidates.size)]
        old = theta.copy()
        ratio = exclude(theta, included, tableau, state, leaving)
        weights = seat_weights(tableau, included, state)
        entering = choose_weighted(rng, weights)
        ratio -= include(rng, theta, included, tableau, state, entering)
        ratio += swap_ratio(state, weights[entering], weights[leaving])
        if entering != leaving:
            ratio += log_left_out(old, entering, state, surroundings)
            ratio -= leave_out(rng, theta, leaving, state, surroundings)
        return ratio, leaving, entering

    return swap


def build_update(membership: Membership, redraw: bool) -> UpdateModel:
    """Compile a move of all included parameters about the normal law of their model.

    Parameters
    ----------
    membership : Membership
    redraw : bool
        Whether it draws all excluded coefficients anew.
    """
    _, _, leave_out, log_left_out = membership

    @njit
    def update(rng, theta, included, tableau, precision, state, surroundings):  # type: ignore[no-untyped-def]
        ratio = 0.0
        if redraw:
            old = theta.copy()
            for p in range(included.size):
                if not included[p]:
                    ratio += log_left_out(old, p, state, surroundings)
                    ratio -= leave_out(rng, theta, p, state, surroundings)
        own = np.flatnonzero(included)
        lower = cholesky_of(precision, own)
        x = np.empty(own.size)
        for i in range(own.size):
            x[i] = theta[state.places[own[i]]] - tableau[own[i], -1]
        rho = _RHO[integer_below(rng, 2)]
        fresh = np.sqrt(1 - rho * rho)
        new = np.empty(own.size)
        for i in range(own.size):
            y = 0.0
            for j in range(i, own.size):
                y += lower[j, i] * x[j]
            new[i] = rho * y + fresh * rng.standard_normal()
            ratio += 0.5 * (new[i] * new[i] - y * y)
        for i in range(own.size - 1, -1, -1):
            for j in range(i + 1, own.size):
                new[i] -= lower[j, i] * new[j]
            new[i] /= lower[i, i]
            theta[state.places[own[i]]] = tableau[own[i], -1] + new[i]
        return ratio

    return update


def build_log_surrogate(log_prior: LogPrior) -> LogSurrogate:
    """Compile the log density of the surrogate, up to a constant."""

    @njit
    def log_surrogate(theta, linear, state, surroundings):  # type: ignore[no-untyped-def]
        prior = log_prior(theta, surroundings.others, *surroundings.fixed)[0].item()
        effects = theta[state.places]
        for p in range(effects.size):
            if state.switches[p] >= 0:
                effects[p] *= theta[state.switches[p]]
        proxy = 0.0
        for p in range(effects.size):
            if effects[p] != 0.0:
                curved = 0.0
                for q in range(effects.size):
                    curved += state.curvature[p, q] * effects[q]
                proxy += (linear[p] - 0.5 * curved) * effects[p]
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


# By itself, because the data among the surroundings are of other types in other models; and loops, because of whole
# arrays numba would compile the words of an error too.
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


def build_surrogate_jump(
    log_prior: LogPrior,
    family: int,
    excluded_law: ExcludedLaw,
    redraw: bool,
    transitions: int,
    corrections: Corrections = CORRECT,
) -> Propose:
    """Compile some transitions on the surrogate.

    Parameters
    ----------
    log_prior : LogPrior
    family : int
        Of the law from which excluded coefficients are drawn.
    excluded_law : ExcludedLaw
    redraw : bool
        Whether an update draws all excluded coefficients anew.
    transitions : int
        At most; how many is drawn uniformly each time.
    corrections : Corrections
    """
    shift, flip_ratio, swap_ratio = corrections
    membership = build_membership(family, excluded_law, shift)
    flip, swap = build_flip(membership, flip_ratio), build_swap(membership, swap_ratio)
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
