"""R-hat, effective sizes and Monte Carlo errors by ArviZ 0.x and 1.x alike, and those of all parameters of a run.

ArviZ is imported when it is first asked: with the figures that it brings it takes a second to load, and the processes
that draw the chains never ask.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from pymc.model import Model

from pymc_austerity.diagnostics.results import SamplingResult, as_dataset, by_entry, labels_of, posterior_variables
from pymc_austerity.diagnostics.verdicts import DO_NOT_TRUST, NOT_KNOWN, Finding, judge_chains
from pymc_austerity.kernel import Parts
from pymc_austerity.likelihood import Block, ModelData

#: ArviZ takes a millisecond for an entry: of more entries the slowest so many, as chunks of the chains show them.
_MOST_ENTRIES, _CHUNKS = 300, 8
#: Chains of fewer draws have no R-hat, no effective sizes and no Monte Carlo errors.
FEWEST_DRAWS = 4


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


class Mixing:
    """The draws of the free variables of a run, entry by entry, and what ArviZ says of them.

    `values` has shape (chains, draws, K), `labels` are ArviZ's (``b[female]``), and `names` the variable of each entry.
    """

    def __init__(self, idata: SamplingResult, model: Model):
        draws = posterior_variables(idata, [rv.name for rv in model.free_RVs])
        self.values, self.labels = by_entry(draws), list(labels_of(draws))
        one = draws.isel(chain=0, draw=0)
        self.names = [str(name) for name, of in one.items() for _ in range(of.size)]

    @property
    def never_moved(self) -> np.ndarray:
        """The entries that stayed in place in a chain or more."""
        return np.flatnonzero((self.values == self.values[:, :1]).all(axis=1).any(axis=0))

    @cached_property
    def slowest(self) -> np.ndarray:
        """The entries that `r_hat`, `bulk` and `tail` are of: all of them, or the slowest of many."""
        (_, n_draws, k), few = self.values.shape, _MOST_ENTRIES
        if k <= few or n_draws < 2 * _CHUNKS:
            return np.arange(k)
        chunks = np.stack([chunk.mean(axis=1) for chunk in np.array_split(self.values, _CHUNKS, axis=1)], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            sd = self.values.std(axis=(0, 1))
            along, between = chunks.std(axis=1).mean(axis=0) / sd, chunks.mean(axis=1).std(axis=0) / sd
        ranked = [np.argsort(-np.nan_to_num(of, nan=np.inf))[: few // 2] for of in (along, between)]
        return np.unique(np.concatenate(ranked))

    @cached_property
    def r_hat(self) -> np.ndarray:
        """Not a number for an entry that never moved."""
        return of_entries(r_hats, self.values[..., self.slowest])

    @cached_property
    def bulk(self) -> np.ndarray:
        """Effective draws, of ranks."""
        return self.effective("bulk", self.slowest)

    @cached_property
    def tail(self) -> np.ndarray:
        """Effective draws of the 5 and 95% quantiles, the fewer."""
        return self.effective("tail", self.slowest)

    def effective(self, method: str, entries: np.ndarray) -> np.ndarray:
        """Return the effective draws of some entries."""
        if method == "bulk" and "bulk" in self.__dict__ and np.array_equal(entries, self.slowest):
            return self.bulk
        with np.errstate(over="ignore", invalid="ignore"):  # of a chain that drifts off nothing is known
            return of_entries(effective_draws, self.values[..., entries], method=method)


def blocks_apart(data: Parts | ModelData) -> list[Block]:
    """Return the layout of θ by the variables of the user's model."""
    return [b for of in data.likelihood.blocks for b in of.apart()]


def entries_of_theta(mixing: Mixing, model: Model, data: Parts | ModelData) -> tuple[list[np.ndarray], list[str]]:
    """Return which entries each block of θ is made of, and a name for each entry of θ.

    Names are ArviZ's, but for a block with other entries than its variable, as of a simplex: ``w[0]``, ``w[1]``.
    """
    rvs = {model.rvs_to_values[rv].name: rv.name for rv in model.free_RVs}
    entries: list[np.ndarray] = []
    names: list[str] = []
    for block in blocks_apart(data):
        own = np.flatnonzero([name == rvs[block.name] for name in mixing.names])
        size = block.stop - block.start
        entries.append(own)
        numbered = [f"{rvs[block.name]}[{', '.join(map(str, i))}]" for i in np.ndindex(block.shape)]
        names += [mixing.labels[k] for k in own] if own.size == size else numbered
    return entries, names


def relaxation_of(mixing: Mixing, model: Model, data: Parts | ModelData, method: str = "bulk") -> np.ndarray:
    """Return (τ + 1)/2 of every entry of θ in a run, or of its square (``"sd"``).

    Ranks do not change under a monotone transform; where a transform mixes entries, the slowest stands for all.
    """
    n_draws, relaxation = mixing.values.shape[0] * mixing.values.shape[1], []
    entries, _ = entries_of_theta(mixing, model, data)
    effective = mixing.effective(method, np.concatenate(entries))
    effective = np.where(np.isfinite(effective), effective, 1.0)  # of an entry that never moved
    for block, ess in zip(blocks_apart(data), np.split(effective, np.cumsum([e.size for e in entries])[:-1])):
        size = block.stop - block.start
        relaxation.append((n_draws / (ess if ess.size == size else np.full(size, ess.min())) + 1) / 2)
    return np.concatenate(relaxation)


def chains_of(mixing: Mixing) -> Finding:
    """Judge whether the chains agree."""
    n_chains = mixing.values.shape[0]
    if n_chains == 1:
        return judge_chains(np.nan, np.nan, 1)
    if not np.isfinite(mixing.values).all():
        broken = [mixing.labels[k] for k in np.flatnonzero(~np.isfinite(mixing.values).all(axis=(0, 1)))]
        reason = f"Draws of {', '.join(broken[:5])} are not finite."
        return Finding("chains", DO_NOT_TRUST, np.nan, reason, "Look where they come from: no step draws such values.")
    if (n_draws := mixing.values.shape[1]) < FEWEST_DRAWS:
        reason = f"R-hat is defined for chains of at least {FEWEST_DRAWS} draws, and these have {n_draws}."
        return Finding("chains", NOT_KNOWN, np.nan, reason, "Sample longer, for 100 effective draws a chain.")
    # A parameter that never moved has no R-hat; a NaN must not hide behind the maximum of the others.
    ess = np.concatenate([mixing.bulk, mixing.tail])
    return judge_chains(float(mixing.r_hat.max()), float(np.nanmin(ess)), n_chains)
