"""Posterior predictive draws of chosen rows, from a copy of the model that holds these rows alone."""

from __future__ import annotations

from typing import Any

import pymc as pm
import xarray as xr
from pymc.model import Model
from pymc.util import RandomGenerator, get_random_generator

from pymc_austerity.compat import as_sampling_result
from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.diagnostics.results import group
from pymc_austerity.diagnostics.same_data import check_draws_of
from pymc_austerity.paths.subset_model import observed_lengths, subset_model
from pymc_austerity.prediction.rows_of_run import ROW, chosen_rows
from pymc_austerity.user_input import check_seed, model_of, takes


@takes()
def posterior_predictive(
    idata: SamplingResult,
    model: Model | None = None,
    *,
    rows: Any,
    observed: str | None = None,
    random_seed: RandomGenerator = None,
    progressbar: bool = True,
) -> SamplingResult:
    """Draw new outcomes of chosen rows from the posterior predictive distribution.

    The model is copied with these rows in place of all, and ``pm.sample_posterior_predictive`` draws from the copy:
    memory is that of the chosen rows.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned, with any step.
    model : pymc.Model, optional
        The model that was sampled; that of the context by default.
    rows : int, slice or array_like of int
        How many rows are drawn at random without replacement, all where there are no more; or which rows, by number.
        The same seed draws the same rows as in `log_likelihood`.
    observed : str, optional
        Of observed variables of different length, the one whose rows are meant.
    random_seed : int or Generator, optional
        For drawing rows, and for the outcomes.
    progressbar : bool, default True
        Whether what takes more than a moment shows a bar.

    Returns
    -------
    InferenceData or DataTree
        With groups ``posterior_predictive`` and ``observed_data`` of the chosen rows, the axis of which is ``row`` with
        their numbers as coordinate.

    Raises
    ------
    TypeError, ValueError
        For draws of another model or of other data, rows that there are not, and models in which it is not clear which
        axis of the data has the rows, or that have a parameter for each row.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     slope = pm.Normal("slope")
    ...     y = pm.Normal("y", slope * np.linspace(0, 1, 5_000), 1, observed=np.zeros(5_000))
    ...     idata = pm.sample(
    ...         100, tune=100, chains=2, cores=1, step=pma.MHSS(), random_seed=1, progressbar=False,
    ...         compute_convergence_checks=False,
    ...     )
    ...     found = pma.posterior_predictive(idata, rows=slice(0, 20), random_seed=1, progressbar=False)
    >>> dict(found["posterior_predictive"]["y"].sizes)
    {'chain': 2, 'draw': 100, 'row': 20}
    """
    model = model_of(model, "posterior_predictive")
    check_seed(random_seed, "posterior_predictive", "random_seed")
    if not group(idata, "posterior").sizes:
        raise ValueError("idata: it has no posterior group, so there are no draws. Pass what pm.sample returned.")
    check_draws_of(model, idata)
    lengths = observed_lengths(model)
    if observed is not None and observed not in lengths:
        raise ValueError(f"posterior_predictive: observed={observed!r} must be one of {list(lengths)}.")
    if observed is None and len(set(lengths.values())) > 1:
        raise ValueError(
            f"posterior_predictive: the observed variables differ in length, {lengths}. Say in observed= which of them "
            "is meant."
        )
    n_rows = None if observed is None else lengths[observed]
    subset = subset_model(model, n_rows)
    numbers = chosen_rows(rows, subset.n_rows, random_seed, "posterior_predictive")
    subset.put(subset.take(numbers))
    same = [name for name, length in lengths.items() if length == subset.n_rows]
    names = same if observed is None else [observed]
    seed = get_random_generator(random_seed, copy=False).integers(2**30)
    with subset.model:
        drawn = pm.sample_posterior_predictive(idata, var_names=names, random_seed=int(seed), progressbar=progressbar)
    groups = {}
    for name, axis in (("posterior_predictive", 2), ("observed_data", 0)):
        found = group(drawn, name)[names]
        variables = {key: _with_rows(array, axis) for key, array in found.data_vars.items()}
        groups[name] = xr.Dataset(variables).assign_coords({ROW: numbers})
    return as_sampling_result(groups)


def _with_rows(array: xr.DataArray, axis: int) -> xr.DataArray:
    """Return an array with its axis of rows named so."""
    dim = array.dims[axis]
    return array.drop_vars([dim], errors="ignore").rename({dim: ROW})
