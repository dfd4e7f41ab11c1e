"""The log-likelihood of chosen rows at all draws of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from pymc.model import Model
from pymc.util import RandomGenerator, get_random_generator

from pymc_austerity.argument_kinds import are_numbers, is_whole, short
from pymc_austerity.blocks import Blocks
from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.diagnostics.results import group
from pymc_austerity.prediction.rows_of_run import ROW, read_rows_of_run
from pymc_austerity.user_input import check_seed, model_of, takes


@takes(data=Blocks)
def log_likelihood(
    idata: SamplingResult,
    model: Model | None = None,
    *,
    rows: Any,
    data: Blocks | None = None,
    observed: str | Sequence[str] | None = None,
    random_seed: RandomGenerator = None,
    progressbar: bool = True,
) -> xr.Dataset:
    """Return the log-likelihood of chosen rows at all draws, as a group for ArviZ.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned, with any step: the draws of all free variables are needed.
    model : pymc.Model, optional
        The model that was sampled; that of the context by default.
    rows : int, slice or array_like of int
        How many rows are drawn at random without replacement, all where there are no more; or which rows, by number.
    data : Blocks, optional
        The rows of a run with ``data=``.  They are read in two passes.
    observed : str or sequence of str, optional
        Names of the observed variables or potentials whose rows are meant, as for the steps; by default all that split
        into rows and have more than 300, or are the longest.  Rows of variables of different length are numbered one
        variable after the other.
    random_seed : int or Generator, optional
        For drawing rows.
    progressbar : bool, default True
        Whether what takes more than a moment shows a bar.

    Returns
    -------
    xarray.Dataset
        One variable, with the name of the observed variable (of several, their names joined by ``+``), and dimensions
        ``chain``, ``draw`` and ``row``, whose coordinate is the number of the row.  What several outcomes of a row say
        is added up.

    Raises
    ------
    NotRowWiseError
        For a likelihood that does not split into rows.
    TypeError, ValueError
        For draws of another model or of other data, draws that were not kept, and rows that there are not.

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
    ...     found = pma.log_likelihood(idata, rows=50, random_seed=1, progressbar=False)
    >>> dict(found.sizes)
    {'chain': 2, 'draw': 100, 'row': 50}
    """
    model = model_of(model, "log_likelihood")
    check_seed(random_seed, "log_likelihood", "random_seed")
    run = read_rows_of_run(idata, model, data, observed, progressbar)
    numbers = chosen_rows(rows, len(run.table), random_seed, "log_likelihood")
    values = run.at_numbers(numbers, progressbar, "Log-likelihood")
    draws = group(idata, "posterior")
    by_chain = values.reshape(draws.sizes["chain"], draws.sizes["draw"], -1)
    coords = {"chain": draws["chain"], "draw": draws["draw"], ROW: numbers}
    return xr.Dataset({"+".join(run.names): (("chain", "draw", ROW), by_chain)}, coords=coords)


def chosen_rows(rows: Any, n_rows: int, random_seed: RandomGenerator, caller: str) -> np.ndarray:
    """Return the numbers of rows: so many at random without replacement, all where there are no more, or these."""
    if isinstance(rows, slice):
        numbers = np.arange(n_rows)[rows]
    elif is_whole(rows, 1):
        rng = get_random_generator(random_seed, copy=False)
        numbers = np.sort(rng.choice(n_rows, min(int(rows), n_rows), replace=False, shuffle=False))
    elif are_numbers(rows) and np.ndim(rows) == 1 and np.asarray(rows).dtype.kind in "iu":
        numbers = np.asarray(rows, np.int64)
    else:
        raise TypeError(
            f"{caller}: rows={short(rows)} must be a whole number, of rows to draw at random, a slice, or an array of "
            "the numbers of rows."
        )
    if not len(numbers):
        raise ValueError(f"{caller}: rows={short(rows)} leaves none of {n_rows:,} rows.")
    if (wrong := numbers[(numbers < 0) | (numbers >= n_rows)]).size:
        raise ValueError(f"{caller}: rows= has {wrong[0]}, and rows have the numbers from 0 to {n_rows - 1}.")
    return numbers
