"""What ArviZ says of draws, as a dataset under 0.x and 1.x alike.

ArviZ is imported when it is first asked: with the figures that it brings it takes a second to load, and the processes
that draw the chains never ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from pymc_austerity.diagnostics.results import as_dataset


def effective_draws(draws: xr.Dataset, **options: Any) -> xr.Dataset:
    """Return the effective sample size of every entry."""
    return _by_arviz("ess", draws, **options)


def standard_errors(draws: xr.Dataset) -> xr.Dataset:
    """Return the Monte Carlo standard error of the mean of every entry."""
    return _by_arviz("mcse", draws)


def r_hats(draws: xr.Dataset) -> xr.Dataset:
    """Return R-hat of every entry: not a number for one that never moved."""
    return _by_arviz("rhat", draws)


def of_entries(statistic: Callable[..., xr.Dataset], values: np.ndarray, **options: Any) -> np.ndarray:
    """Return one of these statistics of values of shape (chains, draws, K), shape (K,)."""
    return statistic(xr.Dataset({"x": (("chain", "draw", "entry"), values)}), **options)["x"].to_numpy()


def _by_arviz(function: str, draws: xr.Dataset, **options: Any) -> xr.Dataset:
    import arviz as az

    with np.errstate(divide="ignore", invalid="ignore"):
        return as_dataset(getattr(az, function)(draws, **options))
