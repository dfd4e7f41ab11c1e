"""Tuning of random-walk proposals: running moments and the proposal covariance."""

from __future__ import annotations

import numpy as np

from pymc_austerity.compile.cache import njit_on_disk

#: Weight c/(t+c) of a new draw in the running moments: draws of the approach to the mode are forgotten like t^{-c}.
_MEMORY = 3.0
#: Pull of a young covariance estimate towards the isotropic walk before it, in draws per dimension.
_SHRINKAGE = 10.0


@njit_on_disk()
def adapt_moments(mean: np.ndarray, cov: np.ndarray, theta: np.ndarray, t: int) -> None:
    """Update the running mean and covariance of a chain in place with its draw number `t` (from 1)."""
    weight = _MEMORY / (t + _MEMORY)
    d = mean.size
    delta = theta - mean
    for i in range(d):
        mean[i] += weight * delta[i]
        for j in range(d):
            # (1 − w) corrects for the mean having moved, so that cov stays positive semi-definite.
            cov[i, j] = (1 - weight) * (cov[i, j] + weight * delta[i] * delta[j])


@njit_on_disk()
def proposal_factor(cov: np.ndarray, isotropic: np.ndarray, t: int) -> np.ndarray:
    """Return the Cholesky factor of the proposal covariance (2.38²/D)·Σ (Haario, Saksman and Tamminen 2001).

    Σ is the covariance of the `t` draws so far, shrunk towards the standard deviations of the walk that worked before:
    a direction that the chain has not yet moved in would hardly be proposed otherwise, and so never be learnt.
    """
    d = isotropic.size
    keep = t / (t + _SHRINKAGE * d)
    factor = 2.38 / np.sqrt(d)
    shrunk = keep * cov
    for i in range(d):
        shrunk[i, i] += (1 - keep) * (isotropic[i] / factor) ** 2
    try:
        return np.linalg.cholesky(shrunk) * factor
    except Exception:  # of directions whose widths differ by more than rounding allows
        return np.diag(isotropic)
