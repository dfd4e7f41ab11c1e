"""Figures of how decisions were made and of what they did to the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_austerity.diagnostics.convergence import standard_errors
from pymc_austerity.diagnostics.plots import COLOURS, new_panels, style_of
from pymc_austerity.diagnostics.reliability_report import Reliability
from pymc_austerity.diagnostics.results import (
    SamplingResult,
    check_labels,
    comparable_variables,
    evaluations_per_draw,
    group,
    labelled,
    over_steps,
    posterior_variables,
)
from pymc_austerity.user_input import takes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Decisions drawn one by one at most: more cover each other.
_MOST_DECISIONS = 400
#: Points of a curve of errors.
_POINTS = 60
#: Points with a bar of their error.
_BARS: dict[str, Any] = {"linestyle": "none", "markersize": 3.5, "ecolor": "0.75", "elinewidth": 0.8}


@takes()
def plot_decisions(idata: SamplingResult, *, ax: Axes | None = None) -> Axes:
    """Plot the estimated log acceptance ratio of each decision against the threshold that it was compared with.

    A decision above the diagonal accepted. Where the vertical bar, one standard error to either side, crosses the
    diagonal, all rows might have decided otherwise: for a test that decides against a fixed threshold such decisions
    are errors waiting to happen, and should be few.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned for a step of this package.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If no step of the run recorded its thresholds.

    See Also
    --------
    reliability : The probability that decisions were wrong.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rows = np.random.default_rng(1).normal(size=20_000)
    >>> with pm.Model():
    ...     _ = pm.Normal("y", pm.Normal("mean"), 1, observed=rows)
    ...     idata = pm.sample(300, tune=300, chains=2, cores=1, step=pma.ApproxMH(), random_seed=1, progressbar=False)
    >>> pma.plot_decisions(idata).get_xlabel()
    'threshold'
    """
    stats = group(idata, "sample_stats")
    if "threshold" not in stats or not np.isfinite(stats["threshold"]).any():
        raise ValueError(
            f"idata: no threshold in its sample_stats (found {sorted(map(str, stats.data_vars))}), so no step of this "
            "run recorded what its decisions were compared with. Pass a run made with a step of pymc_austerity."
        )
    names = ("threshold", "log_ratio", "log_ratio_sd", "full_data")
    threshold, ratio, sd, full = (over_steps(stats[name]).to_numpy().ravel() for name in names)
    full = full.astype(bool)
    shown = np.flatnonzero(np.isfinite(threshold) & np.isfinite(ratio))
    left_out = threshold.size - shown.size
    shown = shown[:: -(-shown.size // _MOST_DECISIONS)]
    if ax is None:
        _, ax = new_panels(figsize=(5.2, 4.2))
    low = float(threshold[shown].min())
    # Thresholds are of order one whatever the data, estimates may be anything: linear as far as the diagonal reaches.
    linear = max(1.0, -1.1 * low)
    if np.abs(ratio[shown]).max(initial=0.0) > linear:
        ax.set_yscale("symlog", linthresh=linear)
    line = np.linspace(low, max(0.0, float(threshold[shown].max())), 50)
    ax.plot(line, line, color="0.2", linewidth=1, label="threshold")
    for chosen, marker, colour, label in (
        (shown[~full[shown]], "o", COLOURS[0], "decided on a part"),
        (shown[full[shown]], "x", COLOURS[1], "on all rows"),
    ):
        if chosen.size:
            style = {"marker": marker, "color": colour, "label": label} | _BARS
            ax.errorbar(threshold[chosen], ratio[chosen], yerr=sd[chosen], **style)
    unseen = f" ({left_out:,} draws without a decision not shown)" if left_out else ""
    ax.set(xlabel=f"threshold{unseen}", ylabel="estimated log acceptance ratio ± se")
    # Above the axes: inside, it would cover decisions.
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=3, columnspacing=1)
    return ax


@takes(report=Reliability)
def plot_spot_check(report: Reliability, *, ax: Axes | None = None) -> Axes:
    """Plot how often the test moves there and back, for every proposal of a spot check.

    Both as seen from the more probable of the two states.  On the diagonal a move and its reverse are in balance, and
    the chain keeps the posterior; how far up they lie is a matter of speed alone.

    Parameters
    ----------
    report : Reliability
        What `reliability` returned.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        For a report without a spot check.

    See Also
    --------
    reliability : The check itself, with intervals and a verdict.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rows = np.random.default_rng(1).normal(size=2_000)
    >>> with pm.Model() as model:
    ...     _ = pm.Normal("y", pm.Normal("mean"), 1, observed=rows)
    ...     idata = pm.sample(500, tune=500, chains=2, cores=1, step=pma.ExactMH(), random_seed=1, progressbar=False)
    >>> ax = pma.plot_spot_check(pma.reliability(idata, model, n_states=20))
    >>> ax.get_ylabel()
    'moves there'
    """
    if "there" not in report.states:
        raise ValueError(
            "plot_spot_check: report= has no spot check: decisions of exact steps have none unless "
            "reliability(..., n_states=40) asks for it, and groups have none."
        )
    if ax is None:
        _, ax = new_panels(figsize=(4.2, 4))
    there, back, se = (report.states[name].to_numpy() for name in ("there", "back", "error_se"))
    ax.plot([0, 1], [0, 1], color="0.2", linewidth=1)
    ax.errorbar(back, there, yerr=2 * se, marker="o", color=COLOURS[0], **_BARS)
    limits = (-0.04, 1.04)
    ax.set(xlabel="moves back", ylabel="moves there", title=report.verdict, xlim=limits, ylim=limits, aspect="equal")
    return ax


@takes()
def plot_error(
    results: Mapping[str, SamplingResult],
    *,
    reference: str,
    var_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot how the error of the posterior means falls with the rows read.

    The error is the root mean square, over all parameters, of the difference between the mean of the draws so far and
    that of the whole reference run, in reference standard deviations. A biased run stops falling; the dashed line is
    the Monte Carlo error of the reference, below which nothing can be seen.

    Parameters
    ----------
    results : mapping of str to InferenceData or DataTree
        The runs by name, the reference among them.
    reference : str
        The name of the run to compare with.
    var_names : sequence of str, optional
        Variables to compare; by default those that every run has.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If the reference is not among the runs or nothing is left to compare it with, no variable is common to all
        runs, a variable differs in shape or coordinates, or a run does not tell what it read.

    See Also
    --------
    compare : The errors at the end of the runs, parameter by parameter.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rows = np.random.default_rng(1).normal(size=5_000)
    >>> with pm.Model():
    ...     _ = pm.Normal("y", pm.Normal("mean"), 1, observed=rows)
    ...     settings = dict(tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    ...     approx = pm.sample(1000, step=pma.ApproxMH(), **settings)
    ...     exact = pm.sample(1000, step=pma.ExactMH(), **settings)
    >>> pma.plot_error({"approx": approx, "exact": exact}, reference="exact").get_xscale()
    'log'
    """
    names = comparable_variables(results, reference, var_names)
    expected = posterior_variables(results[reference], names)
    sample = ("chain", "draw")
    centre, spread = labelled(expected.mean(sample)), labelled(expected.std(sample))
    if ax is None:
        _, ax = new_panels(figsize=(5.6, 3.8))
    for number, run in enumerate(r for r in results if r != reference):
        draws = posterior_variables(results[run], names)
        check_labels({run: labelled(draws.mean(sample)).index, reference: centre.index}, reference)
        rows = evaluations_per_draw(results[run])
        if rows is None:
            raise ValueError(
                f"results: {run!r} has neither n_rows nor n_steps in its sample_stats (or no observed_data), so what "
                "it read is unknown. Leave it out, or keep its sample_stats."
            )
        read = rows.sum("chain").cumsum("draw").to_numpy()
        ends = np.unique(np.geomspace(1, draws.sizes["draw"], _POINTS).astype(int))
        errors = [
            float(np.sqrt(np.mean(((labelled(draws.isel(draw=slice(n)).mean(sample)) - centre) / spread) ** 2)))
            for n in ends
        ]
        ax.plot(read[ends - 1], errors, label=run, **style_of(number))
    noise = labelled(standard_errors(expected)) / spread
    ax.axhline(float(np.sqrt(np.mean(noise**2))), color="0.4", linestyle=(0, (4, 3)), linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="rows read, all chains", ylabel="error of the means, posterior sd")
    ax.legend(frameon=False, fontsize="small")
    return ax
