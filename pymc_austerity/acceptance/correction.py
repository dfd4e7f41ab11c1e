"""The correction distribution of Barker's minibatch test: what a normal variable lacks to be logistic.

C_σ is the distribution with N(0, σ²) ∗ C_σ ≈ standard logistic (Seita, Pan, Chen and Canny 2016, section 4).
None is exact: the quotient of the characteristic functions grows without bound.  The best one on a grid is found
by non-negative least squares.
"""

from functools import lru_cache

import numpy as np
from scipy import optimize, special

#: Beyond ±20 a logistic variable has probability 4e-9; the sum is matched a little further out.
_REACH, _MARGIN = 20.0, 4.0
#: Distance of the grid points in units of σ: a normal distribution function is smooth on this scale.
_SPACING = 0.05
#: Weight of the row that asks the probabilities for a sum of one, far above that of the others.
_SUM_WEIGHT = 1e3


@lru_cache(maxsize=8)
def correction(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Return C_σ for σ between 0 and π/√3: a few dozen increasing values, and the probability of each or a smaller one.

    The paper solves a ridge regression and clips what is negative; weights that are not negative from the start leave
    no such error, and need no penalty.
    """
    x = np.arange(0.0, _REACH, _SPACING * sigma)
    y = np.arange(0.0, _REACH + _MARGIN, _SPACING * sigma)
    # Symmetry halves the problem: weight u_j is shared by x_j and −x_j.
    up, down = (y[:, None] - x) / sigma, (y[:, None] + x) / sigma
    matrix = np.vstack([(special.ndtr(up) + special.ndtr(down)) / 2, np.full((1, x.size), _SUM_WEIGHT)])
    target = np.append(special.expit(y), _SUM_WEIGHT)
    weights, _ = optimize.nnls(matrix, target, maxiter=50 * x.size)
    keep = weights > 0
    x, weights = x[keep], weights[keep] / weights.sum()
    atoms = np.concatenate([-x[::-1], x])
    probabilities = np.concatenate([weights[::-1], weights]) / 2
    cumulative = np.cumsum(probabilities)
    cumulative[-1] = 1.0
    return atoms, cumulative
