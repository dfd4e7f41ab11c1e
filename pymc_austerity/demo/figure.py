"""The figure of the demo: effective draws against seconds, above the marginals."""

from collections.abc import Mapping
from typing import cast

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pymc_austerity.demo.runs import Run, effective_draws
from pymc_austerity.diagnostics import plot_comparison


def plot_waiting(runs: Mapping[str, Run], axes: Axes) -> None:
    """Plot what a user waits for: effective draws against seconds from the start of a process.

    A run that its deadline stopped ends in an arrow; one that was stopped while tuning is a hatched bar alone.
    """
    axes.set_yscale("log")
    longest = max(run.seconds for run in runs.values())
    for height, ((name, run), colour) in enumerate(zip(runs.items(), ("C0", "0.3"), strict=True)):
        first = run.seconds
        if run.idata is None:
            text, at = f"{name}: stopped after {run.seconds:,.0f} s, still tuning", (run.seconds, 2.0)
        else:
            seconds, smallest = effective_draws(run)
            first = seconds[0]
            axes.plot(seconds, smallest, marker=".", color=colour, label=name)
            text, at = f"{name}: {smallest[-1]:,.0f} after {seconds[-1]:,.0f} s", (seconds[-1], smallest[-1])
            if not run.finished:
                text += ", stopped there"
                axes.plot(*at, marker=">", color=colour)
        side = "left" if at[0] < longest / 2 else "right"  # of the panel, where there is room
        axes.annotate(text, at, xytext=(0, 8), textcoords="offset points", ha=side, color=colour)
        axes.axvspan(
            0, first, ymin=0.03 * height, ymax=0.03 * (height + 1), facecolor=colour, edgecolor="white", linewidth=0,
            hatch=None if run.idata is not None else "////",
        )  # fmt: skip
    axes.set(
        xlabel="seconds from the start of the process; bars: until the first draw is kept",
        ylabel="effective draws, slowest parameter",
    )
    axes.set_xlim(left=0, right=1.02 * longest)
    axes.set_ylim(bottom=1, top=3 * axes.get_ylim()[1])  # room for what is written above the last point


def figure(runs: Mapping[str, Run], n_parameters: int) -> Figure:
    """Return a figure of what was gained in how many seconds, above the marginals where both runs made draws."""
    results = {name: run.idata for name, run in runs.items() if run.idata is not None}
    n_panels = min(n_parameters, 12) if len(results) > 1 else 0
    columns = min(n_panels, 4)
    lines = -(-n_panels // columns) if columns else 0
    sheet = plt.figure(figsize=(11, 3.6 + 2 * lines), layout="constrained")
    if not lines:
        plot_waiting(runs, sheet.subplots())
        return sheet
    above, below = cast("np.ndarray", sheet.subfigures(2, 1, height_ratios=(3.6, 2 * lines)))
    panels = below.subplots(lines, columns, squeeze=False).ravel()
    for unused in panels[n_panels:]:
        unused.set_axis_off()
    plot_waiting(runs, above.subplots())
    plot_comparison(results, reference=list(results)[-1], max_panels=n_panels, axes=panels[:n_panels])
    return sheet
