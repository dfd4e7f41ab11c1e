"""What a proxy costs and buys as the data grow: synthetic logistic regression, ten coefficients.

Run ``python benchmarks/proxies.py`` (add ``--rows 1e4 1e5 1e6`` to choose, ``--nutpie`` for the peer, which takes
minutes at a million rows, ``--figure file.png`` for the figure).  All figures of a table are from one run, one core.
From 5e7 rows on the covariates are memory-mapped float32.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
from kernel import logistic_data, logistic_model

import pymc_austerity as pma

DRAWS, FEW, TUNE = 20_000, 200, 200
_MAPPED = 50_000_000


def with_proxy(model: pm.Model, n_rows: int) -> dict[str, float]:
    """Sample with `PenaltyMH`, a second-order proxy and weighted rows.

    A chain ends with a look at itself, two passes over all rows.  A short chain beside the long one tells it apart from
    what each further draw costs.
    """
    with model:
        start = time.perf_counter()
        step = pma.PenaltyMH()
        set_up = time.perf_counter() - start
        few, many = (
            pm.sample(
                step=step, draws=draws, tune=TUNE, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
                compute_convergence_checks=False,
            )
            for draws in (FEW, DRAWS)
        )  # fmt: skip
    short, seconds = (float(idata["posterior"].attrs["sampling_time"]) for idata in (few, many))
    ess = float(az.ess(many)["beta"].min())
    a_draw = (seconds - short) / (DRAWS - FEW)
    return {
        "rows": n_rows,
        "set-up s": set_up,
        "passes": step.decider.parts.setup_passes,
        "rows a draw": float(many["sample_stats"]["n_rows"].mean()),
        "µs a draw": 1e6 * a_draw,
        "s at the end": max(short - (FEW + TUNE) * a_draw, 0.0),
        "accepted": float(many["sample_stats"]["accepted"].mean()),
        "ESS/s": ess / seconds,
    }


def build(n_rows: int) -> pm.Model:
    """Return the model; large covariates live in a file."""
    if n_rows < _MAPPED:
        return logistic_model(*logistic_data(n_rows, 10, float))
    rng = np.random.default_rng(1)
    beta = rng.normal(size=10) / np.sqrt(10)
    file = Path(tempfile.mkdtemp()) / "X.npy"
    X = np.lib.format.open_memmap(file, "w+", np.float32, (n_rows, 10))
    y = np.empty(n_rows, np.int8)
    for start in range(0, n_rows, 1_000_000):
        block = slice(start, min(start + 1_000_000, n_rows))
        X[block] = rng.standard_normal((block.stop - start, 10), np.float32)
        y[block] = rng.random(block.stop - start) < 1 / (1 + np.exp(-X[block] @ beta))
    X.flush()
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=10)
        mapped = pytensor.shared(np.load(file, mmap_mode="r"), borrow=True)
        pm.Bernoulli("y", logit_p=pm.math.dot(mapped, beta), observed=y)
    return model


def draw_figure(table: pd.DataFrame, file: Path) -> None:
    """Save rows and microseconds a draw against N."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for axis, column in zip(axes, ("rows a draw", "µs a draw")):
        axis.loglog(table["rows"], table[column], "o-", color="C0")
        axis.set(xlabel="rows of the data", ylabel=column, ylim=(10, 10_000))
        axis.grid(alpha=0.3)
    axes[0].loglog(table["rows"], table["rows"], "--", color="0.5")
    axes[0].set_ylim(10, 2 * table["rows"].max())
    axes[0].annotate(
        "all rows", (table["rows"].iloc[0], table["rows"].iloc[0]), (12, -4), textcoords="offset points", va="top"
    )
    figure.savefig(file, dpi=150)


def with_nutpie(model: pm.Model) -> float:
    """Effective draws a second of nutpie after its compilation, from a short run."""
    import nutpie

    compiled = nutpie.compile_pymc_model(model)
    start = time.perf_counter()
    idata = nutpie.sample(compiled, draws=200, tune=200, chains=1, cores=1, seed=1, progress_bar=False)
    return float(az.ess(idata)["beta"].min()) / (time.perf_counter() - start)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e4, 1e5, 1e6])
    parser.add_argument("--nutpie", action="store_true")
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    lines = []
    for n_rows in map(int, given.rows):
        model = build(n_rows)
        line = with_proxy(model, n_rows)
        if given.nutpie:
            line["nutpie ESS/s"] = with_nutpie(model)
            line["ratio"] = line["ESS/s"] / line["nutpie ESS/s"]
        lines.append(line)
    if given.figure:
        draw_figure(pd.DataFrame(lines), given.figure)
    print(pd.DataFrame(lines).to_string(index=False, float_format="{:,.1f}".format))


if __name__ == "__main__":
    main()
