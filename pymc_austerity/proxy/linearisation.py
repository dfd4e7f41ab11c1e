"""Statistical linearisation: the quadratic that agrees with the log-likelihood on average over the posterior.

At the mode a quadratic matches the likelihood in one point, and the surrogate inherits what the likelihood is there:
the spread of many coefficients makes every scale of an error look too small, and a skewed posterior has its mean
elsewhere.  Averaged over a normal q, the gradient and Hessian of the log-likelihood are those of the quadratic that is
nearest to it under q (statistical linearisation).  Only proposals read it; no sum that a test uses does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg

from pymc_austerity.cholesky import is_positive_definite
from pymc_austerity.proxy.full_pass import FullPass, Sums
from pymc_austerity.proxy.linear_maps import WIDE, LinearMap, compressed
from pymc_austerity.proxy.scaling import Scaling
from pymc_austerity.rows import Table

#: Rows that the averages may read in all, and the squared deviations, over parameters and draws, that are enough.
_ROWS_READ, _DEVIATIONS = 200_000, 1_000
#: Points at which the log-likelihood is lower than at ψ̂ by more than this and the number of parameters are none of the
#: posterior: the mirror image of a tail, where a likelihood that grows exponentially would outweigh all other points.
FALL = 50.0
#: An eigenvalue of this share of the largest is zero: parameters of which some row says nothing.
_ROUNDING = 1e-10


class Linearisation(NamedTuple):
    """A quadratic in what the rows read of ψ = (θ, others), concave or held by the prior."""

    centre: np.ndarray  # shape (D + O,)
    coordinates: np.ndarray  # shape (E,)
    gradient: np.ndarray  # shape (E,)
    hessian: LinearMap  # E by E


def linearise(
    coordinates: np.ndarray,
    psi: np.ndarray,
    sums: Sums,
    curvature_of_prior: Callable[[], np.ndarray] | None = None,
    temperature: float = 1.0,
    scaling: Scaling | None = None,
) -> Linearisation:
    """Return the expansion at ψ̂, such that the surrogate does not grow without bound.

    `curvature_of_prior` returns the Hessian of everything that is not expanded, along `coordinates`.  Where it holds
    the directions in which the rows curve upwards (one part of the rows is expanded, the other is in the prior) the
    expansion stays as it is: made concave by itself, it would be far too narrow beside the other.  Eigenvalues are
    compared in the coordinates of `scaling`.
    """
    scaling = Scaling() if scaling is None else scaling
    hessian = sums.hessian
    if hessian.shape[0] > WIDE and _is_concave(scaling.of_hessian(hessian)):
        return Linearisation(psi, coordinates, sums.gradient, compressed(hessian))
    values, vectors = linalg.eigh(scaling.of_hessian(hessian))
    if values[-1] > _ROUNDING * np.abs(values).max() and not _held(hessian / temperature, curvature_of_prior, scaling):
        hessian = np.ascontiguousarray(scaling.to_hessian((vectors * np.minimum(values, 0.0)) @ vectors.T))
    return Linearisation(psi, coordinates, sums.gradient, compressed(hessian))


def _is_concave(hessian: np.ndarray) -> bool:
    """Whether no eigenvalue is above rounding, as far as a Cholesky factor can tell."""
    rounding = _ROUNDING * np.abs(np.diag(hessian)).max()
    return is_positive_definite(rounding * np.eye(len(hessian)) - hessian)


def _held(hessian: np.ndarray, curvature_of_prior: Callable[[], np.ndarray] | None, scaling: Scaling) -> bool:
    if curvature_of_prior is None:
        return False
    values = linalg.eigvalsh(scaling.of_hessian(hessian + curvature_of_prior()))
    return bool(values[-1] < -_ROUNDING * np.abs(values).max())


def average(
    full_pass: FullPass,
    sums: Sums,
    draws: np.ndarray,
    psi: np.ndarray,
    fixed: Sequence[np.ndarray],
    rows: Table,
    part: Table,
) -> Sums:
    """Return gradient and Hessian of the quadratic about ψ̂ that has those of the log-likelihood on average over draws.

    Of very many rows a part says how much the averages differ from the expansion, which is that of all rows: a control
    variate, so that what the part adds of noise is small beside what it mends.  `sums` are the derivatives at ψ̂, which
    stand in where no draw and its mirror image are points of the posterior; `draws` are of θ, of shape (k, D).
    """
    scale = len(rows) / len(part)
    at_centre = sums if part is rows else full_pass(psi, fixed, part)
    c, d = full_pass.coordinates, draws.shape[1]
    mean = draws.mean(axis=0)
    n_pairs = min(_ROWS_READ // (2 * len(part)), -(-_DEVIATIONS // max(1, c.size)), len(draws))
    lowest = at_centre.value - (FALL + c.size) / scale
    found = []
    for draw in draws[np.linspace(0, len(draws) - 1, n_pairs).astype(int)]:
        # Both sides of the mean, so that what is odd in the deviation cancels.
        pair = [full_pass(np.append(theta, psi[d:]), fixed, part) for theta in (draw, 2 * mean - draw)]
        if all(np.isfinite(v).all() for side in pair for v in side) and min(side.value for side in pair) > lowest:
            found += pair
    if not found:
        return sums
    total = sum(found[1:], start=found[0]).scaled(1 / len(found))
    shift = (np.append(mean, psi[d:]) - psi)[c]
    if part is not rows:
        odd = at_centre.hessian @ shift
        gradient = sums.gradient + sums.hessian @ shift + scale * (total.gradient - at_centre.gradient - odd)
        total = Sums(sums.value, gradient, sums.hessian + scale * (total.hessian - at_centre.hessian))
    return total._replace(gradient=total.gradient - total.hessian @ shift)
