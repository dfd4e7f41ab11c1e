"""How far runs are from a reference run, parameter by parameter, by ArviZ's effective sizes and Monte Carlo errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from pymc_austerity.diagnostics.comparison_table import Comparison
from pymc_austerity.diagnostics.convergence import FEWEST_DRAWS, effective_draws, standard_errors
from pymc_austerity.diagnostics.results import (
    SamplingResult,
    comparable_variables,
    evaluations_per_draw,
    labelled,
    labelled_draws,
    posterior_variables,
    sampling_seconds,
)
from pymc_austerity.diagnostics.same_data import check_same_data
from pymc_austerity.diagnostics.shared_randomness import correlation_of_draws
from pymc_austerity.user_input import takes

#: √n times the Kolmogorov–Smirnov distance of agreeing samples has this mean, √(π/2)·ln 2.
_KS_MEAN = float(np.sqrt(np.pi / 2) * np.log(2))
#: Mean, standard deviation and distribution of every parameter are compared.
_QUESTIONS = 3


@takes()
def compare(
    results: Mapping[str, SamplingResult],
    *,
    reference: str,
    var_names: Sequence[str] | None = None,
    level: float = 0.01,
) -> Comparison:
    r"""Compare the posteriors of several runs with a reference run, in units of its posterior spread.

    With :math:`m, s` the mean and standard deviation of a run and :math:`m_0, s_0` those of the reference,
    the table holds the shift :math:`(m - m_0)/s_0` and the ratio :math:`s/s_0`, each with the Monte Carlo
    standard error that both runs contribute. The Kolmogorov–Smirnov distance, the largest difference of the
    distribution functions, sees what moments do not. A difference is flagged only where Monte Carlo error does
    not explain it. Runs that share random numbers, as with one ``random_seed``, are told by the correlation of their
    draws; errors are those of independent runs, which are too large for them.

    Parameters
    ----------
    results : mapping of str to InferenceData or DataTree
        The runs by name, the reference among them.
    reference : str
        The name of the run to compare with, usually NUTS or ``ExactMH``.
    var_names : sequence of str, optional
        Variables to compare; by default those that every run has, without those with an entry for each of more than
        1,000 rows.
    level : float, default 0.01
        Probability with which a run that agrees with the reference in everything gets any flag at all: the level is
        divided among the means, standard deviations and distributions of all its parameters (Bonferroni).

    Returns
    -------
    Comparison
        A `pandas.DataFrame` that prints a line for each parameter. One row a parameter and run, indexed by
        ``parameter`` (variable and coordinates) and ``run``:

        ``mean``, ``sd``
            Posterior mean and standard deviation.
        ``shift``, ``shift_mcse``
            Difference of the means in reference standard deviations, and its Monte Carlo error.
        ``sd_ratio``, ``sd_ratio_mcse``
            Ratio of the standard deviations, and its Monte Carlo error.
        ``ks``, ``ks_mcse``
            Kolmogorov–Smirnov distance from the reference, in [0, 1], and the distance that runs of these
            effective sizes have on average when they agree.
        ``differs``
            Those of ``mean``, ``sd`` and ``distribution`` that differ by more than Monte Carlo error,
            separated by commas; empty where none does. ``not finite`` where a draw of either run is NaN or infinite.
        ``correlation``
            Of the draws with those of the reference in the same place: near zero, unless the runs share random numbers.
            NaN where they have no draws in the same places.
        ``ess``, ``ess_per_s``
            Bulk effective sample size, and the same per second of the sampling time that PyMC records (wall
            time over all chains, tuning included, compilation not).
        ``rows_per_draw``
            Mean rows read for a draw. For a run of NUTS its leapfrog steps times the rows of the data, for
            each takes a gradient over all of them. NaN where a run tells neither.

    Raises
    ------
    ValueError
        If the reference is not among the runs, nothing is left to compare it with, the level is not a
        probability, no variable is common to all runs, a variable differs in shape or coordinates, or a run was
        made with other data or another model than the reference.

    See Also
    --------
    plot_comparison : The marginal distributions beside those of the reference.

    Notes
    -----
    Monte Carlo errors of means are those of ``arviz.mcse``. That of a standard deviation follows from the
    error of the mean squared deviation :math:`v = s^2` by :math:`\mathrm{se}(s) = \mathrm{se}(v)/(2s)`. The
    distance :math:`D` of runs with effective sizes :math:`n` and :math:`n_0` is compared with Kolmogorov's law of
    :math:`D\sqrt{n n_0/(n + n_0)}`, with the effective sizes of the median (``arviz.ess(method="quantile")``).
    For autocorrelated draws that is on the safe side: distribution functions vary less in the tails. The
    errors are estimates from the same draws: with fewer than some hundred effective draws they are uncertain
    themselves, and chains that have not mixed (see ``arviz.rhat``) make them meaningless.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rows = np.random.default_rng(1).normal(size=5_000)
    >>> with pm.Model():
    ...     _ = pm.Normal("y", pm.Normal("mean"), 1, observed=rows)
    ...     settings = dict(tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    ...     approx = pm.sample(1000, step=pma.ApproxMH(), **settings)
    ...     exact = pm.sample(1000, step=pma.ExactMH(), **settings)
    >>> table = pma.compare({"approx": approx, "exact": exact}, reference="exact")
    >>> bool(abs(table.loc[("mean", "approx"), "shift"]) < 0.5)
    True
    >>> table.sharing  # both had random_seed=1
    ('approx',)
    """
    if not 0 < level < 1:
        raise ValueError(
            f"level: must lie strictly between 0 and 1, got {level}. It is the probability of any flag when "
            "the runs agree; 0.01 is the default."
        )
    names = comparable_variables(results, reference, var_names)
    for run, idata in results.items():
        if (n_draws := posterior_variables(idata, names).sizes["draw"]) < FEWEST_DRAWS:
            raise ValueError(
                f"results: the chains of {run!r} have {n_draws} draws, and Monte Carlo errors are defined for at least "
                f"{FEWEST_DRAWS}. Sample longer."
            )
    check_same_data(results, reference)
    summaries = {run: _summary(idata, names) for run, idata in results.items()}
    expected = summaries[reference]

    from scipy.stats import ks_2samp  # half a second to load, and only runs that are compared need it

    level_each = level / (_QUESTIONS * len(expected))
    draws = labelled_draws(results, names, reference)
    tables, sharing = {}, []
    for run, summary in summaries.items():
        table = _differences(summary, expected)
        correlation, shared = correlation_of_draws(*(_numbers(results[name], names) for name in (run, reference)))
        if shared and run != reference:
            sharing.append(run)
        table["correlation"] = np.nan if run == reference else correlation
        table["ks"] = [ks_2samp(draws[run][p], draws[reference][p], method="asymp").statistic for p in expected.index]
        table["ks_mcse"] = _KS_MEAN / np.sqrt(table.pop("size"))
        table["differs"] = _flags(table, level_each).where(summary["finite"] & expected["finite"], "not finite")
        if run == reference:
            table[["shift", "shift_mcse", "sd_ratio", "sd_ratio_mcse", "ks", "ks_mcse"]] = np.nan
            table["differs"] = ""
        table["ess"] = summary["ess"]
        table["ess_per_s"] = summary["ess"] / sampling_seconds(results[run])
        rows = evaluations_per_draw(results[run])
        table["rows_per_draw"] = np.nan if rows is None else float(rows.mean())
        tables[run] = table
    combined = pd.concat(tables, names=["run", "parameter"]).swaplevel()
    # Runs of one parameter together, both in the order given.
    found = Comparison(combined.loc[[(parameter, run) for parameter in expected.index for run in results]])
    found.attrs |= {"reference": reference, "sharing": sharing}
    return found


def _differences(summary: pd.DataFrame, expected: pd.DataFrame) -> pd.DataFrame:
    """Return the moments of a run and how they differ from those expected, and the size for the distance."""
    table = summary[["mean", "sd"]].copy()
    table["shift"] = (summary["mean"] - expected["mean"]) / expected["sd"]
    table["shift_mcse"] = np.hypot(summary["mcse_mean"], expected["mcse_mean"]) / expected["sd"]
    table["sd_ratio"] = summary["sd"] / expected["sd"]
    table["sd_ratio_mcse"] = np.hypot(summary["mcse_sd"], table["sd_ratio"] * expected["mcse_sd"]) / expected["sd"]
    size = summary["size"] * expected["size"] / (summary["size"] + expected["size"])
    table["size"] = size.where(np.isfinite(size), np.fmin(summary["size"], expected["size"]))
    return table


def _flags(table: pd.DataFrame, level: float) -> pd.Series:
    """Return what differs by more than Monte Carlo error at a level, in words, a row a parameter."""
    critical = -special.ndtri(level / 2)
    differ = {
        "mean": table["shift"].abs() > critical * table["shift_mcse"],
        "sd": (table["sd_ratio"] - 1).abs() > critical * table["sd_ratio_mcse"],
        "distribution": table["ks"] * _KS_MEAN > special.kolmogi(level) * table["ks_mcse"],
    }
    return pd.DataFrame(differ).apply(lambda row: ", ".join(row.index[row]), axis=1)


def _summary(idata: SamplingResult, names: Sequence[str]) -> pd.DataFrame:
    """Return moments, their Monte Carlo errors and effective sizes, a row a parameter."""
    draws, sample = _numbers(idata, names), ("chain", "draw")
    sd = draws.std(sample)
    squared_deviation = (draws - draws.mean(sample)) ** 2
    columns = {
        "mean": draws.mean(sample),
        "sd": sd,
        "mcse_mean": standard_errors(draws),
        # ArviZ's own, mcse(method="sd"), is the same number, but version 0.23 fails with recent NumPy.  A chain that
        # never moved has a standard deviation of exactly zero, without error.
        "mcse_sd": (standard_errors(squared_deviation) / (2 * sd)).where(sd > 0, 0.0),
        "ess": effective_draws(draws),
        "ess_median": effective_draws(draws, method="quantile", prob=0.5),
    }
    summary = pd.DataFrame({name: labelled(values) for name, values in columns.items()})
    summary["finite"] = labelled(draws.notnull().all(sample)) > 0
    # Draws of a chain that alternates may be worth more than their number for a mean, not for a distribution.
    effective = summary["ess_median"].fillna(summary["ess"]).clip(upper=draws.sizes["chain"] * draws.sizes["draw"])
    summary["size"] = effective.where(summary["sd"] > 0, np.inf)
    return summary


def _numbers(idata: SamplingResult, names: Sequence[str]) -> xr.Dataset:
    """Return draws with NaN for those that are infinite."""
    draws = posterior_variables(idata, names)
    return draws.where(np.isfinite(draws))
