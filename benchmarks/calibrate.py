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
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from arviz_stats.ecdf_utils import ecdf_pit
from rich.console import Console
from rich.table import Table
from scipy import stats
from scipy.special import expit, log_expit

import pymc_austerity as pma

#: Draws that a parameter is ranked among, after thinning.
KEPT = 99
#: A step fails if one of its p-values, times their number, is below.
LEVEL = 0.01
Values = dict[str, np.ndarray]


class Setup(NamedTuple):
    """A step on a model, and how data come about.

    Attributes
    ----------
    build : callable
        Returns the model and the step.
    simulate : callable
        From a generator to the true values, by the names of the value variables, and the data to set.
    quantities : callable
        From values with a leading axis, and the data, to the numbers that are ranked.
    tune, thin : int
        Draws before, and draws for each that is kept.
    """

    build: Callable[[], tuple[pm.Model, Any]]
    simulate: Callable[[np.random.Generator], tuple[Values, Values]]
    quantities: Callable[[Values, Values], dict[str, np.ndarray]]
    tune: int
    thin: int


N_LOGISTIC, N_LINEAR, N_JUMP, N_GROUPS, ROWS_OF_GROUP, N_SPINS, COPIES = 500, 600, 600, 20, 40, 12, 30
N_CROSSED, N_SECOND = 300, 9
X = np.column_stack([np.ones(1_000), np.random.default_rng(1).normal(size=(1_000, 3))])


def bernoulli(y: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Return the log likelihood, a number for each draw."""
    return log_expit(np.where(y == 1, eta, -eta)).sum(axis=-1)


def logistic(step: Callable[[], Any], tune: int, thin: int) -> Setup:
    """Return the set-up of a logistic regression with four coefficients."""
    rows = X[:N_LOGISTIC]

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            beta, y = pm.Normal("beta", 0, 1, shape=4), pm.Data("y", np.arange(N_LOGISTIC) % 2)
            pm.Bernoulli("obs", logit_p=rows @ beta, observed=y)
            return model, step()

    def simulate(rng: np.random.Generator) -> tuple[Values, Values]:
        beta = rng.normal(size=4)
        return {"beta": beta}, {"y": (rng.random(N_LOGISTIC) < expit(rows @ beta)).astype(int)}

    def quantities(values: Values, data: Values) -> dict[str, np.ndarray]:
        beta = values["beta"]
        found = {f"beta[{k}]": beta[:, k] for k in range(4)}
        return {**found, "log likelihood": bernoulli(data["y"], beta @ rows.T)}

    return Setup(build, simulate, quantities, tune, thin)


def linear(step: Callable[[], Any], tune: int, thin: int) -> Setup:
    """Return the set-up of a linear regression whose scale is unknown."""
    rows = X[:N_LINEAR, :2]

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            beta, sigma = pm.Normal("beta", 0, 1, shape=2), pm.HalfNormal("sigma", 1)
            y = pm.Data("y", np.random.default_rng(0).normal(size=N_LINEAR))
            pm.Normal("obs", rows @ beta, sigma, observed=y)
            return model, step()

    def simulate(rng: np.random.Generator) -> tuple[Values, Values]:
        beta, sigma = rng.normal(size=2), abs(rng.normal())
        data = {"y": rows @ beta + sigma * rng.normal(size=N_LINEAR)}
        return {"beta": beta, "sigma_log__": np.log(sigma)}, data

    def quantities(values: Values, data: Values) -> dict[str, np.ndarray]:
        beta, sigma = values["beta"], np.exp(values["sigma_log__"])
        fit = stats.norm.logpdf(data["y"], beta @ rows.T, sigma[:, None]).sum(axis=-1)
        return {"beta[0]": beta[:, 0], "beta[1]": beta[:, 1], "sigma": sigma, "log likelihood": fit}

    return Setup(build, simulate, quantities, tune, thin)


def groups(step: Callable[[], Any], tune: int, thin: int, *, centred: bool) -> Setup:
    """Return the set-up of a logistic regression with an effect for each of twenty groups."""
    g = np.repeat(np.arange(N_GROUPS), ROWS_OF_GROUP)
    x = X[: g.size, 1]

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            mean, scale, slope = pm.Normal("mean", 0, 1), pm.HalfNormal("scale", 1), pm.Normal("slope", 0, 1)
            if centred:
                effect = pm.Normal("effect", mean, scale, shape=N_GROUPS)
            else:
                effect = mean + scale * pm.Normal("raw", 0, 1, shape=N_GROUPS)
            y = pm.Data("y", np.arange(g.size) % 2)
            pm.Bernoulli("obs", logit_p=effect[g] + slope * x, observed=y)
            return model, step()

    def simulate(rng: np.random.Generator) -> tuple[Values, Values]:
        mean, scale, slope = rng.normal(), abs(rng.normal()), rng.normal()
        raw = rng.normal(size=N_GROUPS)
        effect = mean + scale * raw
        y = (rng.random(g.size) < expit(effect[g] + slope * x)).astype(int)
        of_groups = {"effect": effect} if centred else {"raw": raw}
        return {"mean": mean, "scale_log__": np.log(scale), "slope": slope, **of_groups}, {"y": y}

    def quantities(values: Values, data: Values) -> dict[str, np.ndarray]:
        slope = values["slope"]
        if centred:
            effect = values["effect"]
        else:
            effect = values["mean"][:, None] + np.exp(values["scale_log__"])[:, None] * values["raw"]
        found = {"mean": values["mean"], "scale": values["scale_log__"], "slope": slope}
        found |= {f"effect[{k}]": effect[:, k] for k in (0, 1)}
        return {**found, "log likelihood": bernoulli(data["y"], effect[:, g] + slope[:, None] * x)}

    return Setup(build, simulate, quantities, tune, thin)


def crossed(step: Callable[[], Any], tune: int, thin: int) -> Setup:
    """Return the set-up of a linear regression with unknown scale and effects of two crossed factors."""
    first, second = np.arange(N_CROSSED) % N_GROUPS, np.arange(N_CROSSED) // 7 % N_SECOND
    x = X[:N_CROSSED, 1]

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            mean, slope, sigma = pm.Normal("mean", 0, 1), pm.Normal("slope", 0, 1), pm.HalfNormal("sigma", 1)
            a = pm.Normal("a", 0, pm.HalfNormal("scale_a", 1), shape=N_GROUPS)
            b = pm.Normal("b", 0, pm.HalfNormal("scale_b", 1), shape=N_SECOND)
            y = pm.Data("y", np.cos(np.arange(N_CROSSED)))
            pm.Normal("obs", mean + slope * x + a[first] + b[second], sigma, observed=y)
            return model, step()

    def simulate(rng: np.random.Generator) -> tuple[Values, Values]:
        (mean, slope), scales = rng.normal(size=2), np.abs(rng.normal(size=3))
        a, b = scales[1] * rng.normal(size=N_GROUPS), scales[2] * rng.normal(size=N_SECOND)
        logs = dict(zip(("sigma_log__", "scale_a_log__", "scale_b_log__"), np.log(scales)))
        y = rng.normal(mean + slope * x + a[first] + b[second], scales[0])
        return {"mean": mean, "slope": slope, "a": a, "b": b, **logs}, {"y": y}

    def quantities(values: Values, data: Values) -> dict[str, np.ndarray]:
        names = "mean", "slope", "sigma_log__", "scale_a_log__", "scale_b_log__"
        mean = values["mean"][:, None] + values["slope"][:, None] * x
        mean = mean + values["a"][:, first] + values["b"][:, second]
        rows = stats.norm.logpdf(data["y"], mean, np.exp(values["sigma_log__"])[:, None])
        found = {name.removesuffix("_log__"): values[name] for name in names}
        return {**found, "a[0]": values["a"][:, 0], "b[0]": values["b"][:, 0], "log likelihood": rows.sum(axis=1)}

    return Setup(build, simulate, quantities, tune, thin)


def selection(step: Callable[[Any, Any], Any], tune: int, thin: int) -> Setup:
    """Return the set-up of a logistic regression in which each of three coefficients may be left out."""
    rows = X[:N_JUMP, 1:]

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            included, beta = pm.Bernoulli("included", 0.5, shape=3), pm.Normal("beta", 0, 0.4, shape=3)
            intercept, y = pm.Normal("intercept", 0, 1), pm.Data("y", np.arange(N_JUMP) % 2)
            pm.Bernoulli("obs", logit_p=intercept + rows @ (included * beta), observed=y)
            return model, step(beta, included)

    def simulate(rng: np.random.Generator) -> tuple[Values, Values]:
        included, beta, intercept = rng.integers(2, size=3), 0.4 * rng.normal(size=3), rng.normal()
        y = (rng.random(N_JUMP) < expit(intercept + rows @ (included * beta))).astype(int)
        return {"included": included, "beta": beta, "intercept": intercept}, {"y": y}

    def quantities(values: Values, data: Values) -> dict[str, np.ndarray]:
        effect = values["included"] * values["beta"]
        found = {f"effect[{k}]": effect[:, k] for k in range(3)}
        found |= {"number included": values["included"].sum(axis=-1), "intercept": values["intercept"]}
        return {**found, "log likelihood": bernoulli(data["y"], values["intercept"][:, None] + effect @ rows.T)}

    return Setup(build, simulate, quantities, tune, thin)


def spins(tune: int, thin: int, epsilon: float) -> Setup:
    """Return the set-up of twelve binary variables, each pair of which is seen thirty times through noise."""
    pairs = np.array([(i, j) for i in range(N_SPINS) for j in range(i)] * COPIES)
    prior, step_of, sigma = np.linspace(0.3, 0.6, N_SPINS), 0.5, 3.0

    def build() -> tuple[pm.Model, Any]:
        with pm.Model() as model:
            x, y = pm.Bernoulli("x", prior, shape=N_SPINS), pm.Data("y", np.zeros(len(pairs)))
            pm.Normal("obs", step_of * x[pairs[:, 0]] * x[pairs[:, 1]], sigma, observed=y)
            return model, pma.ApproxGibbs([x], factors=pairs, batch_size=50, epsilon=epsilon)

    def simulate(rng: np.random.Generator) -> tuple[Values, Values]:
        x = (rng.random(N_SPINS) < prior).astype(int)
        return {"x": x}, {"y": step_of * x[pairs].prod(axis=1) + sigma * rng.normal(size=len(pairs))}

    def quantities(values: Values, data: Values) -> dict[str, np.ndarray]:
        x = values["x"]
        fit = stats.norm.logpdf(data["y"], step_of * x[:, pairs[:, 0]] * x[:, pairs[:, 1]], sigma).sum(axis=-1)
        return {"x[0]": x[:, 0], "x[11]": x[:, 11], "sum": x.sum(axis=-1), "log likelihood": fit}

    return Setup(build, simulate, quantities, tune, thin)


QUIET: dict[str, Any] = {"progressbar": False}
SETUPS: dict[str, Setup] = {
    "MinibatchMH": logistic(lambda: pma.MinibatchMH(batch_size=100, proxy=None), 800, 25),
    "PenaltyMH": logistic(lambda: pma.PenaltyMH(**QUIET), 300, 4),
    "ApproxMH": logistic(lambda: pma.ApproxMH(epsilon="auto", **QUIET), 300, 4),
    "MinibatchBarker": linear(lambda: pma.MinibatchBarker(**QUIET), 300, 10),
    "MHSubLhd": logistic(lambda: pma.MHSubLhd(**QUIET), 300, 4),
    "MHSS": logistic(lambda: pma.MHSS(**QUIET), 300, 4),
    "GroupMH": groups(lambda: pma.GroupMH(**QUIET), 400, 8, centred=True),
    # With forty rows a group this form is the wrong one: draws forget slowly, and ranks among few effective draws
    # gather at both ends whatever the step.
    "GroupMH, not centred": groups(lambda: pma.GroupMH(**QUIET), 1_000, 40, centred=False),
    "GroupMH, crossed": crossed(lambda: pma.GroupMH(**QUIET), 400, 8),
    "ReversibleJump": selection(lambda b, i: pma.PenaltyMH(proposal=pma.ReversibleJump(b, i), **QUIET), 300, 4),
    "MHSS(ReversibleJump)": selection(lambda b, i: pma.MHSS(proposal=pma.ReversibleJump(b, i), **QUIET), 300, 4),
    "ApproxGibbs": spins(50, 4, 0.05),
    "ApproxGibbs(epsilon=0.01)": spins(50, 4, 0.01),
    "ApproxGibbs(epsilon=0)": spins(50, 4, 0.0),
    "PenaltyMH(proxy=None)": logistic(lambda: pma.PenaltyMH(proxy=None, **QUIET), 800, 25),
    "MinibatchBarker(proxy=None)": linear(lambda: pma.MinibatchBarker(proxy=None, **QUIET), 800, 25),
    "ApproxMH(proxy=None)": logistic(lambda: pma.ApproxMH(epsilon="auto", proxy=None, **QUIET), 800, 25),
}
CONTROL = "MinibatchMH"


def chain(model: pm.Model, step: Any, seed: int, tune: int, draws: int, thin: int = 1) -> Values:
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
    return {name: np.array([p[name] for p in kept]) for name in point}


def rank_set(setup: Setup, model: pm.Model, step: Any, seed: int) -> dict[str, float]:
    """Return the ranks of one data set as numbers in (0, 1), ties broken at random, and the effective draws."""
    rng = np.random.default_rng([seed, 20])
    truth, data = setup.simulate(rng)
    start = time.perf_counter()
    pm.set_data(data, model=model)
    draws = chain(model, step, seed, setup.tune, KEPT * setup.thin, setup.thin)
    seconds = time.perf_counter() - start
    ranked = setup.quantities(draws, data)
    true = setup.quantities({name: np.asarray(value)[None] for name, value in truth.items()}, data)
    found = {}
    for name, values in ranked.items():
        # A hair of rounding between two ways to sum must not tell equal values apart.
        slack = 1e-9 * (1 + abs(true[name][0]))
        below, equal = (values < true[name] - slack).sum(), (np.abs(values - true[name]) <= slack).sum()
        found[name] = float((below + rng.random() * (equal + 1)) / (KEPT + 1))
    effective = min(float(az.ess(np.asarray(v, float)[None])) for v in ranked.values() if np.ptp(v) > 0)
    return {**found, "effective": effective, "seconds": seconds}


def calibrate(name: str, n_sets: int, folder: Path) -> None:
    """Add ranks to the file of a step until it has those of `n_sets` data sets."""
    path = folder / f"{name}.jsonl"
    done = len(path.read_text().splitlines()) if path.exists() else 0
    if done >= n_sets:
        return
    model, step = SETUPS[name].build()
    with path.open("a") as file:
        for seed in range(done, n_sets):
            file.write(json.dumps(rank_set(SETUPS[name], model, step, seed)) + "\n")
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
        columns = [c for c in ranks if c not in ("effective", "seconds")]
        p = {c: p_value(ranks[c].to_numpy()) for c in columns}
        failed = min(p.values()) * len(p) < LEVEL
        said = ("fails, as it must" if failed else "PASSES") if name == CONTROL else "FAILS" if failed else "passes"
        told = ", ".join(f"{c} {value:.2g}" for c, value in p.items())
        table.add_row(
            name, f"{len(ranks)}", f"{ranks['effective'].mean():.0f}", f"{ranks['seconds'].mean():.2f}", told, said
        )
    Console(width=200).print(table)


def draw(tables: Mapping[str, pd.DataFrame], path: Path) -> None:
    """Draw the ECDF of the ranks less that of uniform ones, with simultaneous bands of 95%."""
    columns = {
        f"{name}: {column}": ranks[column].to_numpy()
        for name, ranks in tables.items()
        for column in ranks
        if column not in ("effective", "seconds")
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
    for name in ("pymc", "pymc_austerity"):
        logging.getLogger(name).setLevel(logging.ERROR)
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.steps:
        calibrate(name, chosen.sets, chosen.out)
    tables = {name: table for name, table in read(chosen.out).items() if name in chosen.steps}
    show(tables)
    if chosen.figure:
        draw(tables, chosen.figure)


if __name__ == "__main__":
    main()
