"""Figures of what a run read and of its marginals beside a reference run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_austerity.diagnostics.results import (
    SamplingResult,
    comparable_variables,
    labelled_draws,
    number_of_distinct_rows,
    number_of_rows,
    rows_per_draw,
)
from pymc_austerity.user_input import takes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart with any kind of colour vision, dark ones first; line styles change
# along with them so that a print without colour still distinguishes the runs.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
LINE_STYLES = ("-", "--", "-.", ":")
BINS = 40


def style_of(number: int) -> dict[str, Any]:
    """Return the colour and the line style of the run of a number, which is told apart by either."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": LINE_STYLES[number % len(LINE_STYLES)]}


def new_panels(*grid: int, **options: Any) -> Any:
    """Return ``matplotlib.pyplot.subplots()``, loaded for the first figure: processes that draw chains have none."""
    import matplotlib.pyplot as plt

    return plt.subplots(*grid, layout="constrained", **options)


@takes()
def plot_data_usage(
    idata: SamplingResult, *, total_rows: int | None = None, axes: Sequence[Axes] | None = None
) -> np.ndarray:
    """Plot the rows read for each draw: their distribution, and their course along the chains.

    Axes that show rows are logarithmic: a sequential test reads few rows for most decisions and very many for
    the close ones, and a chain that has left the typical set shows as a change of level in the course.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What ``pm.sample`` returned for a step of this package.
    total_rows : int, optional
        Rows of the data. By default those that the step drew from, of all outcomes.
    axes : sequence of two matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    numpy.ndarray of Axes, shape (2,)
        The histogram and the course.

    Raises
    ------
    ValueError
        If no step of the run counted its rows, if the number of rows is unknown, or ``axes`` are not two.

    See Also
    --------
    data_usage : The same as numbers.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rows = np.random.default_rng(1).normal(size=20_000)
    >>> with pm.Model():
    ...     _ = pm.Normal("y", pm.Normal("mean"), 1, observed=rows)
    ...     idata = pm.sample(300, tune=300, chains=2, cores=1, step=pma.ApproxMH(), random_seed=1, progressbar=False)
    >>> histogram, course = pma.plot_data_usage(idata)
    >>> course.get_ylabel()
    'rows read'
    """
    rows = rows_per_draw(idata)
    total = number_of_distinct_rows(idata, number_of_rows(idata, total_rows))
    if axes is None:
        _, axes = new_panels(1, 2, figsize=(10, 3.6))
    if len(axes) != 2:
        raise ValueError(f"axes: two are needed, one for the histogram and one for the course, got {len(axes)}.")
    histogram, course = axes

    # A draw whose proposal has no prior density reads nothing, which a logarithmic axis cannot show.
    read = rows.to_numpy()[rows.to_numpy() > 0]
    low, high = (read.min(), max(read.max(), total)) if read.size else (1, total)
    bins = list(np.geomspace(low / 1.1, high * 1.1, BINS))
    histogram.hist(read, bins=bins, color="0.7", edgecolor="0.3", linewidth=0.5)
    histogram.axvline(float(rows.mean()), color=COLOURS[0], linestyle="-", label=f"mean {float(rows.mean()):,.0f}")
    histogram.axvline(total, color=COLOURS[1], linestyle="--", label=f"all rows {total:,}")
    unread = rows.size - read.size
    not_shown = f" ({unread:,} draws that read none are not shown)" if unread else ""
    histogram.set(xscale="log", yscale="log", xlabel=f"rows read{not_shown}", ylabel="draws")
    # Above the axes: inside, it would cover the lines it explains.
    histogram.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)

    for number, chain in enumerate(rows.transpose("chain", "draw").to_numpy()):
        # Rasterised: a vector file with a mark for each of 10^5 draws is unusable.
        style = style_of(number) | {"linestyle": "none", "marker": ".", "markersize": 2, "alpha": 0.5}
        course.plot(np.where(chain > 0, chain, np.nan), rasterized=True, **style)
    course.axhline(total, color=COLOURS[1], linestyle="--")
    course.set(yscale="log", xlabel="draw (colours: chains)", ylabel="rows read")
    return np.asarray(axes)


@takes()
def plot_comparison(
    results: Mapping[str, SamplingResult],
    *,
    reference: str,
    var_names: Sequence[str] | None = None,
    max_panels: int = 16,
    axes: Sequence[Axes] | None = None,
) -> np.ndarray:
    """Plot the marginal distribution of each parameter for several runs over that of a reference run.

    Histograms, not smoothed densities: every run is counted in the same bins, so a difference seen is one of the draws.

    Parameters
    ----------
    results : mapping of str to InferenceData or DataTree
        The runs by name, the reference among them.
    reference : str
        The name of the run drawn as the grey area.
    var_names : sequence of str, optional
        Variables to show; by default those that every run has.
    max_panels : int, default 16
        At most so many parameters are drawn, the first ones, with a warning about the others.
    axes : sequence of matplotlib Axes, optional
        Where to draw, one for each parameter shown; a new figure by default.

    Returns
    -------
    numpy.ndarray of Axes, shape (parameters shown,)

    Raises
    ------
    ValueError
        If the reference is not among the runs or nothing is left to compare it with, no variable is common to
        all runs, a variable differs in shape or coordinates, or ``axes`` are too few.

    See Also
    --------
    compare : The same as numbers, with Monte Carlo errors.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_austerity as pma
    >>> rows = np.random.default_rng(1).normal(size=5_000)
    >>> with pm.Model():
    ...     _ = pm.Normal("y", pm.Normal("mean"), 1, observed=rows)
    ...     settings = dict(tune=500, chains=2, cores=1, random_seed=1, progressbar=False)
    ...     approx = pm.sample(1000, step=pma.ApproxMH(), **settings)
    ...     exact = pm.sample(1000, step=pma.ExactMH(), **settings)
    >>> (panel,) = pma.plot_comparison({"approx": approx, "exact": exact}, reference="exact")
    >>> panel.get_title()
    'mean'
    """
    if max_panels < 1:
        raise ValueError(f"plot_comparison: max_panels={max_panels} must be at least 1.")
    names = comparable_variables(results, reference, var_names)
    draws = labelled_draws(results, names, reference)
    parameters = [str(parameter) for parameter in draws[reference].columns]
    if len(parameters) > max_panels:
        warnings.warn(
            f"plot_comparison: {len(parameters)} parameters, of which the first {max_panels} are drawn. "
            "Choose with var_names=, or raise max_panels=.",
            stacklevel=3,
        )
        parameters = parameters[:max_panels]
    panels = _new_panels(len(parameters)) if axes is None else np.asarray(axes)
    if len(panels) < len(parameters):
        raise ValueError(f"axes: {len(parameters)} parameters need as many axes, got {len(panels)}.")

    for panel, parameter in zip(panels, parameters):
        pooled = np.concatenate([values[parameter] for values in draws.values()])
        # Bins fine enough for the reference, wide enough for all: a run that strays is seen, not cut off.
        edges = list(np.histogram_bin_edges(pooled, bins=BINS))
        panel.hist(draws[reference][parameter], edges, density=True, color="0.8", label=reference)
        for number, run in enumerate(run for run in results if run != reference):
            outline = {"histtype": "step", "linewidth": 1.4, "label": run, **style_of(number)}
            panel.hist(draws[run][parameter], edges, density=True, **outline)
        panel.set_title(parameter)
        panel.set_yticks([])
        panel.locator_params(axis="x", nbins=4)  # more labels run into each other
    panels[0].legend(frameon=False, fontsize="small")
    return panels[: len(parameters)]


def _new_panels(number: int) -> np.ndarray:
    """Return that many Axes of a new figure, four in a line."""
    columns = min(4, number)
    lines = -(-number // columns)
    figure, grid = new_panels(lines, columns, figsize=(3 * columns, 2.3 * lines), squeeze=False)
    for unused in grid.ravel()[number:]:
        figure.delaxes(unused)
    return grid.ravel()[:number]
