"""More draws for a run that has ended, from where its chains stopped and with what they had tuned."""

from __future__ import annotations

import logging
from copy import deepcopy
from typing import Any, cast

import numpy as np
import pymc as pm
import xarray as xr
from pymc.model import Model

from pymc_austerity.argument_kinds import is_whole
from pymc_austerity.diagnostics import SamplingResult
from pymc_austerity.diagnostics.drawn_states import check_has_variables, state_of_chain
from pymc_austerity.diagnostics.results import group
from pymc_austerity.diagnostics.same_data import check_draws_of, check_step_of
from pymc_austerity.steps.approx_mh import ApproxMH
from pymc_austerity.steps.draw_statistics import METHOD
from pymc_austerity.steps.row_step import RowStep
from pymc_austerity.user_input import model_of, shown, takes

_log = logging.getLogger("pymc_austerity")

#: Draws in which a step tunes anew.
_TUNE = 300


@takes()
def resume(
    idata: SamplingResult, draws: int = 1000, *, step: Any = None, model: Model | None = None, **sample: Any
) -> SamplingResult:
    """Draw more, from where the chains of a run stopped, and return the whole run.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned, or `resume`.
    draws : int, default 1000
        Draws of each chain that are added.
    step : step method, optional
        As of ``pm.sample``: the step that made the run, or one that was built anew, in this session or another.
    model : pymc.Model, optional
        The model of the run, on the same data; by default that of the context.
    **sample
        Further arguments of ``pm.sample``: ``cores``, ``random_seed``, ``progressbar``, ``callback``, ...  Chains begin
        new streams of random numbers, so give another seed than the run had.

    Returns
    -------
    InferenceData or DataTree
        A new one, with the draws and statistics of both parts one after the other.  Other groups along draws, such as
        predictions, are those that both parts have.

    Raises
    ------
    ValueError
        For a run of another model or of other data, or without draws of a free variable.
    TypeError
        For arguments of another kind.

    Notes
    -----
    A step of this package that makes one decision goes on with the proposal as the first chain of the run had tuned it.
    Groups that move by themselves, a test that ``epsilon="auto"`` chooses, another step than that of the run, and
    several steps tune anew over 300 draws, which are not kept; the log says so.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Bernoulli("y", p, observed=np.arange(1000) % 4 == 0)
    ...     step = pma.PenaltyMH()
    ...     idata = pm.sample(200, step=step, chains=2, cores=1, progressbar=False, random_seed=1)
    ...     idata = pma.resume(idata, 300, step=step, cores=1, progressbar=False, random_seed=2)
    >>> idata.posterior.sizes["draw"]
    500
    """
    model = model_of(model, "resume")
    posterior = group(idata, "posterior")
    if not is_whole(draws, 1):
        raise TypeError(f"resume(draws=): wants a whole number of at least 1, and got {shown(draws)}.")
    taken = sorted(
        {"tune", "chains", "initvals", "trace", "return_inferencedata", "discard_tuned_samples"} & set(sample)
    )
    if taken:
        raise TypeError(f"resume({taken[0]}=): the run decides about it. Leave it out.")
    check_has_variables(idata, model)
    check_step_of(step, model, to_draw=True)
    blocks = step.model_key.data if isinstance(step, RowStep) else None
    check_draws_of(model, idata, blocks)
    last = posterior.isel(draw=-1)
    starts = [
        {rv.name: last[rv.name].isel(chain=chain).to_numpy().astype(rv.dtype) for rv in model.free_RVs}
        for chain in range(posterior.sizes["chain"])
    ]
    tuned = _tuned(idata, step)
    if tuned is None:
        _log.info(f"The step tunes anew over {_TUNE} draws, which are not kept.")
    if isinstance(step, RowStep):
        step.tuned_before = tuned
    try:
        with model:
            more = pm.sample(
                draws, step=step, tune=_TUNE if tuned is None else 0, chains=len(starts), initvals=starts, **sample
            )
    finally:
        if isinstance(step, RowStep):
            step.tuned_before = None
    return _joined(idata, cast(SamplingResult, more))


def _tuned(idata: SamplingResult, step: Any) -> Any:
    """Return the state of the proposal after tuning in the first chain, or None where the run does not tell."""
    if not isinstance(step, RowStep) or step.moves_groups or (isinstance(step, ApproxMH) and step.designs):
        return None
    stats = group(idata, "sample_stats")
    if METHOD not in stats or (stats[METHOD].to_numpy() != step.method.encode()).any():
        return None
    try:
        return state_of_chain(step.decider, stats, 0)
    except ValueError:  # fewer draws than the record takes
        return None


def _joined(first: SamplingResult, second: SamplingResult) -> SamplingResult:
    """Return a run with the draws of another after its own."""
    whole = deepcopy(first)
    names = first.groups if isinstance(first, xr.DataTree) else first.groups()
    for name in [str(name).strip("/") for name in names if name != "/"]:
        before, after = group(first, name), group(second, name)
        if "draw" not in before.dims:
            continue
        both = [name for name in before.data_vars if name in after.data_vars]
        if not both:
            del whole[name]
            continue
        number = np.arange(before.sizes["draw"] + after.sizes["draw"])
        joined = xr.concat(
            [before[both], after[both]], dim="draw", data_vars="minimal", coords="minimal",
            compat="override", join="override", combine_attrs="override",
        )  # fmt: skip
        joined = joined.assign_coords(draw=number)
        if isinstance(whole, xr.DataTree):
            whole[name] = xr.DataTree(joined)
        else:
            setattr(whole, name, joined)
    return whole
