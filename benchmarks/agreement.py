"""How far a run is from an exact answer: shifts of means and ratios of standard deviations, with Monte Carlo errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import arviz as az
import numpy as np
from scipy import stats

from pymc_austerity.diagnostics.results import group


class Moments(NamedTuple):
    """Means and standard deviations of all parameters with their Monte Carlo errors, and the effective draws."""

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    effective: float


def flat(idata: Any, names: Sequence[str]) -> np.ndarray:
    """Return the draws of some variables, shape (chains, draws, parameters)."""
    posterior = group(idata, "posterior")
    return np.concatenate([posterior[n].to_numpy().reshape(*posterior[n].shape[:2], -1) for n in names], axis=2)


def of_draws(draws: np.ndarray) -> Moments:
    """Return the moments of draws, shape (chains, draws, parameters), with ArviZ's errors."""
    errors = (np.asarray(az.mcse(draws, method=method)) for method in ("mean", "sd"))
    return Moments(draws.mean((0, 1)), draws.std((0, 1)), *errors, float(np.min(az.ess(draws))))


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


def rms(values: np.ndarray) -> float:
    """Return the root mean square."""
    return float(np.sqrt((values**2).mean()))


def agreement(ours: Moments, exact: Moments) -> dict[str, float]:
    """Return the differences in exact standard deviations, and the errors of both runs together."""
    shift, ratio = (ours.mean - exact.mean) / exact.sd, ours.sd / exact.sd
    error = np.hypot(ours.mean_error, exact.mean_error) / exact.sd
    sd_error = np.hypot(ours.sd_error, exact.sd_error) / exact.sd
    return {
        "parameters": ours.mean.size,
        "smallest ESS": ours.effective,
        "ESS of the exact": exact.effective,
        "shift, rms": rms(shift),
        "its error, rms": rms(error),
        "largest shift": float(np.abs(shift).max()),
        "most errors": float(np.abs(shift / error).max()),
        "smallest sd ratio": float(ratio.min()),
        "largest sd ratio": float(ratio.max()),
        "its error": rms(sd_error),
        "most of these errors": float(np.abs((ratio - 1) / sd_error).max()),
    }
