"""Which coefficient comes into the model or leaves it: a choice by the odds of including it."""

from __future__ import annotations

import numpy as np

from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.proposals.jumps.sub_models import SurrogateJumpState
from pymc_austerity.proposals.jumps.tableau import log_evidence_gain

#: Odds at which a flip counts as hopeless (or as sure): it is still tried now and then.
_MOST_LOG_ODDS = 8.0


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
