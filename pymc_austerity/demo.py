"""A regression on real rows with ``PenaltyMH`` and with NUTS: ``python -m pymc_austerity.demo``."""

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import special

from pymc_austerity.diagnostics import SamplingResult, compare, data_usage, plot_comparison
from pymc_austerity.setup_settings import setup_settings
from pymc_austerity.steps import PenaltyMH

FAMILIES = {"yes/no": "logistic", "count": "negative binomial", "measurement": "linear"}
#: Lengths of a run, as shares of its draws, at which its effective draws are counted.
SHARES = np.geomspace(0.01, 1, 12)


class Timed(NamedTuple):
    """A run, and the seconds that it took.

    Attributes
    ----------
    idata : InferenceData or DataTree
    before : float
        From the start of a process to the first draw that is kept: imports, compilation, set-up and tuning.
    drawing : float
        From there to the last draw.
    """

    idata: SamplingResult
    before: float
    drawing: float


def rand_health_insurance() -> tuple[pd.DataFrame, np.ndarray]:
    """Return covariates of the RAND Health Insurance Experiment, and who saw a doctor.

    Returns
    -------
    X : pandas.DataFrame, shape (20190, 9)
        Insurance plan and health of a person in a year.
    y : numpy.ndarray of int, shape (20190,)
        1 for an outpatient visit to a physician in that year, else 0.

    Raises
    ------
    ModuleNotFoundError
        If statsmodels, which carries the data, is not installed.

    References
    ----------
    W. G. Manning et al., Health Insurance and the Demand for Medical Care: Evidence from a Randomized
    Experiment, American Economic Review 77(3), 1987; in the form of A. C. Cameron and P. K. Trivedi,
    Microeconometrics, Cambridge 2005. The data are in the public domain.
    """
    try:
        from statsmodels.datasets import randhie
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "statsmodels, which carries the demo's data, is not installed. "
            "Run `pip install 'pymc-austerity[demo]'`, or give rows of your own with --data file.npz."
        ) from error
    rows = randhie.load_pandas().data
    return rows.drop(columns="mdvis"), (rows["mdvis"] > 0).to_numpy().astype(int)


def rows_from_file(path: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the arrays ``X`` and ``y`` of a file written by ``numpy.savez``.

    Parameters
    ----------
    path : Path
        An ``.npz`` file with ``X``, shape (rows, covariates), and ``y``, shape (rows,).

    Returns
    -------
    X : pandas.DataFrame, shape (rows, covariates)
    y : numpy.ndarray, shape (rows,)

    Raises
    ------
    ValueError
        If an array is missing, has the wrong shape, is not numeric, or holds values that are not finite.
    """
    with np.load(path) as arrays:
        missing = {"X", "y"} - set(arrays.files)
        if missing:
            raise ValueError(
                f"{path}: no array {' and '.join(sorted(missing))} (found {arrays.files}), so there is "
                "nothing to regress. Save it with numpy.savez(path, X=..., y=...)."
            )
        X, y = arrays["X"], arrays["y"]
    if X.ndim != 2 or y.shape != X.shape[:1] or not X.size:
        raise ValueError(
            f"{path}: X has shape {X.shape} and y {y.shape}; X must be (rows, covariates) and y (rows,), so "
            "that row i of one belongs to row i of the other."
        )
    for name, array in {"X": X, "y": y}.items():
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{path}: {name} holds {array.dtype}, not numbers. Encode categories as numbers.")
        if not np.isfinite(array).all():
            raise ValueError(f"{path}: {name} holds NaN or infinite values. Remove or impute those rows.")
    return pd.DataFrame(X).rename(columns=lambda column: f"x{column}"), y


def kind_of(y: np.ndarray) -> str:
    """Say whether an outcome is a yes/no, a count or a measurement."""
    if np.isin(y, (0, 1)).all():
        return "yes/no"
    return "count" if (y >= 0).all() and (y == np.round(y)).all() else "measurement"


def regression(X: pd.DataFrame, y: np.ndarray) -> pm.Model:
    """Return a regression of ``y`` on the standardised columns of ``X``, of the family that fits ``y``.

    Parameters
    ----------
    X : pandas.DataFrame, shape (rows, covariates)
        Constant columns are left out, for the model has an intercept.
    y : numpy.ndarray, shape (rows,)

    Returns
    -------
    pymc.Model
        Logistic for 0/1, negative binomial for counts, linear with normal errors otherwise.
    """
    varying = X.loc[:, X.nunique() > 1]
    # Here and not in the model: a mean over rows inside the graph would tie every row to all others.
    Z = ((varying - varying.mean()) / varying.std()).to_numpy()
    kind = kind_of(y)
    with pm.Model(coords={"covariate": list(varying.columns)}) as model:
        intercept = pm.Normal("intercept", 0, 2.5)
        beta = pm.Normal("beta", 0, 1, dims="covariate")
        linear = intercept + Z @ beta
        if kind == "yes/no":
            pm.Bernoulli("y", logit_p=linear, observed=y)
        elif kind == "count":
            # Real counts vary more than a Poisson variable does; alpha takes that up.
            alpha = pm.Exponential("alpha", 1)
            pm.NegativeBinomial("y", mu=pm.math.exp(linear), alpha=alpha, observed=y)
        else:
            sigma = pm.HalfNormal("sigma", 1)
            pm.Normal("y", linear, sigma, observed=(y - y.mean()) / y.std())
    return model


def synthetic(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table of any size: nine independent normal covariates and a yes/no with known slopes.

    Parameters
    ----------
    n_rows : int
    seed : int

    Returns
    -------
    X : pandas.DataFrame, shape (n_rows, 9)
    y : numpy.ndarray of int, shape (n_rows,)

    Raises
    ------
    ValueError
        For fewer than a hundred rows, which leave nothing to subsample.
    """
    if n_rows < 100:
        raise ValueError(f"--rows {n_rows}: a table of at least 100 rows is needed to draw some of them.")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 9))
    y = rng.random(n_rows) < special.expit(-0.5 + X @ np.linspace(-0.8, 0.8, 9))
    return pd.DataFrame(X).rename(columns=lambda column: f"x{column}"), y.astype(int)


def seconds_since_start() -> float:
    """Return how long ago this process began.

    Raises
    ------
    ModuleNotFoundError
        If psutil, which knows, is not installed.
    """
    try:
        import psutil
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "psutil, which knows when a process began, is not installed. Run `pip install 'pymc-austerity[demo]'`."
        ) from error
    return time.time() - psutil.Process().create_time()


def timed(idata: SamplingResult, seconds: float, imports: float, tune: int) -> Timed:
    """Divide the seconds of a run into those before the first draw that is kept and those of drawing.

    Parameters
    ----------
    idata : InferenceData or DataTree
    seconds : float
        From the first line of set-up to the last draw.
    imports : float
        From the start of the process to the first line of the demo.
    tune : int
        Tuning draws a chain, which are taken to last as long as others.
    """
    draws = idata["posterior"].sizes["draw"]
    drawing = idata["posterior"].attrs["sampling_time"] * draws / (draws + tune)
    return Timed(idata, imports + seconds - drawing, drawing)


def effective_draws(run: Timed) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds since the start of a process, and the effective draws of the slowest parameter by then."""
    posterior = run.idata["posterior"]
    n_draws = posterior.sizes["draw"]
    kept = np.unique(np.maximum(4, (SHARES * n_draws).astype(int)))  # ArviZ asks for four
    ess = [az.ess(posterior.isel(draw=slice(0, k))) for k in kept]
    smallest = [min(float(values.min()) for values in of.values()) for of in ess]
    return run.before + run.drawing * kept / n_draws, np.array(smallest)


def plot_waiting(runs: Mapping[str, Timed], axes: Axes) -> None:
    """Plot what a user waits for: effective draws against seconds from the start of a process."""
    axes.set_yscale("log")
    for height, ((name, run), colour) in enumerate(zip(runs.items(), ("C0", "0.3"), strict=True)):
        seconds, smallest = effective_draws(run)
        axes.plot(seconds, smallest, marker=".", color=colour, label=name)
        axes.annotate(
            f"{name}: {smallest[-1]:,.0f} after {seconds[-1]:,.0f} s", (seconds[-1], smallest[-1]),
            xytext=(0, 6), textcoords="offset points", ha="right", color=colour,
        )  # fmt: skip
        axes.axvspan(0, seconds[0], ymin=0.025 * height, ymax=0.025 * (height + 1), color=colour, linewidth=0)
    axes.set(
        xlabel="seconds from the start of a process; bars: until the first draw is kept",
        ylabel="effective draws, slowest parameter",
    )
    axes.set_xlim(left=0)
    axes.set_ylim(top=3 * axes.get_ylim()[1])  # room for what is written above the last point


def figure(runs: Mapping[str, Timed], n_parameters: int) -> Figure:
    """Return a figure of what was gained in how many seconds, above the marginals of both runs."""
    n_panels = min(n_parameters, 12)
    columns = min(n_panels, 4)
    lines = -(-n_panels // columns)
    sheet = plt.figure(figsize=(11, 3.6 + 2 * lines), layout="constrained")
    above, below = cast("np.ndarray", sheet.subfigures(2, 1, height_ratios=(3.6, 2 * lines)))
    panels = below.subplots(lines, columns, squeeze=False).ravel()
    for unused in panels[n_panels:]:
        unused.set_axis_off()
    plot_waiting(runs, above.subplots())
    results = {name: run.idata for name, run in runs.items()}
    plot_comparison(results, reference="NUTS", max_panels=n_panels, axes=panels[:n_panels])
    return sheet


def report(runs: Mapping[str, Timed], table: pd.DataFrame) -> list[str]:
    """Return what was read, how long it took and how far the two runs agree, a line each."""
    lines = []
    for name, run in runs.items():
        sizes, of_run = run.idata["posterior"].sizes, table.xs(name, level="run")
        lines.append(
            f"{name:9} {sizes['chain']} x {sizes['draw']:,} draws, {of_run['rows_per_draw'].iloc[0]:,.0f} "
            f"rows each, smallest ESS {of_run['ess'].min():,.0f}; {run.before:.0f} s from the start of a process "
            f"to the first draw, {run.drawing:.1f} s of drawing"
        )
    usage, ours = data_usage(runs["PenaltyMH"].idata), table.xs("PenaltyMH", level="run")
    lines.append(
        f"read      by PenaltyMH: {usage['share']:.0%} of the data a draw, "
        f"at most {usage['median']:,.0f} rows in half of the draws, all rows in {usage['full_scans']:.1%}"
    )
    largest = ours.iloc[int(ours["shift"].abs().argmax())]
    lines.append(
        f"agreement largest shift {largest['shift']:+.2f} posterior sd, Monte Carlo error "
        f"{largest['shift_mcse']:.2f}; {(ours['differs'] != '').sum()} of {len(ours)} parameters differ"
    )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample a regression on real rows with PenaltyMH and with NUTS, and compare results and costs.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m pymc_austerity.demo",
        description="Sample a regression on real rows with PenaltyMH and with NUTS, and compare them.",
    )
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--data", type=Path, help=".npz file with X (rows, covariates) and y (rows,)")
    rows.add_argument("--rows", type=int, help="a synthetic table of so many rows")
    parser.add_argument("--chains", type=int, default=4, help="chains of each run (%(default)s)")
    parser.add_argument("--draws", type=int, default=1_000, help="draws a chain of PenaltyMH (%(default)s)")
    parser.add_argument("--tune", type=int, default=300, help="tuning draws a chain of it (%(default)s)")
    # Four chains make the 400 effective draws that are asked for before R-hat and quantiles are read; more would be
    # two thirds of the time of the demo, and add to the curve only length.
    parser.add_argument(
        "--nuts-draws", type=int, default=100, help="draws a chain of NUTS, and tuning draws before them (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of both runs (%(default)s)")
    parser.add_argument("--figure", type=Path, default=Path("output/demo.png"), help="figure file (%(default)s)")
    chosen = parser.parse_args(arguments)
    try:
        imports = seconds_since_start()  # both runs share the imports, and a user waits for them in either
        X, y, source = _rows(chosen)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        parser.error(str(error))
    print(f"{len(X):,} rows, {X.shape[1]} covariates: {source}; {FAMILIES[kind_of(y)]} regression", flush=True)

    with regression(X, y):
        # Named because PyMC takes every second core for a thread of the first, and two cores are then one.
        cores = min(chosen.chains, os.cpu_count() or 1)
        common = {"chains": chosen.chains, "cores": cores, "random_seed": chosen.seed}
        started = time.perf_counter()
        ours = pm.sample(chosen.draws, tune=chosen.tune, step=PenaltyMH(), **common)
        between = time.perf_counter()
        nuts = pm.sample(chosen.nuts_draws, tune=chosen.nuts_draws, **common)
        ended = time.perf_counter()

    runs = {
        "PenaltyMH": timed(ours, between - started, imports, chosen.tune),
        "NUTS": timed(nuts, ended - between, imports, chosen.nuts_draws),
    }
    table = compare({name: run.idata for name, run in runs.items()}, reference="NUTS")
    chosen.figure.parent.mkdir(parents=True, exist_ok=True)
    figure(runs, n_parameters=table.index.unique("parameter").size).savefig(chosen.figure, dpi=150)
    with pd.option_context("display.width", 160, "display.max_columns", None, "display.precision", 3):
        print("\n".join(["", *report(runs, table)]))
        print(f"\nPenaltyMH, ArviZ summary\n{az.summary(ours)}")
        print(f"\nPenaltyMH against NUTS\n{table}")
    print(f"\nFigure: {chosen.figure}")


def _rows(chosen: argparse.Namespace) -> tuple[pd.DataFrame, np.ndarray, str]:
    """Return the covariates and the outcome that were asked for, and where they are from."""
    if chosen.data:
        return *rows_from_file(chosen.data), str(chosen.data)
    if chosen.rows is not None:
        return *synthetic(chosen.rows, chosen.seed), "a synthetic table"
    return *rand_health_insurance(), "who saw a doctor in the RAND Health Insurance Experiment"


if __name__ == "__main__":
    with setup_settings():  # both samplers compile
        main()
