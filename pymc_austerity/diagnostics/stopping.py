"""What the statistics of a run say about its decisions, without another look at the data."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri


def wrong_decisions(
    log_ratio: np.ndarray, log_ratio_sd: np.ndarray, threshold: np.ndarray, acceptance_rate: float
) -> np.ndarray:
    r"""Return the probability that each decision differs from that of all rows.

    When a test stops at an estimate :math:`\Delta^* \sim N(\Delta, s^2)`, the rule by which it stopped carries no
    information about :math:`\Delta` beyond the rows read (likelihood principle), so the probability that :math:`\Delta`
    lies on the other side of the threshold follows from a prior for :math:`\Delta` alone. Between a draw and a proposal
    at stationarity the density of :math:`\Delta` obeys :math:`p(-x) = e^x p(x)`, whose normal member is
    :math:`N(-\tau^2/2, \tau^2)`, with acceptance rate :math:`2\Phi(-\tau/2)`: that rate gives :math:`\tau` (Roberts,
    Gelman and Gilks 1997 have the same law as a limit in many dimensions).
    """
    certain = ~(log_ratio_sd > 0) | ~np.isfinite(log_ratio) | ~np.isfinite(threshold)
    sd = np.where(certain, 1.0, log_ratio_sd)
    estimate, needed = np.where(certain, 0.0, log_ratio), np.where(certain, 0.0, threshold)
    tau = -2 * ndtri(np.clip(acceptance_rate, 1e-3, 0.999) / 2)
    variance = 1 / (1 / tau**2 + 1 / sd**2)
    mean = variance * (-0.5 + estimate / sd**2)
    wrong = ndtr(-np.sign(estimate - needed) * (mean - needed) / np.sqrt(variance))
    return np.where(certain, 0.0, wrong)
