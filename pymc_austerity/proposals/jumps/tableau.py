"""The normal approximation of a full model, of every sub-model by sweeps, and the odds of including a coefficient.

Let the log posterior of the full model be about −½ eᵀA e + bᵀe.  The sub-model of the parameters g sets the others to
zero: its law is N(m, A_gg⁻¹) with m = A_gg⁻¹b_g.  Swept on g, the matrix (A b; bᵀ 0) becomes

    −A_gg⁻¹         A_gg⁻¹A_ge               m
    A_eg A_gg⁻¹     A_ee − A_eg A_gg⁻¹A_ge   b_e − A_eg m

and one more sweep includes or excludes a parameter (Goodnight 1979).
"""

from __future__ import annotations

import numpy as np

from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.proposals.jumps.sub_models import SurrogateJumpState

#: Odds at which a flip counts as hopeless (or as sure): it is still tried now and then.
_MOST_LOG_ODDS = 8.0


@njit
def sweep(tableau: np.ndarray, p: int, direction: float) -> None:
    """Include parameter `p` (direction 1) or exclude it (−1), in place."""
    pivot = tableau[p, p]
    column = tableau[:, p].copy()
    for i in range(column.size):
        factor = column[i] / pivot
        for j in range(column.size):
            tableau[i, j] -= factor * column[j]
    for i in range(column.size):
        tableau[i, p] = tableau[p, i] = direction * column[i] / pivot
    tableau[p, p] = -1.0 / pivot


@njit
def swept_tableau(precision: np.ndarray, linear: np.ndarray, included: np.ndarray) -> np.ndarray:
    """Return the tableau of A = `precision` and b = `linear`, swept on the parameters that are included."""
    size = linear.size
    tableau = np.zeros((size + 1, size + 1))
    for i in range(size):  # loops: of whole arrays numba would compile the words of an error too
        tableau[i, size] = tableau[size, i] = linear[i]
        for j in range(size):
            tableau[i, j] = precision[i, j]
    for p in range(size):
        if included[p]:
            sweep(tableau, p, 1.0)
    return tableau


@njit
def conditional(tableau: np.ndarray, p: int) -> tuple[float, float]:
    """Return mean and precision of an excluded parameter in the model that includes it with those included now."""
    precision = tableau[p, p]
    return tableau[p, -1] / precision, precision


@njit
def log_evidence_gain(tableau: np.ndarray, p: int, included: bool, prior: tuple[float, float]) -> float:
    """Return the log Bayes factor for `p` in the model, given the others included, under a normal prior.

    `prior`: mean and precision of the prior of `p`, which are part of A and b.
    """
    if included:
        precision, mean = -1.0 / tableau[p, p], tableau[p, -1]
    else:
        mean, precision = conditional(tableau, p)
    loc, prior_precision = prior
    return 0.5 * (np.log(prior_precision / precision) + mean * mean * precision - prior_precision * loc * loc)


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
