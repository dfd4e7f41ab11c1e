"""A regression on real rows with ``PenaltyMH`` and with NUTS: ``python -m pymc_austerity.demo``."""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from matplotlib.figure import Figure

from pymc_austerity.diagnostics import SamplingResult, compare, data_usage, plot_comparison, plot_data_usage
from pymc_austerity.steps import PenaltyMH

FAMILIES = {"yes/no": "logistic", "count": "negative binomial", "measurement": "linear"}


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


def figure(results: dict[str, SamplingResult], n_parameters: int) -> Figure:
    """Return a figure of the rows that PenaltyMH read, above the marginals of both runs."""
    n_panels = min(n_parameters, 12)
    columns = min(n_panels, 4)
    lines = -(-n_panels // columns)
    sheet = plt.figure(figsize=(11, 3.2 + 2 * lines), layout="constrained")
    above, below = cast("np.ndarray", sheet.subfigures(2, 1, height_ratios=(3.2, 2 * lines)))
    panels = below.subplots(lines, columns, squeeze=False).ravel()
    for unused in panels[n_panels:]:
        unused.set_axis_off()
    plot_data_usage(results["PenaltyMH"], axes=above.subplots(1, 2))
    plot_comparison(results, reference="NUTS", max_panels=n_panels, axes=panels[:n_panels])
    return sheet


def report(results: dict[str, SamplingResult], seconds: dict[str, float], table: pd.DataFrame) -> list[str]:
    """Return what was read, how long it took and how far the two runs agree, a line each."""
    lines = []
    for run, idata in results.items():
        sizes, of_run = idata["posterior"].sizes, table.xs(run, level="run")
        lines.append(
            f"{run:9} {sizes['chain']} x {sizes['draw']:,} draws, {of_run['rows_per_draw'].iloc[0]:,.0f} "
            f"rows each, smallest ESS {of_run['ess'].min():,.0f}, {seconds[run]:.0f} s with tuning, compiling"
        )
    usage, ours = data_usage(results["PenaltyMH"]), table.xs("PenaltyMH", level="run")
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
    parser.add_argument("--data", type=Path, help=".npz file with X (rows, covariates) and y (rows,)")
    parser.add_argument("--chains", type=int, default=4, help="chains of each run (%(default)s)")
    parser.add_argument("--draws", type=int, default=6_000, help="draws a chain of PenaltyMH (%(default)s)")
    parser.add_argument("--tune", type=int, default=300, help="tuning draws a chain of it (%(default)s)")
    parser.add_argument("--nuts-draws", type=int, default=500, help="draws a chain of NUTS (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of both runs (%(default)s)")
    parser.add_argument("--figure", type=Path, default=Path("output/demo.png"), help="figure file (%(default)s)")
    chosen = parser.parse_args(arguments)

    try:
        X, y = rows_from_file(chosen.data) if chosen.data else rand_health_insurance()
    except (OSError, ValueError, ModuleNotFoundError) as error:
        parser.error(str(error))
    source = chosen.data or "who saw a doctor in the RAND Health Insurance Experiment"
    print(f"{len(X):,} rows, {X.shape[1]} covariates: {source}; {FAMILIES[kind_of(y)]} regression", flush=True)

    results, seconds = {}, {}
    with regression(X, y):
        # Named because PyMC takes every second core for a thread of the first, and two cores are then one.
        cores = min(chosen.chains, os.cpu_count() or 1)
        common = {"chains": chosen.chains, "cores": cores, "random_seed": chosen.seed}
        started = time.perf_counter()
        step = PenaltyMH()
        results["PenaltyMH"] = pm.sample(chosen.draws, tune=chosen.tune, step=step, **common)
        seconds["PenaltyMH"] = time.perf_counter() - started
        started = time.perf_counter()
        results["NUTS"] = pm.sample(chosen.nuts_draws, tune=chosen.nuts_draws, **common)
        seconds["NUTS"] = time.perf_counter() - started

    table = compare(results, reference="NUTS")
    chosen.figure.parent.mkdir(parents=True, exist_ok=True)
    figure(results, n_parameters=table.index.unique("parameter").size).savefig(chosen.figure, dpi=150)
    with pd.option_context("display.width", 160, "display.max_columns", None, "display.precision", 3):
        print("\n".join(["", *report(results, seconds, table)]))
        print(f"\nPenaltyMH, ArviZ summary\n{az.summary(results['PenaltyMH'])}")
        print(f"\nPenaltyMH against NUTS\n{table}")
    print(f"\nFigure: {chosen.figure}")


if __name__ == "__main__":
    main()
