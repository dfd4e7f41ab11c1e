"""The error of the acceptance probability that follows from the errors of a sequential test."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pymc_austerity.acceptance.operating_characteristic import OperatingCharacteristic
from pymc_austerity.user_input import takes

_NODE, _WEIGHT = np.polynomial.legendre.leggauss(48)
#: The uniform number is below exp(−40) too rarely to matter.
_DEEP = 40.0


@takes(test=OperatingCharacteristic)
def acceptance_error(
    test: OperatingCharacteristic, log_ratio: ArrayLike, noise_sd: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Return the error of the acceptance probability of proposals, and the share of the rows read for them.

    With u uniform, Δ the log ratio and s its noise, μ_std(u) = (Δ − log u)/s.  Errors at u < P_a reject what should be
    accepted, those at u > P_a accept what should be rejected; the two partly cancel (equation 6):
    Δ_a = ∫_{P_a}^1 E(μ_std(u)) du − ∫_0^{P_a} E(μ_std(u)) du.

    Parameters
    ----------
    test : OperatingCharacteristic
        From `analyse_test`.
    log_ratio : array_like, shape (P,)
        Log acceptance ratios Δ on all rows.
    noise_sd : array_like, shape (P,)
        s = σ_l N/(T √(N − 1)) with σ_l the standard deviation of l_i and T the temperature: the standard error of Δ
        from half of the rows.

    Returns
    -------
    error : numpy.ndarray, shape (P,)
        Probability of acceptance by the test less that on all rows; positive when too much is accepted.
    share : numpy.ndarray, shape (P,)
        Expected rows read, divided by N.

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> test = pma.analyse_test(20_000, epsilon=0.05)
    >>> error, share = pma.acceptance_error(test, log_ratio=[-3.0, 0.0, 3.0], noise_sd=[5.0, 5.0, 5.0])
    >>> error.round(2)
    array([ 0.17, -0.26, -0.13])
    """
    ratio, noise = (np.atleast_1d(np.asarray(a, dtype=float))[:, None] for a in (log_ratio, noise_sd))
    if not (np.isfinite(ratio).all() and np.isfinite(noise).all() and (noise >= 0).all()):
        raise ValueError("acceptance_error: log_ratio= must be finite, noise_sd= finite and not negative.")
    noise = np.maximum(noise, 1e-12)
    least = float(test.looks.shares[0])
    # −log u = s·x − Δ at x = μ_std.  Positive x: accepted on all rows.  Negative x: rejected.
    start = np.maximum(ratio / noise, 0)
    accepted = _integral(test, ratio, noise, start, start + _DEEP / noise, 1.0)
    end = np.maximum(-ratio / noise, 0)
    rejected = _integral(test, ratio, noise, np.maximum(end - _DEEP / noise, 0), end, -1.0)
    return rejected[0] - accepted[0], least + rejected[1] + accepted[1]


def _integral(
    test: OperatingCharacteristic, ratio: np.ndarray, noise: np.ndarray, low: np.ndarray, high: np.ndarray, sign: float
) -> tuple[np.ndarray, np.ndarray]:
    """Integrate E and π̄ − π_1 over u where |μ_std| is between `low` and `high`; further out both are zero."""
    # The functions vary on a scale of one near zero and slower further out, as arcsinh does.
    y_low, y_high = (np.arcsinh(np.minimum(bound, test.reach)) for bound in (low, high))
    y = (y_low + y_high) / 2 + (y_high - y_low) / 2 * _NODE
    x = np.sinh(y)
    du = np.exp(np.minimum(ratio - sign * noise * x, 0)) * noise * np.cosh(y) * _WEIGHT * (y_high - y_low) / 2
    return (du * test.error(x)).sum(axis=1), (du * (test.share(x) - test.looks.shares[0])).sum(axis=1)


@takes()
def total_variation_bound(acceptance_error: float, eta: float) -> float:
    """Return a bound on the distance of the sampled distribution from the posterior (Theorem 1).

    Parameters
    ----------
    acceptance_error : float
        The largest abs(Δ_a) over all pairs (θ, θ′); `OperatingCharacteristic.worst_error` exceeds it.
    eta : float
        Contraction of the exact chain in [0, 1): its distance from the posterior shrinks at least by this factor a
        step, from any start.  Hardly ever known; a chain that needs τ steps to forget has 1 − η of order 1/τ.

    Returns
    -------
    float
        Δ_max/(1 − η), at most 1: total variation distance is never larger.

    Raises
    ------
    ValueError
        For numbers out of range.

    Examples
    --------
    >>> import pymc_austerity as pma
    >>> pma.total_variation_bound(0.001, eta=0.95)
    0.02
    """
    if not 0 <= acceptance_error <= 1:
        raise ValueError(f"acceptance_error={acceptance_error} is a difference of probabilities: between 0 and 1.")
    if not 0 <= eta < 1:
        raise ValueError(
            f"eta={eta} must be at least 0 and below 1. A chain that does not contract has no such bound: an error at "
            "every step can then add up to anything."
        )
    return min(1.0, acceptance_error / (1 - eta))
