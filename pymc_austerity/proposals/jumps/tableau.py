"""The normal approximation of a full model, and through sweeps that of every sub-model in closed form.

Let the log posterior of the full model be about −½ eᵀA e + bᵀe.  The sub-model of the parameters g sets the others to
zero: its law is N(m, A_gg⁻¹) with m = A_gg⁻¹b_g.  Swept on g, the matrix (A b; bᵀ 0) becomes

    −A_gg⁻¹         A_gg⁻¹A_ge               m
    A_eg A_gg⁻¹     A_ee − A_eg A_gg⁻¹A_ge   b_e − A_eg m

and one more sweep includes or excludes a parameter (Goodnight 1979).
"""

from __future__ import annotations

import numpy as np

from pymc_austerity.compile.lean_njit import njit


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
