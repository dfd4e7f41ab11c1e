"""Sampling until a deadline by a step or by NUTS, what had been drawn by when, and the figure of it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pymc_austerity.diagnostics import SamplingResult, plot_comparison

#: Lengths of a run, as shares of its draws, at which its effective draws are counted.
SHARES = np.geomspace(0.01, 1, 12)
#: Draws a chain below which ArviZ gives no effective draws.
FEWEST_DRAWS = 4


class Run(NamedTuple):
    """A run of a sampler."""

    #: None where the deadline came before the fourth kept draw of a chain.
    idata: SamplingResult | None
    #: From the start of the process to the end of the run.
    seconds: float
    #: Seconds from the start of the process until every chain had made its k-th kept draw.
    arrivals: np.ndarray
    finished: bool


class Deadline:
    """A callback of ``pm.sample`` that notes when each kept draw arrives, and stops sampling after `limit` seconds.

    Seconds of the process `before` this object was made, of imports, count too.
    """

    def __init__(self, before: float, limit: float = np.inf):
        self._zero = time.perf_counter() - before
        self.limit = limit
        self._kept: dict[int, list[float]] = {}
        self.passed = False

    @property
    def seconds(self) -> float:
        """Seconds that count for the run so far."""
        return time.perf_counter() - self._zero

    def __call__(self, trace: Any, draw: Any) -> None:
        """Note a draw; after the limit raise KeyboardInterrupt, which is how PyMC lets a callback end a run."""
        if not draw.tuning:
            self._kept.setdefault(draw.chain, []).append(self.seconds)
        if self.seconds > self.limit:
            self.passed = True
            raise KeyboardInterrupt

    def arrivals(self, chains: Sequence[int], n_draws: int) -> np.ndarray:
        """Return the seconds until the last of these chains had made its k-th kept draw, of shape (n_draws,)."""
        return np.max([self._kept[chain][:n_draws] for chain in chains], axis=0)


def run_until(deadline: Deadline, **options: Any) -> Run:
    """Sample the model of the context with ``pm.sample``, until a deadline."""
    try:
        idata = pm.sample(callback=deadline, **options)
    except ValueError:
        if not deadline.passed:
            raise
        idata = None  # PyMC makes no result of a run that was stopped while tuning
    seconds = deadline.seconds
    if idata is None or idata["posterior"].sizes["draw"] < FEWEST_DRAWS:
        return Run(None, seconds, np.empty(0), finished=False)
    posterior = idata["posterior"]
    arrivals = deadline.arrivals(posterior["chain"].values.tolist(), posterior.sizes["draw"])
    return Run(idata, seconds, arrivals, finished=not deadline.passed)


def nutpie_until(deadline: Deadline, *, draws: int, tune: int, chains: int, cores: int, random_seed: int) -> Run:
    """Sample the model of the context with nutpie's NUTS, until a deadline."""
    import nutpie

    compiled = nutpie.compile_pymc_model(pm.modelcontext(None))
    started = deadline.seconds
    sampler = nutpie.sample(
        compiled, draws=draws, tune=tune, chains=chains, cores=cores, seed=random_seed, blocking=False
    )
    try:
        idata, finished = sampler.wait(timeout=max(0.0, deadline.limit - deadline.seconds)), True
    except TimeoutError:
        with warnings.catch_warnings():  # of fewer draws than chains
            warnings.simplefilter("ignore", UserWarning)
            idata, finished = sampler.abort(), False
    seconds = deadline.seconds
    # Chains that were stopped differ in length; the shorter ones are filled up with NaN.
    first = next(iter(idata["posterior"].data_vars.values()))
    n_draws = int(first.notnull().all([dim for dim in first.dims if dim != "draw"]).sum())
    if n_draws < FEWEST_DRAWS:
        return Run(None, seconds, np.empty(0), finished)
    # nutpie keeps no times, and takes as long as it evaluates gradients, whose numbers it keeps.
    tuning, drawing = (idata[group]["n_steps"].values for group in ("warmup_sample_stats", "sample_stats"))
    gradients = tuning.sum(axis=1, keepdims=True) + drawing[:, :n_draws].cumsum(axis=1)
    arrivals = started + (seconds - started) * (gradients / gradients[:, -1:]).max(axis=0)
    idata = idata.isel(draw=slice(0, n_draws))
    return Run(idata, seconds, arrivals, finished)


def effective_draws(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds since the start of the process, and the effective draws of the slowest parameter by then."""
    assert run.idata is not None
    posterior = run.idata["posterior"]
    kept = np.unique(np.maximum(FEWEST_DRAWS, (SHARES * posterior.sizes["draw"]).astype(int)))
    ess = [az.ess(posterior.isel(draw=slice(0, k))) for k in kept]
    smallest = [min(float(values.min()) for values in of.values()) for of in ess]
    return run.arrivals[kept - 1], np.array(smallest)


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
