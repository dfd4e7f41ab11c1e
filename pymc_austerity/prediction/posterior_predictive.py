"""Posterior predictive draws of chosen rows, or of new ones, from a copy of the model that holds these rows alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from pymc.model import Model
from pymc.pytensorf import compile as compile_draws
from pymc.util import RandomGenerator, get_random_generator
from pytensor.graph.traversal import ancestors

from pymc_austerity.blocks import Blocks
from pymc_austerity.compat import as_sampling_result, replace_parts
from pymc_austerity.compile.graph_compiler import BY_NUMPY
from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.diagnostics.results import group, named_arrays, quantile_name
from pymc_austerity.diagnostics.same_data import check_draws_of
from pymc_austerity.likelihood.derived_model import with_rows_taken
from pymc_austerity.likelihood.long_tables import with_long_tables
from pymc_austerity.paths.subset_model import SubsetModel, observed_lengths, subset_model
from pymc_austerity.prediction.log_likelihood import chosen_rows
from pymc_austerity.prediction.new_rows import NewGroups, NewRows, new_groups, with_new_groups
from pymc_austerity.prediction.rows_of_run import ROW, read_rows_of_run, require_rows
from pymc_austerity.progress import setup_progress
from pymc_austerity.user_input import check_seed, model_of, takes

#: Outcomes that are held at once where they are summed up.
_AT_ONCE = 10_000_000
_CALLER = "posterior_predictive"


@takes(data=Blocks)
def posterior_predictive(
    idata: SamplingResult,
    model: Model | None = None,
    *,
    rows: Any = None,
    new: Any = None,
    quantiles: Sequence[float] | None = None,
    data: Blocks | None = None,
    observed: str | None = None,
    random_seed: RandomGenerator = None,
    progressbar: bool = True,
) -> SamplingResult:
    """Draw outcomes of chosen rows, or of new ones, from the posterior predictive distribution.

    Outcomes are drawn from a copy of the model that holds these rows in place of all: memory is that of the chosen
    rows, or with `quantiles` that of some rows at a time.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned, with any step: the draws of all free variables are needed.
    model : pymc.Model, optional
        The model that was sampled; that of the context by default.
    rows : int, slice or array_like of int, optional
        How many rows are drawn at random without replacement, all where there are no more; or which rows, by number.
        The same seed draws the same rows as in `log_likelihood`, and as there the rows of a table with effects of its
        rows or columns are its entries, one row of the table behind the other.  Of `new` rows all by default;
        otherwise needed.
    new : mapping or data frame, optional
        New rows in place of those of the model, by the names of the ``pm.Data`` that hold the others, as
        ``pm.set_data`` takes them; the model keeps its own.  Outcomes are left out.  Numbers of groups from that of the
        last group of the model on are of groups that it has not seen: at each draw their effects are drawn from their
        prior given all else, the same for all rows of a group.  Where the prior, or what rows read, has data with an
        entry for each group, `new` has them for the new groups.
    quantiles : sequence of float, optional
        Returns mean, standard deviation and these quantiles of each outcome in place of the draws, for any number of
        rows.
    data : Blocks, optional
        The rows of a run with ``data=``, of which `rows` are chosen.  They are read in two passes.
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
        their numbers as coordinate.  Of new rows there is the group ``predictions`` instead.  With `quantiles` the
        variables have a first dimension ``summary`` (``mean``, ``sd``, ``q0.05``) in place of chains and draws.

    Raises
    ------
    TypeError, ValueError
        For draws of another model or of other data, rows that there are not, `rows` of a run with ``data=`` where it is
        not given, and models in which it is not clear which
        axis of the data has the rows, or that have a parameter for each row.  For `new` without all that outcomes are
        drawn from, and new groups whose prior is not one of each by itself, as of random walks and sums of zero.

    Notes
    -----
    A new group is drawn anew in every part of the rows that is summed up at a time, so that quantiles hold for each
    row; what is said of several rows together needs draws.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> shop = np.arange(5_000) % 50
    >>> with pm.Model():
    ...     shift = pm.Normal("shift", 0, pm.HalfNormal("scale"), shape=50)
    ...     y = pm.Normal("y", shift[pm.Data("shop", shop)], 1, observed=np.sin(shop))
    ...     idata = pm.sample(
    ...         100, tune=100, chains=2, cores=1, step=pma.PenaltyMH(), random_seed=1, progressbar=False,
    ...         compute_convergence_checks=False,
    ...     )
    ...     found = pma.posterior_predictive(idata, rows=slice(0, 20), random_seed=1, progressbar=False)
    ...     opened = pma.posterior_predictive(idata, new={"shop": [7, 50, 50]}, random_seed=1, progressbar=False)
    >>> dict(found["posterior_predictive"]["y"].sizes)
    {'chain': 2, 'draw': 100, 'row': 20}
    >>> dict(opened["predictions"]["y"].sizes)
    {'chain': 2, 'draw': 100, 'row': 3}
    """
    model = model_of(model, _CALLER)
    check_seed(random_seed, _CALLER, "random_seed")
    if rows is None and new is None:
        raise TypeError(f"{_CALLER}: say in rows= which rows, or how many, or give new ones in new=.")
    if quantiles is not None and not all(0 < q < 1 for q in quantiles):
        raise ValueError(f"{_CALLER}: quantiles={tuple(quantiles)!r} must lie between 0 and 1.")
    if new is not None and data is not None:
        raise ValueError(f"{_CALLER}: new= and data= both say what the rows are. Leave data= out.")
    require_rows(idata, data if new is None else new)
    check_draws_of(model, idata)
    if new is None:
        model, _ = with_long_tables(model)  # the rows are the entries of a table, as in `log_likelihood`
    lengths = observed_lengths(model)
    if observed is not None and observed not in lengths:
        raise ValueError(f"{_CALLER}: observed={observed!r} must be one of {list(lengths)}.")
    if observed is None and len(set(lengths.values())) > 1:
        raise ValueError(
            f"{_CALLER}: the observed variables differ in length, {lengths}. Say in observed= which of them is meant."
        )
    by_rows = with_rows_taken(model, observed, model.initial_point())
    subset = subset_model(by_rows, None if observed is None else lengths[observed])
    names = [observed] if observed else [name for name, length in lengths.items() if length == subset.n_rows]
    given = None if new is None else NewRows(new, model, subset, names)
    run = None if data is None else read_rows_of_run(idata, model, data, observed, progressbar)
    n_rows = len(run.table) if run is not None else subset.n_rows if given is None else given.n
    numbers = places = chosen_rows(slice(None) if rows is None else rows, n_rows, random_seed, _CALLER)
    if run is not None:  # the chosen rows of the table in place of those of the model
        columns, places = run.columns(numbers), np.arange(len(numbers))
        arrays = (replace(of, values=columns[of.label]) for of in subset.arrays if of.label in columns)
        subset = replace(subset, arrays=tuple(arrays))
    posterior, seed = group(idata, "posterior"), int(get_random_generator(random_seed, copy=False).integers(2**30))
    drawn = _drawn(posterior, model, subset, names, given, places, quantiles, seed, progressbar)
    drawn = drawn.assign_coords({ROW: numbers})
    if given is not None:
        return as_sampling_result({"predictions": drawn})
    subset.put(subset.take(places))
    seen = {name: subset.model.rvs_to_values[subset.model[name]].eval(mode=BY_NUMPY) for name in names}
    observed_data = named_arrays(model, seen, {ROW: numbers}, 1)
    return as_sampling_result({"posterior_predictive": drawn, "observed_data": observed_data})


def _drawn(
    posterior: xr.Dataset,
    model: Model,
    subset: SubsetModel,
    names: Sequence[str],
    new: NewRows | None,
    numbers: np.ndarray,
    quantiles: Sequence[float] | None,
    seed: int,
    progressbar: bool,
) -> xr.Dataset:
    """Return outcomes of the rows with these numbers at all draws, or mean, sd and quantiles of some at a time."""
    copy, rows = subset.model, subset if new is None else new
    draws = {str(rv.name): rv.type(rv.name) for rv in copy.free_RVs}
    outputs = [replace_parts(copy[name], {copy[of]: draw for of, draw in draws.items()}) for name in names]
    groups = [] if new is None else new_groups(model, new, names)
    for of in groups:
        assert new is not None
        outputs = with_new_groups(outputs, subset, draws, of, new.of_groups)
    read = set(ancestors(outputs))
    inputs = {name: draw for name, draw in draws.items() if draw in read}
    if missing := [name for name in inputs if name not in posterior]:
        raise ValueError(f"idata: it has no draws of {missing}, which outcomes are drawn from.")
    function = compile_draws(list(inputs.values()), outputs, random_seed=seed, mode=BY_NUMPY)
    values = [posterior[name].to_numpy().astype(of.type.dtype, copy=False) for name, of in inputs.items()]
    shape, chains = (posterior.sizes["chain"], posterior.sizes["draw"]), {d: posterior[d] for d in ("chain", "draw")}
    n_draws = shape[0] * shape[1]
    size = len(numbers) if quantiles is None else max(1, _AT_ONCE // n_draws)
    found, what = list[xr.Dataset](), f"{len(numbers):,} rows at {n_draws:,} draws"
    with setup_progress(progressbar) as progress:
        task = progress.add_task("Predictions", total=n_draws * -(-len(numbers) // size), what=what)
        for start in range(0, len(numbers), size):
            some, outcomes = numbers[start : start + size], dict[str, np.ndarray]()
            subset.put(rows.take(some))
            for place in np.ndindex(shape):
                with np.errstate(all="ignore"), _new_is_known(new, groups):
                    at_draw = function(*(of[place] for of in values))
                for name, outcome in zip(names, at_draw, strict=True):
                    if name not in outcomes:
                        outcomes[name] = np.empty((*shape, *outcome.shape), outcome.dtype)
                    outcomes[name][place] = outcome
                progress.advance(task)
            named = named_arrays(model, outcomes, {**chains, ROW: some}, 1)
            found.append(named if quantiles is None else named.map(partial(_summarised, quantiles=quantiles)))
    return xr.concat(found, ROW)


@contextmanager
def _new_is_known(new: NewRows | None, groups: Sequence[NewGroups]) -> Iterator[None]:
    """Say what new rows have that the model has not, where outcomes cannot be drawn."""
    try:
        yield
    except (IndexError, ValueError) as error:
        if new is None or not (groups or isinstance(error, IndexError)):
            raise
        said = str(error).splitlines()[0]
        if groups:
            raise ValueError(
                f"{_CALLER}: new= has groups that the model has not seen, and outcomes are drawn from data with an "
                f"entry for each of {[of.n_known for of in groups]} groups ({said}). Hold these in a pm.Data, and give "
                "their entries of the new groups in new= too."
            ) from None
        raise ValueError(
            f"{_CALLER}: new= has a number of a group, or another index, beyond those of the model, and no variable is "
            f"known whose prior a new one could be drawn from ({said}). Give numbers that the model has."
        ) from None


def _summarised(drawn: xr.DataArray, quantiles: Sequence[float]) -> xr.DataArray:
    """Return mean, sd and quantiles over chains and draws, on a first axis."""
    over = "chain", "draw"
    of_all = drawn.quantile(quantiles, over, skipna=False).drop_vars("quantile")
    names = pd.Index(["mean", "sd", *map(quantile_name, quantiles)], name="summary")
    return xr.concat([drawn.mean(over), drawn.std(over, ddof=1), *of_all], names)
