"""How much of the data a run read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pymc_austerity.diagnostics.convergence import effective_draws
from pymc_austerity.diagnostics.results import (
    SamplingResult,
    group,
    number_of_distinct_rows,
    number_of_rows,
    over_steps,
    posterior_variables,
    rows_per_draw,
    sampling_seconds,
    setup_of_steps,
)
from pymc_austerity.user_input import takes


@takes()
def data_usage(
    idata: SamplingResult, *, total_rows: int | None = None, var_names: Sequence[str] | None = None
) -> pd.Series:
    """Summarise how many rows of the data a run read.

    A row counts once for a draw, however many terms of the acceptance ratio it enters. Where a step merged rows that
    repeat each other, a distinct row counts once, for all that are like it. Tuning draws are not part of what
    ``pm.sample`` keeps and are not counted.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned for a step of this package.
    total_rows : int, optional
        Rows of the data. By default those that the step drew from, of all outcomes.
    var_names : sequence of str, optional
        Variables among which the smallest effective sample size is looked for; by default all that do not have an
        entry for each of more than 1,000 rows.

    Returns
    -------
    pandas.Series
        ``mean``, ``median``, ``q90``, ``q99`` and ``max`` of the rows read for a draw; ``total_rows`` of the table;
        ``distinct_rows``, which is fewer where rows were merged, a very frequent one being kept in several parts;
        ``share``, the mean as a share of the distinct rows; ``full_scans``, the share of draws that read all rows;
        ``setup_passes`` and ``setup_seconds``, passes over all rows before the first draw and wall seconds of building
        the steps, NaN where the run does not tell; ``sampling_seconds``, those of ``pm.sample``, tuning included;
        ``ess``, the smallest bulk effective sample size (ArviZ's) over the variables;
        ``ess_per_million_rows``, effective draws for a million rows read by the draws that were kept.

    Raises
    ------
    ValueError
        If no step of the run counted its rows, if the number of rows is unknown, or a variable is.

    See Also
    --------
    plot_data_usage : The same as a figure.
    compare : Differences from a reference run.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rows = np.random.default_rng(1).normal(size=20_000)
    >>> with pm.Model():
    ...     _ = pm.Normal("y", pm.Normal("mean"), 1, observed=rows)
    ...     idata = pm.sample(300, tune=300, chains=2, cores=1, step=pma.ApproxMH(), random_seed=1, progressbar=False)
    >>> usage = pma.data_usage(idata)
    >>> int(usage["total_rows"])
    20000
    >>> bool(usage["median"] < usage["total_rows"])
    True
    """
    rows = rows_per_draw(idata)
    total = number_of_rows(idata, total_rows)
    distinct = number_of_distinct_rows(idata, total)
    # Asked of the step, not inferred from the count: the counts of several steps may add up to all rows.
    full = over_steps(group(idata, "sample_stats")["full_data"]).any("step")
    ess = float(min(array.min() for array in effective_draws(posterior_variables(idata, var_names)).values()))
    read = float(rows.sum())
    return pd.Series(
        {
            "mean": float(rows.mean()),
            "median": float(rows.median()),
            "q90": float(rows.quantile(0.9)),
            "q99": float(rows.quantile(0.99)),
            "max": float(rows.max()),
            "total_rows": float(total),
            "distinct_rows": float(distinct),
            "share": float(rows.mean()) / distinct,
            "full_scans": float(full.mean()),
            "setup_passes": setup_of_steps(idata, "setup_passes"),
            "setup_seconds": setup_of_steps(idata, "setup_seconds"),
            "sampling_seconds": sampling_seconds(idata),
            "ess": ess,
            "ess_per_million_rows": ess / read * 1e6 if read else np.nan,
        },
        name="rows per draw",
    )
