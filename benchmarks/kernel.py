"""Time of the whole transition against a hand-written loop, and the memory it needs beyond the data.

Run ``python benchmarks/kernel.py`` for nanoseconds a row (N = 1e6, D = 10, batches of 500 rows), and
``python benchmarks/kernel.py --memory`` for peak memory at N = 1e7 (float32).
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pymc as pm
from numba import njit

import pymc_austerity as pma
from pymc_austerity.acceptance.sequential import SequentialT
from pymc_austerity.likelihood.layout import flatten
from pymc_austerity.rows.sources import draw_without_replacement, restore_order

BATCH = 500


def logistic_data(n_rows: int, dimension: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Draw covariates and outcomes in blocks, so that the drawing itself needs little memory."""
    rng = np.random.default_rng(1)
    beta = rng.normal(size=dimension) / np.sqrt(dimension)
    X = np.empty((n_rows, dimension), dtype)
    y = np.empty(n_rows, np.int64)
    for start in range(0, n_rows, 100_000):
        block = slice(start, min(start + 100_000, n_rows))
        X[block] = rng.standard_normal((block.stop - start, dimension), dtype)
        y[block] = rng.random(block.stop - start) < 1 / (1 + np.exp(-X[block] @ beta))
    return X, y


def logistic_model(X: np.ndarray, y: np.ndarray) -> pm.Model:
    """Logistic regression with a standard normal prior."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta), observed=y)
    return model


@njit
def hand_written(theta, theta_new, X, y, order, sizes, bounds, noise, offset, rng):  # type: ignore[no-untyped-def]
    """Decide one transition as one would write it for this model alone; returns the rows read.

    Rows are drawn in the same way but anew: a second pass over the same rows would find them in the cache.
    """
    n_total = y.size
    n, total, squares = 0, 0.0, 0.0
    for look in range(sizes.size):
        rows = draw_without_replacement(rng, order, n, sizes[look])
        for i in range(rows.size):
            eta = eta_new = 0.0
            for j in range(theta.size):
                eta += X[rows[i], j] * theta[j]
                eta_new += X[rows[i], j] * theta_new[j]
            sign = 1.0 if y[rows[i]] else -1.0
            difference = np.log1p(np.exp(-sign * eta)) - np.log1p(np.exp(-sign * eta_new))
            total += difference
            squares += difference * difference
        n += rows.size
        distance = total / n - (noise - offset) / n_total
        if n == n_total or abs(distance) > bounds[look] * np.sqrt((squares - total * total / n) / (n - 1)):
            break
    restore_order(order, n)
    return n


def time_per_row(n_rows: int, repeats: int) -> None:
    """Print nanoseconds a row of both, interleaved in one run."""
    X, y = logistic_data(n_rows, 10, np.float64)
    model = logistic_model(X, y)
    with model:
        step = pma.ApproxMH(
            proxy=None, epsilon=0.01, batch_size=BATCH, proposal=pma.RandomWalk(scale=0.3 / np.sqrt(n_rows)), tune=False
        )
    point = model.initial_point()
    theta = flatten(point, step.decider.likelihood.blocks)
    looks = SequentialT(0.01, BATCH).looks(n_rows)
    order = np.arange(n_rows, dtype=np.uint32)
    rng = np.random.default_rng(2)
    hand_written(theta, theta, X, y, order, looks.sizes, looks.bounds, -1.0, 0.0, rng)
    spent = {"transition": [0.0, 0], "hand-written": [0.0, 0]}
    for _ in range(repeats):
        start = time.perf_counter()
        outcome = step.chain.transition(theta, np.empty(0), 1.0)
        spent["transition"][0] += time.perf_counter() - start
        spent["transition"][1] += outcome.n_rows
        theta_new = theta + 0.3 / np.sqrt(n_rows) * rng.standard_normal(10)
        offset = 0.5 * (theta @ theta - theta_new @ theta_new)
        noise = np.log(rng.random())
        start = time.perf_counter()
        n = hand_written(theta, theta_new, X, y, order, looks.sizes, looks.bounds, noise, offset, rng)
        spent["hand-written"][0] += time.perf_counter() - start
        spent["hand-written"][1] += n
    per_row = {name: 1e9 * seconds / n for name, (seconds, n) in spent.items()}
    for name, nanoseconds in per_row.items():
        print(f"{name:>13}: {nanoseconds:6.1f} ns a row over {spent[name][1]:,} rows")
    print(f"{'ratio':>13}: {per_row['transition'] / per_row['hand-written']:6.2f}  (to reach: at most 1.5)")


def peak_memory(n_rows: int) -> None:
    """Print what building a step and sampling add to the memory that the data take."""
    X, y = logistic_data(n_rows, 10, np.float32)
    model = logistic_model(X, y)
    data = X.nbytes + y.nbytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with model:
        step = pma.ApproxMH(proxy=None, epsilon=0.05, batch_size=BATCH, proposal=pma.RandomWalk(scale=1e-4))
    point = model.initial_point()
    for _ in range(20):
        point, _ = step.step(point)
    added = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    allowed = 8 * n_rows + 200e6
    print(f"data: {data / 1e6:,.0f} MB; before the step: {before / 1e6:,.0f} MB in all")
    print(f"added by building the step and 20 draws: {added / 1e6:,.0f} MB  (to reach: at most {allowed / 1e6:,.0f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true", help="measure memory instead of time")
    parser.add_argument("--rows", type=float, help="number of rows")
    parser.add_argument("--repeats", type=int, default=200)
    given = parser.parse_args()
    if given.memory:
        peak_memory(int(given.rows or 1e7))
    else:
        time_per_row(int(given.rows or 1e6), given.repeats)
