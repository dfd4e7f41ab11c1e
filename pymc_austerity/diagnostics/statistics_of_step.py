"""Which of the statistics of a run are those of one step, where several steps made it together.

PyMC puts statistics of one name side by side, a column for each step that reports it, and forgets whose they were.
Names such as ``n_rows`` are those of this package's steps alone; ``accepted`` and ``scaling`` are also PyMC's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from pymc.model import Model

from pymc_austerity.diagnostics.drawn_states import test_of_chain
from pymc_austerity.diagnostics.results import SamplingResult, group, over_steps
from pymc_austerity.kernel import TRANSITIONS, TUNED, Decider

#: Sums that are compared with the rows of a thinned draw.
_MOST_SUMS = 100_000
#: What every step of this package notes of a decision.
_OF_DECISIONS = ("accepted", "n_rows", "full_data", "log_ratio", "log_ratio_sd", "scaling")


def columns_of_step(idata: SamplingResult, variables: Sequence[str], k: int) -> xr.Dataset:
    """Return the statistics of the step that moves these variables, the k-th of this package in the run.

    A statistic that says itself whose it is, or that not all steps have, keeps all its columns.
    """
    stats = group(idata, "sample_stats")
    n_ours, n_shared = (over_steps(stats[name]).sizes["step"] for name in ("n_rows", "accepted"))
    shared = k if n_shared == n_ours else int(np.argmax(_agreement(idata, variables, stats["accepted"])))
    found = {}
    for name, values in stats.items():
        columns = over_steps(values)
        column = {n_shared: shared, n_ours: k}.get(columns.sizes["step"])
        known = name != TUNED and column is not None
        found[str(name)] = columns.isel(step=column, drop=True) if known else values
    return xr.Dataset(found)


def _agreement(idata: SamplingResult, variables: Sequence[str], accepted: xr.DataArray) -> np.ndarray:
    """Return for each column of acceptances in which share of the draws it says whether some variables moved."""
    posterior = group(idata, "posterior")
    moved = np.zeros((accepted.sizes["chain"], accepted.sizes["draw"] - 1), dtype=bool)
    for name in (name for name in variables if name in posterior):
        draws = posterior[name].transpose("chain", "draw", ...).to_numpy()
        moved |= (np.diff(draws, axis=1) != 0).reshape(*moved.shape, -1).any(axis=-1)
    columns = over_steps(accepted).transpose("step", "chain", "draw").to_numpy()
    return np.array([((column[:, 1:] > 0) == moved).mean() for column in columns])


def _sums(sizes: np.ndarray, n: int) -> np.ndarray | None:
    """Return the numbers of rows that n looks at some of these sizes, or at none, can add up to, unless too many."""
    sums = np.zeros(1, int)
    for _ in range(n):
        sums = np.unique(np.add.outer(sums, [0, *sizes]))
        if sums.size > _MOST_SUMS:
            return None
    return sums


def _fitting_columns(stats: xr.Dataset, decider: Decider, sizes: np.ndarray) -> list[int]:
    """Return the columns whose numbers of rows a test that looks at these sizes can have read."""
    counted = over_steps(stats["n_rows"]).transpose("chain", "draw", "step").to_numpy()
    full = over_steps(stats["full_data"]).transpose("chain", "draw", "step").to_numpy()
    all_columns = list(range(counted.shape[-1]))
    several = TRANSITIONS in stats
    possible = _sums(sizes, int(stats[TRANSITIONS].max())) if several else np.array([0, *sizes])
    # Rows counted beside those of the test; or so many sums that nothing is said by one.
    if decider.bound.is_asked_for or decider.move.reads_rows or possible is None:
        return all_columns
    known = np.isin(counted, possible) if several else full | np.isin(counted, possible)
    fits = [k for k in all_columns if full[..., k].all() or known[..., k].mean() > 0.9]
    if not fits:
        raise ValueError(
            f"step: {decider.parts.describe()} decides after {sizes[:5]} rows and so on, but the draws of idata were "
            f"decided after {np.unique(counted[~full])[:5]}: another step made them. Pass the one that did."
        )
    return fits


def _own_column(idata: SamplingResult, variables: Sequence[str], decider: Decider, fitting: list[int]) -> int:
    """Return which of the columns that fit is that of the step: the one that moves when its variables do."""
    if len(fitting) == 1:
        return fitting[0]
    stats = group(idata, "sample_stats")
    n_ours, n_shared = (over_steps(stats[name]).sizes["step"] for name in ("n_rows", "accepted"))
    agreeing = _agreement(idata, variables, stats["accepted"])[fitting] if n_ours == n_shared else np.ones(len(fitting))
    best = int(np.argmax(agreeing))
    if np.sum(agreeing == agreeing[best]) > 1:
        raise ValueError(
            f"step: {len(fitting)} steps of this run decide as {decider.parts.describe()} does, and its statistics do "
            f"not say which of them moved {list(variables)}: the verdict might be on another step. Give the steps "
            "different batch sizes, or one step all their variables."
        )
    return fitting[best]


def require_statistics(idata: SamplingResult) -> None:
    """Refuse a run that no step of this package made, before it is asked which step that was."""
    stats = group(idata, "sample_stats")
    missing = [name for name in _OF_DECISIONS if name not in stats]
    if missing:
        raise ValueError(
            f"idata: its sample_stats have no {missing}, so no step of this package made it or they were dropped. Pass "
            "what pm.sample returned with such a step; draws of another sampler, as NUTS, are set beside others by "
            "pymc_austerity.compare."
        )


def stats_of_step(idata: SamplingResult, model: Model, decider: Decider) -> tuple[dict[str, np.ndarray], xr.Dataset]:
    """Return the statistics of the step's draws, flat and as they are, after checking that it could have made them."""
    stats = group(idata, "sample_stats")
    if TRANSITIONS in stats and over_steps(stats[TRANSITIONS]).sizes != over_steps(stats["n_rows"]).sizes:
        raise ValueError(
            "step: of the steps that made idata some have thin= above 1 and others not, and the statistics do not say "
            "which, so the rows of a transition are unknown. Sample with the same thin= in all steps."
        )
    designs = [test_of_chain(decider, stats, c) for c in range(stats.sizes["chain"])]
    sizes = np.concatenate([test.looks(len(decider.parts.stored)).sizes for test in designs])
    names_of = {model.rvs_to_values[rv].name: rv.name for rv in model.free_RVs}
    variables = [names_of[b.name] for of in decider.parts.likelihood.blocks for b in of.apart()]
    fitting = _fitting_columns(stats, decider, sizes)
    own = columns_of_step(idata, variables, _own_column(idata, variables, decider, fitting))
    chosen = {name: own[name].to_numpy().ravel() for name in _OF_DECISIONS}
    unknown = np.full(chosen["n_rows"].size, np.nan)
    if TRANSITIONS in own:
        chosen["n_rows"] = chosen["n_rows"] / own[TRANSITIONS].to_numpy().ravel()
    chosen["threshold"] = own["threshold"].to_numpy().ravel() if "threshold" in own else unknown
    return chosen, own
