"""Reading what ``pm.sample`` returns, with ArviZ 0.x and 1.x alike."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pandas as pd
import xarray as xr
from pymc.backends.base import MultiTrace
from pymc.model import Model
from pymc.step_methods.arraystep import BlockedStep

from pymc_austerity.user_input import did_you_mean, shown

if TYPE_CHECKING:
    import arviz as az

#: What ``pm.sample`` returns: ``arviz.InferenceData`` (ArviZ 0.x) or ``xarray.DataTree`` (ArviZ 1.x).
SamplingResult: TypeAlias = "xr.DataTree | az.InferenceData"


#: So many rows may have a parameter each, in a run of NUTS, and be described in a table.
_FEW_ROWS = 1_000


def group(idata: SamplingResult, name: str) -> xr.Dataset:
    """Return a group of a sampling result as a Dataset, an empty one where the group is missing."""
    if isinstance(idata, MultiTrace):
        raise TypeError(
            "idata: a MultiTrace, which has no observed data and no dimensions. Sample with return_inferencedata=True, "
            "PyMC's default, or convert it inside the model's context by pm.to_inference_data(trace)."
        )
    if not hasattr(idata, "groups"):
        raise TypeError(f"idata= wants what pm.sample returned, and got {shown(idata)}.{_meant(idata)}")
    if name not in idata:
        return xr.Dataset()
    return as_dataset(cast("xr.Dataset | xr.DataTree", idata[name]))


def _meant(given: object) -> str:
    """Return what may have been meant by what is no run."""
    if isinstance(given, Model):
        return " That is a model. Did you mean idata, which pm.sample returned?"
    if isinstance(given, BlockedStep):
        return " That is a step. Did you mean idata, which pm.sample(step=...) returned?"
    runs = [name for name, run in given.items() if hasattr(run, "groups")] if isinstance(given, Mapping) else []
    return f" Did you mean the run {runs[0]!r} of it alone?" if runs else ""


def posterior_variables(idata: SamplingResult, var_names: Sequence[str] | None = None) -> xr.Dataset:
    """Return the posterior draws of the chosen variables; by default without an entry for each of many rows.

    Predictions of every row are no parameters, and a table of them would be as long as the data.
    """
    var_names = [var_names] if isinstance(var_names, str) else var_names
    draws = group(idata, "posterior")
    if not draws.data_vars:
        raise ValueError(
            "idata: it has no posterior group, so there are no draws to describe. Pass what pm.sample returned."
        )
    require_draws(idata)
    available = [str(name) for name in draws.data_vars]
    missing = sorted(set(var_names or ()) - set(available))
    if missing:
        raise ValueError(
            f"var_names: {missing} not in the posterior. {did_you_mean(str(missing[0]), sorted(available))}"
        )
    return draws[list(var_names or _without_rows(idata, draws) or available)].astype(float)


def require_draws(idata: SamplingResult) -> None:
    """Refuse a run whose chains have no draws."""
    if not group(idata, "posterior").sizes.get("draw", 1):
        raise ValueError("idata: its posterior has no draws. Pass a run with draws=1 or more, or another selection.")


def _without_rows(idata: SamplingResult, draws: xr.Dataset) -> list[str]:
    lengths = {array.shape[0] for array in group(idata, "observed_data").data_vars.values() if array.ndim}
    n_rows = max(lengths, default=0)
    few = n_rows <= _FEW_ROWS
    return [str(name) for name, array in draws.data_vars.items() if few or n_rows not in array.shape[2:]]


def rows_per_draw(idata: SamplingResult) -> xr.DataArray:
    """Return the rows read for each draw, shape (chain, draw); of several steps that read rows, all together."""
    stats = group(idata, "sample_stats")
    if "n_rows" not in stats:
        raise ValueError(
            f"idata: no n_rows in its sample_stats (found {sorted(map(str, stats.data_vars))}), so no step of this run "
            "counted the rows it read. Pass a run made with a step of pymc_austerity, and keep its sample_stats."
        )
    return over_steps(stats["n_rows"]).sum("step")


def evaluations_per_draw(idata: SamplingResult) -> xr.DataArray | None:
    """Return the rows evaluated for each draw, shape (chain, draw), or None where the run does not tell.

    A leapfrog step of NUTS takes a gradient over all rows and counts as all of them.
    """
    stats = group(idata, "sample_stats")
    if "n_rows" in stats:
        return rows_per_draw(idata)
    if "n_steps" in stats and group(idata, "observed_data").data_vars:
        return stats["n_steps"] * number_of_rows(idata)
    return None


def number_of_rows(idata: SamplingResult, total_rows: int | None = None) -> int:
    """Return the rows of the data: as given, else as a step counted, else of the longest observed variable."""
    if total_rows is not None:
        if total_rows < 1:
            raise ValueError(f"total_rows: must be at least 1, got {total_rows}. Pass the rows of the data.")
        return int(total_rows)
    if "total_rows" in (stats := group(idata, "sample_stats")):
        return int(stats["total_rows"].max())
    lengths = [array.shape[0] for array in group(idata, "observed_data").data_vars.values() if array.ndim]
    if not lengths:
        raise ValueError(
            "total_rows: idata has no observed_data to count the rows of the data from, so shares of the "
            "data are unknown. Pass total_rows=."
        )
    return max(lengths)


def number_of_distinct_rows(idata: SamplingResult, total_rows: int) -> int:
    """Return how many rows a step had to read: all of the table, or the distinct ones where it merged them."""
    stats = group(idata, "sample_stats")
    return int(stats["distinct_rows"].max()) if "distinct_rows" in stats else total_rows


def over_steps(stat: xr.DataArray) -> xr.DataArray:
    """Return a statistic with dimensions chain, draw and step, whether one step reported it or several."""
    extra = [dim for dim in stat.dims if dim not in ("chain", "draw")]
    return stat.rename({extra[0]: "step"}) if extra else stat.expand_dims("step")


def setup_of_steps(idata: SamplingResult, name: str) -> float:
    """Return what set-up took by a statistic of it, of all steps of the run together; NaN where a run does not tell."""
    stats = group(idata, "sample_stats")
    return float(over_steps(stats[name]).isel(chain=0, draw=0).sum("step")) if name in stats else np.nan


def sampling_seconds(idata: SamplingResult) -> float:
    """Return the seconds that ``pm.sample`` took, NaN where a run does not tell."""
    return float(group(idata, "posterior").attrs.get("sampling_time", np.nan))


def comparable_variables(
    results: Mapping[str, SamplingResult], reference: str, var_names: Sequence[str] | None
) -> list[str]:
    """Return the variables to compare: those asked for, else those that every run has."""
    if hasattr(results, "groups"):
        raise TypeError(
            "results: one run alone, with nothing to compare it to. Did you mean a dict of runs by name, as "
            'compare({"mine": idata, "NUTS": other}, reference="NUTS")?'
        )
    if reference not in results:
        names = did_you_mean(reference, list(map(str, results)))
        raise ValueError(f"reference: {reference!r} is not among the runs. {names}")
    if len(results) < 2:
        raise ValueError(f"results: only {reference!r} is there, with nothing to compare it to. Add another run.")
    if var_names is not None:
        return [var_names] if isinstance(var_names, str) else list(var_names)
    variables = {run: list(map(str, posterior_variables(idata).data_vars)) for run, idata in results.items()}
    common = [name for name in variables[reference] if all(name in others for others in variables.values())]
    if not common:
        raise ValueError(f"results: no variable is in every run (found {variables}), so nothing can be compared.")
    return common


def labelled(values: xr.Dataset) -> pd.Series:
    """Flatten a Dataset to a Series labelled as ArviZ labels: ``beta[x1]``, ``effect[a, 0]``."""
    flat: dict[str, float] = {}
    for name, array in values.data_vars.items():
        if not array.ndim:
            flat[str(name)] = array.item()
            continue
        for key, value in array.to_series().items():
            flat[f"{name}[{', '.join(map(str, key if isinstance(key, tuple) else (key,)))}]"] = value
    return pd.Series(flat, dtype=float)


def labels_of(draws: xr.Dataset) -> pd.Index:
    """Return the labels of the K entries of draws."""
    return labelled(draws.isel(chain=0, draw=0, drop=True)).index


def by_entry(draws: xr.Dataset) -> np.ndarray:
    """Return draws of all variables, shape (chains, draws, K)."""
    n = draws.sizes["chain"], draws.sizes["draw"]
    each = (of.transpose("chain", "draw", ...).to_numpy().reshape(*n, -1) for of in draws.data_vars.values())
    return np.concatenate(list(each), axis=2)


def labelled_draws(
    results: Mapping[str, SamplingResult], names: Sequence[str], reference: str
) -> dict[str, pd.DataFrame]:
    """Return the draws of each run as a table: a row a draw of any chain, a column a parameter."""
    tables = {}
    for run, idata in results.items():
        draws = posterior_variables(idata, names)
        values = by_entry(draws)
        tables[run] = pd.DataFrame(values.reshape(-1, values.shape[2]), columns=labels_of(draws))
    check_labels({run: table.columns for run, table in tables.items()}, reference)
    return tables


def check_labels(labels: Mapping[str, pd.Index], reference: str) -> None:
    """Refuse runs whose parameters do not match those of the reference one by one."""
    for run, index in labels.items():
        if not index.equals(labels[reference]):
            unmatched = list(index.symmetric_difference(labels[reference])) or list(index)
            raise ValueError(
                f"results: {run!r} and the reference {reference!r} differ in shape or coordinates at "
                f"{unmatched[:5]}, so their parameters cannot be matched. Choose variables with var_names=, "
                "or give both runs the same coords."
            )


def as_dataset(result: "xr.Dataset | xr.DataTree") -> xr.Dataset:
    """Return what an ArviZ function gave as a Dataset: ArviZ 1.x may wrap it in a DataTree."""
    return result.to_dataset() if isinstance(result, xr.DataTree) else result


def named_arrays(
    model: Model, arrays: Mapping[str, np.ndarray], first: Mapping[str, Any], replaced: int = 0
) -> xr.Dataset:
    """Return arrays of variables of a model with the names and coordinates of their axes.

    The `first` axes are given, with their coordinates; the last of them stand for so many of the variables' own as are
    `replaced`.
    """
    variables, coords = {}, dict(first)
    for name, array in arrays.items():
        n_own = array.ndim - len(first) + replaced
        named = model.named_vars_to_dims.get(name) or (None,) * n_own
        dims = [dim or f"{name}_dim_{k}" for k, dim in enumerate(named[:n_own])][replaced:]
        coords |= {dim: list(of) for dim in dims if (of := model.coords.get(dim)) is not None}
        variables[name] = ((*first, *dims), array)
    return xr.Dataset(variables, coords)


def quantile_name(q: float) -> str:
    """Return what the summaries call a quantile."""
    return f"q{q:g}"
