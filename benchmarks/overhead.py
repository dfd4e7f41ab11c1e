"""Microseconds a draw that the step method and ``pm.sample`` add around the compiled transition.

Run ``python benchmarks/overhead.py``.  The model is small, so that the transition itself takes little.
"""

from __future__ import annotations

import time

import numpy as np
import pymc as pm
from numba import njit

import pymc_austerity as pma
from pymc_austerity.kernel import Outcome
from pymc_austerity.kernel.generators import pack_generators
from pymc_austerity.likelihood.layout import flatten

DRAWS = 20_000


def small_model() -> pm.Model:
    """Return a linear regression with 1,000 rows and 5 coefficients."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000, 5))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=5)
        pm.Normal("y", X @ beta, 1, observed=rng.normal(size=1_000))
    return model


@njit
def repeat(transition, n, links, theta, others, fixed, arrays, row_state, state, looks, generators):  # type: ignore[no-untyped-def]
    """Call the compiled transition `n` times from compiled code: its own cost, without Python."""
    rows = 0
    for _ in range(n):
        outcome = Outcome(
            *transition(links, theta, others, fixed, arrays, row_state, state, looks, 1.0, generators, (), ())
        )
        theta = outcome.theta
        rows += outcome.n_rows
    return rows


def main() -> None:
    """Print the three costs and their differences."""
    model = small_model()
    with model:
        step = pma.ApproxMH(proxy=None, epsilon=0.5, batch_size=50, proposal=pma.RandomWalk(scale=0.03))
    step.stop_tuning()
    point = model.initial_point()
    decider = step.decider
    theta, row_state = flatten(point, decider.likelihood.blocks), decider.row_source.state(len(decider.rows))
    data = (*decider.data_at, row_state)
    arguments = (decider.links, theta, np.empty(0), *data, step.chain.state, step.chain.looks)
    generators = pack_generators(*np.random.default_rng(1).spawn(3))
    seconds = {}
    repeat(decider.transition, 1, *arguments, generators)
    start = time.perf_counter()
    repeat(decider.transition, DRAWS, *arguments, generators)
    seconds["compiled transition"] = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(DRAWS):
        point, _ = step.step(point)
    seconds["step.step"] = time.perf_counter() - start
    with model:
        idata = pm.sample(
            step=step, tune=0, draws=DRAWS, chains=1, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False, quiet=True,
        )  # fmt: skip
    seconds["pm.sample"] = idata["posterior"].attrs["sampling_time"]
    micro = {name: 1e6 * s / DRAWS for name, s in seconds.items()}
    for name, value in micro.items():
        print(f"{name:>20}: {value:6.1f} µs a draw")
    print(f"{'added around it':>20}: {micro['pm.sample'] - micro['compiled transition']:6.1f} µs  (to reach: under 60)")


if __name__ == "__main__":
    main()
