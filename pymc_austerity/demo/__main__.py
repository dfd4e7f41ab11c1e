"""The command ``python -m pymc_austerity.demo``."""

import argparse
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from matplotlib.figure import Figure

from pymc_austerity.demo.regression import (
    FAMILIES,
    STEPS,
    kind_of,
    rand_health_insurance,
    regression,
    rows_from_file,
    synthetic,
)
from pymc_austerity.diagnostics import compare, data_usage, plot_comparison

#: Lengths of a run, as shares of its draws, at which its effective draws are counted; ArviZ wants four draws a chain.
_SHARES, _FEWEST_DRAWS = np.geomspace(0.01, 1, 12), 4
#: Seconds that NUTS has in any case.
_LEAST = 20


class Run(NamedTuple):
    """A run of a sampler; seconds are those since the start of the process."""

    idata: Any  # what the sampler returned; None where it was stopped before the fourth kept draw of a chain
    began: float  # when every chain had kept a draw
    ended: float
    finished: bool
    progress: str  # the draw of a chain at which it ended, tuning included, as "12 of 600"


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample a regression with the recommended step and with NUTS, and compare results and costs."""
    parser = argparse.ArgumentParser(
        prog="python -m pymc_austerity.demo",
        description="Sample a regression with the recommended step and with NUTS, and compare them.",
    )
    cores = os.cpu_count() or 1
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--rows", type=int, default=1_000_000, help="rows of a made-up table (%(default)s)")
    rows.add_argument("--data", type=Path, help=".npz file with X (rows, covariates) and y (rows,)")
    rows.add_argument("--rand", action="store_true", help="the 20,190 rows of the RAND Health Insurance Experiment")
    parser.add_argument("--chains", type=int, default=max(2, min(4, cores)), help="chains of each run (%(default)s)")
    parser.add_argument("--draws", type=int, default=2_000, help="draws a chain of the step (%(default)s)")
    parser.add_argument("--tune", type=int, default=300, help="tuning draws a chain of it (%(default)s)")
    parser.add_argument("--nuts-draws", type=int, default=500, help="draws a chain of NUTS (%(default)s)")
    parser.add_argument("--nuts-tune", type=int, default=100, help="tuning draws a chain of NUTS (%(default)s)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=105,
        help=f"seconds from the start after which NUTS is stopped; it has at least {_LEAST} s (%(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of both runs (%(default)s)")
    parser.add_argument("--figure", type=Path, default=Path("output/demo.png"), help="figure file (%(default)s)")
    chosen = parser.parse_args(arguments)
    try:
        import psutil  # of the extra `demo`

        X, y, source = _rows(chosen)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        parser.error(str(error))
    started = psutil.Process().create_time()
    imports = time.time() - started  # a user waits for them in either run
    kind = kind_of(y)
    print(f"{len(X):,} rows, {X.shape[1]} covariates: {source}; {FAMILIES[kind]} regression", flush=True)
    step = STEPS[kind]
    common = {"chains": chosen.chains, "cores": min(chosen.chains, cores), "random_seed": chosen.seed}
    with regression(X, y):
        ours = sample(imports, np.inf, step, draws=chosen.draws, tune=chosen.tune, **common)
        limit = imports + max(_LEAST, chosen.seconds - (time.time() - started))
        print(f"NUTS on the same model; it is stopped {limit:.0f} s after its start.", flush=True)
        by_nuts = sample_by_nutpie if find_spec("nutpie") else sample  # the faster NUTS, where it is installed
        nuts = by_nuts(imports, limit, draws=chosen.nuts_draws, tune=chosen.nuts_tune, **common)
    runs = {step.__name__: ours, "NUTS": nuts}
    print(f"\n{step.__name__}, ArviZ summary\n{az.summary(ours.idata)}\n")
    for name, run in runs.items():
        if run.idata is None:
            print(f"{name:10} was stopped after {run.ended:.0f} s at draw {run.progress}, still tuning")
            continue
        sizes, stopped = run.idata["posterior"].sizes, "" if run.finished else " (stopped there)"
        print(
            f"{name:10} {sizes['chain']} x {sizes['draw']:,} draws, the first {run.began:.0f} s after the start of the "
            f"process, the last after {run.ended:.0f} s{stopped}; effective draws of the slowest parameter: "
            f"{effective_draws(run)[1][-1]:,.0f}"
        )
    usage = data_usage(ours.idata)
    print(f"{'rows':10} {usage['mean']:,.3g} read a draw, of {usage['total_rows']:,.0f}")
    if nuts.idata is not None:
        print(f"\n{compare({step.__name__: ours.idata, 'NUTS': nuts.idata}, reference='NUTS')}")
    chosen.figure.parent.mkdir(parents=True, exist_ok=True)
    figure(runs).savefig(chosen.figure, dpi=150)
    print(f"\nFigure: {chosen.figure}")


def _rows(chosen: argparse.Namespace) -> tuple[pd.DataFrame, np.ndarray, str]:
    """Return the covariates and the outcome that were asked for, and where they are from."""
    if chosen.data:
        return *rows_from_file(chosen.data), str(chosen.data)
    if chosen.rand:
        return *rand_health_insurance(), "who saw a doctor in the RAND Health Insurance Experiment"
    return *synthetic(chosen.rows, chosen.seed), "a made-up table"


def sample(before: float, limit: float, build: Callable[[], Any] | None = None, **options: Any) -> Run:
    """Sample the model of the context with ``pm.sample``, until `limit` seconds have passed; `before` count as well.

    The step is what `build` returns, whose seconds count too.
    """
    zero, kept, made = time.perf_counter() - before, set[int](), dict[int, int]()
    began, stopped = np.inf, False

    def callback(trace: Any, draw: Any) -> None:
        nonlocal began, stopped
        made[draw.chain] = draw.draw_idx + 1
        if not draw.tuning and draw.chain not in kept:
            kept.add(draw.chain)
            began = time.perf_counter() - zero
        if time.perf_counter() - zero > limit:
            stopped = True
            raise KeyboardInterrupt  # which is how PyMC lets a callback end a run

    if build is not None:
        options["step"] = build()
    try:
        idata = pm.sample(callback=callback, **options)
    except ValueError:
        if not stopped:
            raise
        idata = None  # PyMC makes no result of a run that was stopped while tuning
    enough = idata is not None and idata["posterior"].sizes["draw"] >= _FEWEST_DRAWS
    progress = _progress(min(made.values(), default=0), **options)
    return Run(idata if enough else None, began, time.perf_counter() - zero, not stopped, progress)


def sample_by_nutpie(before: float, limit: float, *, random_seed: int, **options: Any) -> Run:
    """Sample the model of the context with nutpie's NUTS, as `sample` does."""
    import nutpie

    zero = time.perf_counter() - before
    compiled = nutpie.compile_pymc_model(pm.modelcontext(None))
    started = time.perf_counter() - zero
    sampler = nutpie.sample(compiled, seed=random_seed, blocking=False, **options)
    try:
        idata, finished = sampler.wait(timeout=max(0.0, limit - started)), True
    except TimeoutError:
        with warnings.catch_warnings():  # of fewer draws than chains
            warnings.simplefilter("ignore", UserWarning)
            idata, finished = sampler.abort(), False
    ended = time.perf_counter() - zero
    # Chains that were stopped differ in length; the shorter ones are filled up with NaN.
    n_tuning, n_draws = (
        int(idata[group]["step_size"].notnull().all("chain").sum()) for group in ("warmup_sample_stats", "sample_stats")
    )
    progress = _progress(n_tuning + n_draws, **options)
    if n_draws < _FEWEST_DRAWS:
        return Run(None, np.inf, ended, finished, progress)
    idata = idata.isel(draw=slice(0, n_draws))
    # nutpie keeps no times, and takes as long as it evaluates gradients, whose numbers it keeps.
    tuning, drawing = (float(idata[g]["n_steps"].sum()) for g in ("warmup_sample_stats", "sample_stats"))
    return Run(idata, started + (ended - started) * tuning / (tuning + drawing), ended, finished, progress)


def _progress(made: int, *, tune: int, draws: int, **_: Any) -> str:
    return f"{made:,} of {tune + draws:,}"


def effective_draws(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds since the start of the process, and the effective draws of the slowest parameter by then."""
    assert run.idata is not None
    posterior = run.idata["posterior"]
    kept = np.unique(np.maximum(_FEWEST_DRAWS, (_SHARES * posterior.sizes["draw"]).astype(int)))
    ess = [az.ess(posterior.isel(draw=slice(0, k))) for k in kept]
    smallest = [min(float(values.min()) for values in of.values()) for of in ess]
    return run.began + (run.ended - run.began) * kept / posterior.sizes["draw"], np.array(smallest)


def figure(runs: Mapping[str, Run]) -> Figure:
    """Return a figure of what was gained in how many seconds, above the marginals where both runs made draws."""
    results = {name: run.idata for name, run in runs.items() if run.idata is not None}
    heights = (3.6, 6.0)[: max(1, len(results))]
    sheet = plt.figure(figsize=(11, sum(heights)), layout="constrained")
    above, *below = sheet.subfigures(len(heights), 1, squeeze=False, height_ratios=heights).ravel()
    axes = above.subplots()
    for name, run in runs.items():
        if run.idata is None:
            axes.axvline(run.ended, linestyle=":", color="0.3", label=f"{name}: stopped at draw {run.progress}")
        else:
            axes.plot(*effective_draws(run), marker=".", label=name if run.finished else f"{name}, stopped")
    axes.set(xlabel="seconds from the start of the process", ylabel="effective draws, slowest parameter", yscale="log")
    axes.set_xlim(left=0)
    axes.legend(frameon=False)
    for figure_of_marginals in below:
        panels = figure_of_marginals.subplots(3, 4).ravel()
        shown = plot_comparison(results, reference="NUTS", max_panels=12, axes=panels)
        for unused in panels[len(shown) :]:
            unused.set_axis_off()
    return sheet


if __name__ == "__main__":
    main()
