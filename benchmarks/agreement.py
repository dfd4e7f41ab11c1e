"""How far a run is from an exact answer: means, standard deviations and quantiles, with Monte Carlo errors."""

from __future__ import annotations

from typing import NamedTuple

import arviz as az
import numpy as np
from scipy import stats


class Four(NamedTuple):
    """Mean, standard deviation and quantiles of 5 and 95 % of all parameters with their errors, shape (4, D)."""

    values: np.ndarray
    errors: np.ndarray


def four_of(draws: np.ndarray) -> Four:
    """Return the four numbers of draws, shape (chains, draws, parameters), with ArviZ's errors."""
    how = [{"method": "mean"}, {"method": "sd"}, *({"method": "quantile", "prob": p} for p in (0.05, 0.95))]
    values = [draws.mean((0, 1)), draws.std((0, 1)), *np.quantile(draws, [0.05, 0.95], axis=(0, 1))]
    return Four(np.array(values), np.array([az.mcse(draws, **one) for one in how], float))


def beyond_chance(found: Four, right: Four, level: float = 0.05) -> tuple[float, float, float]:
    """Return the largest error in right standard deviations, what of it chance does not explain, and the largest mcse.

    Chance is the Monte Carlo error of both runs, for all numbers at once.
    """
    sd = right.values[1]
    error = np.abs(found.values - right.values) / sd
    mcse = np.nan_to_num(np.hypot(found.errors, right.errors) / sd, nan=np.inf)
    shown = error - stats.norm.isf(level / 2 / error.size) * mcse
    return float(error.max()), max(0.0, float(shown.max())), float(mcse.max())
