"""The decision of Metropolis and Hastings: log u against the log ratio."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_austerity.acceptance.decision import ACCEPT, REJECT, UNDECIDED
from pymc_austerity.acceptance.moments import Moments
from pymc_austerity.compile.lean_njit import njit


@njit
def draw_log_uniform(rng: np.random.Generator) -> float:
    """Log of a uniform number: the noise of a Metropolis–Hastings test."""
    return np.log1p(-rng.random())  # 1 − [0, 1) is never zero


@njit
def log_uniform_threshold(looks: Any, look: int, moments: Moments, scale: float, noise: float) -> float:
    """Return log u, which the log ratio has to exceed."""
    return noise


@njit
def decide_against_threshold(looks: Any, look: int, moments: Moments, offset: float, scale: float, noise: float) -> int:
    """Compare the mean of l_i with μ0 = (log u − offset) / scale, once it is far enough from it."""
    distance = moments.mean - (noise - offset) / scale
    if moments.n == moments.n_total or abs(distance) > looks.bounds[look] * moments.sd:
        return ACCEPT if distance > 0 else REJECT
    return UNDECIDED


def metropolis_probability(log_ratio: float) -> float:
    """Return min(1, exp(log ratio))."""
    return float(np.exp(min(0.0, log_ratio)))
