"""A table sorted by time whose law drifts: `Blocks` against minibatch ADVI that reads it in order.

Run ``python benchmarks/sorted_by_time.py --rows 1e5 1e6 1e7 1e8 --figure docs/sorted_by_time.png``.  The rows are those
of a logistic regression whose intercept, slope and covariate all change with time, so that the posterior of one
intercept and one slope is a compromise between early and late rows.  ADVI makes 20,000 steps of 500 rows: drawn from
the whole table, read in order, or drawn from a buffer of 20,000 rows that is filled in order, as streaming loaders do.
Errors are those of the means, in standard deviations of the posterior, at most; the truth is the mode over all rows and
its curvature, which at these sizes is the posterior to a hundredth.  The last column is what is off in the standard
deviations, as a factor.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import expit
from timing import ONE_CHAIN, quiet, show

import pymc_austerity as pma

STEPS, BATCH, BUFFER, BLOCK = 20_000, 500, 20_000, 100_000


def rows(n: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield the table in blocks."""
    for start in range(0, n, BLOCK):
        rng = np.random.default_rng(start)
        t = (start + np.arange(min(BLOCK, n - start))) / n
        x = rng.normal(2 * t, 1)
        yield {"x": x, "seen": (rng.random(len(t)) < expit(-1 + 2 * t + (1 - t) * x)).astype(np.int8)}


def model_of(x: Any, seen: Any, **options: Any) -> pm.Model:
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=b[0] + b[1] * pm.Data("x", x), observed=pm.Data("seen", seen), **options)
    return model


def truth(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviations by Newton's method over all rows."""
    b = np.zeros(2)
    for _ in range(12):
        gradient, information = -b / 4, np.eye(2) / 4
        for block in rows(n):
            X = np.column_stack([np.ones(len(block["x"])), block["x"]])
            p = expit(X @ b)
            gradient += X.T @ (block["seen"] - p)
            information += (X.T * (p * (1 - p))) @ X
        step = np.linalg.solve(information, gradient)
        b += step
        if step @ information @ step < 1e-12:  # a millionth of a posterior standard deviation
            break
    return b, np.sqrt(np.diag(np.linalg.inv(information)))


def by_advi(n: int, order: str) -> np.ndarray:
    """Return draws of the approximation."""
    whole = {name: np.concatenate([block[name] for block in rows(n)]) for name in ("x", "seen")}
    rng, model = np.random.default_rng(1), model_of(np.zeros(BATCH), np.zeros(BATCH, np.int8), total_size=n)

    def next_batch(_: Any, __: Any, step: int) -> None:
        if order == "of all rows":
            chosen = rng.integers(0, n, BATCH)
        else:
            first = step * BATCH % n
            reach = BATCH if order == "in order" else BUFFER
            chosen = (first + np.arange(BATCH) if reach == BATCH else first + rng.integers(0, reach, BATCH)) % n
        model["x"].set_value(whole["x"][chosen])
        model["seen"].set_value(whole["seen"][chosen])

    with model:
        next_batch(None, None, 0)
        fit = pm.fit(STEPS, method="advi", callbacks=[next_batch], progressbar=False, random_seed=1)
        return np.asarray(fit.sample(2_000, random_seed=1)["posterior"]["b"]).reshape(-1, 2)


def by_blocks(n: int) -> np.ndarray:
    first = next(rows(n))
    with model_of(first["x"][:500], first["seen"][:500]):
        step = pma.PenaltyMH(data=pma.Blocks(lambda: rows(n), n_rows=n, pool=1_000_000, chains=1), progressbar=False)
        run = pm.sample(2_500, tune=300, step=step, quiet=True, **ONE_CHAIN)
    return run["posterior"]["b"].to_numpy().reshape(-1, 2)


def figure(lines: list[dict[str, Any]], path: str) -> None:
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for method in dict.fromkeys(line["method"] for line in lines):
        of = [line for line in lines if line["method"] == method]
        axes.loglog([line["rows"] for line in of], [line["means off by, sd"] for line in of], "o-", label=method)
    axes.axhline(0.1, color="gray", lw=0.8, ls=":")
    axes.set(xlabel="rows, sorted by time", ylabel="error of the means, posterior sd")
    axes.legend(loc="center right", bbox_to_anchor=(1.0, 0.3))
    fig.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=float, default=[1e5, 1e6])
    parser.add_argument("--figure")
    options = parser.parse_args()
    quiet()
    lines: list[dict[str, Any]] = []
    methods: dict[str, Callable[[int], np.ndarray]] = {"Blocks, PenaltyMH": by_blocks}
    for order in ("of all rows", "from a buffer", "in order"):
        methods[f"ADVI, batches {order}"] = lambda n, order=order: by_advi(n, order)
    for n in map(int, options.rows):
        mean, sd = truth(n)
        for name, method in methods.items():
            start = time.process_time()
            draws = method(n)
            seconds = time.process_time() - start
            off, ratio = np.abs(draws.mean(0) - mean) / sd, draws.std(0) / sd
            lines.append({"rows": n, "method": name, "cpu s": seconds, "means off by, sd": off.max()})
            lines[-1]["sds, factor"] = ratio[np.abs(np.log(ratio)).argmax()]
            show(lines[-1:], sys.stderr)
    show(lines)
    if options.figure:
        figure(lines, options.figure)


if __name__ == "__main__":
    main()
