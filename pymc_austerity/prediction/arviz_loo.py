"""ArviZ's leave-one-out of some rows, and its result filled with what is known of all, under ArviZ 0.x and 1.x."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logsumexp

from pymc_austerity.compat import as_sampling_result
from pymc_austerity.diagnostics import SamplingResult, effective_draws
from pymc_austerity.diagnostics.convergence import of_entries
from pymc_austerity.diagnostics.results import by_entry, posterior_variables

#: Numbers that are given to ArviZ at once.
_AT_ONCE = 8_000_000
#: Of a log-likelihood, as a share of it.
_ROUNDING = 1e-12
#: Entries of the posterior from which the effective share of the draws is found.
_ENTRIES = 300


class LeftOut(NamedTuple):
    """What Pareto-smoothed importance sampling says of n rows."""

    #: The log predictive density without the row, and with it.
    elpd: np.ndarray
    lpd: np.ndarray
    pareto_k: np.ndarray
    #: ArviZ's own, for some of the rows.
    result: Any


def leave_out(log_likelihood: np.ndarray, n_chains: int, r_eff: float) -> LeftOut:
    """Return ArviZ's leave-one-out of each row, from log-likelihoods of shape (S, n), one chain after the other."""
    n_draws, n = log_likelihood.shape
    lpd = logsumexp(log_likelihood, axis=0) - np.log(n_draws)
    elpd, k = lpd.copy(), np.zeros(n)
    # The others say the same with and without themselves.
    vary = np.flatnonzero(np.ptp(log_likelihood, axis=0) > _ROUNDING * (1 + np.abs(lpd)))
    by_chain, size = log_likelihood.reshape(n_chains, -1, n), max(1, _AT_ONCE // n_draws)
    for start in range(0, len(vary), size):
        some = vary[start : start + size]
        result = _loo(by_chain[..., some], r_eff)
        of_rows = result["loo_i"] if isinstance(result, pd.Series) else result.elpd_i
        elpd[some], k[some] = of_rows.to_numpy(), result["pareto_k"].to_numpy()
    if not len(vary):
        raise ValueError(
            "loo: no log-likelihood differs between draws. Pass a run whose chains move; of groups that have nothing "
            "unknown in common none tells of another."
        )
    return LeftOut(elpd, lpd, k, result)


def effective_share(idata: SamplingResult) -> float:
    """Return effective draws over draws, on average over the entries of the posterior; 1 for a single chain."""
    draws = posterior_variables(idata)
    if draws.sizes["chain"] == 1:
        return 1.0
    entries = by_entry(draws)
    some = np.unique(np.linspace(0, entries.shape[2] - 1, _ENTRIES).astype(int))
    return float(np.nanmean(of_entries(effective_draws, entries[..., some], method="mean")) / entries[..., 0].size)


def filled_result(like: Any, numbers: dict[str, Any], elpd_i: xr.DataArray, k: xr.DataArray) -> Any:
    """Return ArviZ's result with other numbers, by the names of ArviZ 1.x; those that it does not know are added.

    `elpd_i` has shape (N,), and `k` holds Pareto k of the rows that were evaluated.
    """
    if not isinstance(like, pd.Series):
        for name, value in {**numbers, "elpd_i": elpd_i, "pareto_k": k}.items():
            setattr(like, name, value)
        return like
    named = {"elpd": "elpd_loo", "p": "p_loo"}
    values = {name: like[name] for name in like.index}
    values |= {named.get(name, name): value for name, value in numbers.items()}
    values |= {"loo_i": elpd_i.rename("loo_i"), "pareto_k": k}
    return type(like)(data=list(values.values()), index=list(values))


def _loo(log_likelihood: np.ndarray, r_eff: float) -> Any:
    import arviz as az

    dims = "chain", "draw", "row"
    groups = {
        "posterior": xr.Dataset({"unused": (dims[:2], np.zeros(log_likelihood.shape[:2]))}),
        "log_likelihood": xr.Dataset({"rows": (dims, log_likelihood)}),
    }
    groups = {name: of.assign_coords({d: np.arange(of.sizes[d]) for d in of.sizes}) for name, of in groups.items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # about Pareto k, of which the caller says more
        return az.loo(as_sampling_result(groups), pointwise=True, reff=r_eff)
