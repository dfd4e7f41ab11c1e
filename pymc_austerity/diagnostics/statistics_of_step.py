"""Which of the statistics of a run are those of one step, where several steps made it together.

PyMC puts statistics of one name side by side, a column for each step that reports it, and forgets whose they were.
Names such as ``n_rows`` are those of this package's steps alone; ``accepted`` and ``scaling`` are also PyMC's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

from pymc_austerity.diagnostics.results import SamplingResult, group, over_steps
from pymc_austerity.kernel import TUNED


def columns_of_step(idata: SamplingResult, variables: Sequence[str], k: int) -> xr.Dataset:
    """Return the statistics of one step.

    Parameters
    ----------
    idata : InferenceData or DataTree
    variables : sequence of str
        Names of the variables that the step moves.
    k : int
        Its number among those of this package in the run.

    Returns
    -------
    xarray.Dataset
        A statistic that says itself whose it is, or that not all have, with all its columns.
    """
    stats = group(idata, "sample_stats")
    n_ours, n_shared = (over_steps(stats[name]).sizes["step"] for name in ("n_rows", "accepted"))
    shared = k if n_shared == n_ours else _column_that_moves(idata, variables, stats["accepted"])
    found = {}
    for name, values in stats.items():
        columns = over_steps(values)
        column = {n_shared: shared, n_ours: k}.get(columns.sizes["step"])
        known = name != TUNED and column is not None
        found[str(name)] = columns.isel(step=column, drop=True) if known else values
    return xr.Dataset(found)


def _column_that_moves(idata: SamplingResult, variables: Sequence[str], accepted: xr.DataArray) -> int:
    """Return the column of acceptances that says when some variables moved."""
    posterior = group(idata, "posterior")
    moved = np.zeros((accepted.sizes["chain"], accepted.sizes["draw"] - 1), dtype=bool)
    for name in (name for name in variables if name in posterior):
        draws = posterior[name].transpose("chain", "draw", ...).to_numpy()
        moved |= (np.diff(draws, axis=1) != 0).reshape(*moved.shape, -1).any(axis=-1)
    columns = over_steps(accepted).transpose("step", "chain", "draw").to_numpy()
    return int(np.argmax([((column[:, 1:] > 0) == moved).mean() for column in columns]))
