"""Simulation-based calibration of the steps, set-up, tuning and starting points included.

Run ``make calibrate``, or ``python benchmarks/calibrate.py --steps PenaltyMH MHSS --sets 200 --out folder``.
Parameters are drawn from the prior and data from the parameters; one step, built once, samples the posterior of each
data set after ``pm.set_data``.  Among draws of the posterior the parameters have a uniform rank (Talts et al. 2018).
The log likelihood is ranked as well: it notices what no single parameter shows (Modrák et al. 2023).

Ranks are kept in a file a step as they come, so that a run that was stopped goes on.  `MinibatchMH` is the control: it
must fail.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
from arviz_stats.ecdf_utils import ecdf_pit
from calibrated_models import SETUPS, Values
from rich.console import Console
from rich.table import Table
from scipy import stats
from timing import quiet

import pymc_austerity as pma

#: Draws that a parameter is ranked among, after thinning.
KEPT = 99
#: A step fails if one of its p-values, times their number, is below.
LEVEL = 0.01
CONTROL = "MinibatchMH"
#: What is told of a data set beside ranks: of one that the step was not built for, why.
_BESIDE_RANKS = ("effective", "seconds", "refused")


def chain(model: pm.Model, step: Any, seed: int, tune: int, draws: int, thin: int = 1) -> list[Values]:
    """Return the draws of one chain as ``pm.sample`` makes them, without what it does around a chain."""
    step.setup_chain(np.random.default_rng(seed), tune, draws)
    step.tune = True
    if hasattr(step, "reset_tuning"):
        step.reset_tuning()
    point, kept = model.initial_point(), []
    for i in range(tune + draws):
        if i == tune:
            step.stop_tuning()
        point, _ = step.step(point)
        if i >= tune and (i - tune + 1) % thin == 0:
            kept.append(point)
    return kept


def free(values: Values) -> Values:
    """Return values with scales in place of their logarithms, which are sampled."""
    scales = {name.removesuffix("_log__"): np.exp(v) for name, v in values.items() if name.endswith("_log__")}
    return {**{name: v for name, v in values.items() if not name.endswith("_log__")}, **scales}


def transformed(model: pm.Model) -> Callable[[Values], Values]:
    """Return a function from values of the free variables to those of the value variables, which PyMC samples."""
    drawn, values = [rv.type() for rv in model.free_RVs], []
    for rv, at in zip(model.free_RVs, drawn):
        transform = model.rvs_to_transforms[rv]
        values.append(at if transform is None else transform.forward(at, *rv.owner.inputs))
    compiled = pytensor.function(drawn, values, on_unused_input="ignore")
    names = [v.name for v in model.value_vars]
    return lambda of: dict(zip(names, compiled(*(of[rv.name] for rv in model.free_RVs))))


def ranks(truth: Values, draws: Values, rng: np.random.Generator) -> dict[str, float]:
    """Return the ranks of true numbers among draws as numbers in (0, 1), ties broken at random."""
    found = {}
    for name, values in draws.items():
        # A hair of rounding between two ways to sum must not tell equal values apart.
        slack = 1e-9 * (1 + abs(truth[name][0]))
        below, equal = (values < truth[name] - slack).sum(), (np.abs(values - truth[name]) <= slack).sum()
        found[name] = float((below + rng.random() * (equal + 1)) / (KEPT + 1))
    return found


def calibrate(name: str, n_sets: int, folder: Path) -> None:
    """Add ranks to the file of a step until it has those of `n_sets` data sets."""
    path, setup = folder / f"{name}.jsonl", SETUPS[name]
    done = len(path.read_text().splitlines()) if path.exists() else 0
    if done >= n_sets:
        return
    model, step = setup.build()
    # The first data sets are the same, however many are drawn.
    drawn = pm.sample_prior_predictive(n_sets, model=model, random_seed=20)
    log_likelihood = model.compile_logp(vars=model.observed_RVs)

    unconstrained = transformed(model)

    def numbers(points: list[Values]) -> Values:
        values = {name: np.array([point[name] for point in points]) for name in points[0]}
        return {**setup.quantities(free(values)), "log likelihood": np.array([log_likelihood(p) for p in points])}

    with path.open("a") as file:
        for seed in range(done, n_sets):
            start = time.perf_counter()
            pm.set_data({"y": drawn["prior_predictive"]["obs"].to_numpy()[0, seed]}, model=model)
            try:
                kept = numbers(chain(model, step, seed, setup.tune, KEPT * setup.thin, setup.thin))
            except pma.UnsupportedModelError as error:  # it depends on the data alone, so that other ranks stay uniform
                file.write(json.dumps({"refused": str(error)}) + "\n")
                continue
            seconds = time.perf_counter() - start
            true = unconstrained({v.name: drawn["prior"][v.name].to_numpy()[0, seed] for v in model.free_RVs})
            found = ranks(numbers([true]), kept, np.random.default_rng([seed, 20]))
            effective = min(float(az.ess(np.asarray(v, float)[None])) for v in kept.values() if np.ptp(v) > 0)
            file.write(json.dumps({**found, "effective": effective, "seconds": seconds}) + "\n")
            file.flush()


def read(folder: Path) -> dict[str, pd.DataFrame]:
    """Return what there is, a table for each step."""
    paths = {name: folder / f"{name}.jsonl" for name in SETUPS}
    return {n: pd.read_json(p, lines=True) for n, p in paths.items() if p.exists() and p.stat().st_size}


def p_value(ranks: np.ndarray) -> float:
    """Return the p-value of uniformity, Anderson and Darling's, which looks at the ends."""
    test = stats.goodness_of_fit(
        stats.uniform, ranks, known_params={"loc": 0, "scale": 1}, statistic="ad", n_mc_samples=4_999, rng=1
    )
    return float(test.pvalue)


def show(tables: Mapping[str, pd.DataFrame]) -> None:
    """Print p-values, a step a row."""
    table = Table("step", "sets", "effective of 99", "s a set", "p-values", "verdict")
    for name, ranks in tables.items():
        n_sets, columns = len(ranks), [c for c in ranks if c not in _BESIDE_RANKS]
        ranks = ranks.dropna(subset=columns)
        p = {c: p_value(ranks[c].to_numpy()) for c in columns}
        failed = min(p.values()) * len(p) < LEVEL
        said = ("fails, as it must" if failed else "PASSES") if name == CONTROL else "FAILS" if failed else "passes"
        told, sets = ", ".join(f"{c} {value:.2g}" for c, value in p.items()), f"{len(ranks)} of {n_sets}"
        table.add_row(name, sets, f"{ranks['effective'].mean():.0f}", f"{ranks['seconds'].mean():.2f}", told, said)
    Console(width=200).print(table)


def draw(tables: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Draw the ECDF of the ranks less that of uniform ones, with simultaneous bands of 95%."""
    columns = {
        f"{name}: {column}": ranks[column].dropna().to_numpy()
        for name, ranks in tables.items()
        for column in ranks
        if column not in _BESIDE_RANKS
    }
    height = -(-len(columns) // 6)
    figure, axes = plt.subplots(height, 6, figsize=(15, 1.5 * height), sharex=True, layout="constrained")
    for panel, (name, pit) in zip(axes.flat, columns.items()):
        at, ecdf, low, high = ecdf_pit(pit, 0.95, n_simulations=1_000)
        panel.fill_between(at, low - at, high - at, color="0.85", lw=0)
        panel.plot(at, ecdf - at, color="C3" if name.startswith(f"{CONTROL}:") else "C0", lw=1)
        panel.set_title(name, fontsize=7)
        panel.tick_params(labelsize=6)
    for panel in list(axes.flat)[len(columns) :]:
        panel.axis("off")
    figure.savefig(path, dpi=70)


def main() -> None:
    """Calibrate, print the table and draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", nargs="*", choices=list(SETUPS), default=list(SETUPS), metavar="STEP")
    parser.add_argument("--sets", type=int, default=500, help="data sets a step, 500 by default")
    parser.add_argument("--out", type=Path, default=Path("output/calibrate"), help="where ranks are kept")
    parser.add_argument("--figure", type=Path, help="PNG of the ECDFs")
    chosen = parser.parse_args()
    quiet()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.steps:
        calibrate(name, chosen.sets, chosen.out)
    tables = {name: table for name, table in read(chosen.out).items() if name in chosen.steps}
    show(tables)
    if chosen.figure:
        draw(tables, chosen.figure)


if __name__ == "__main__":
    main()
