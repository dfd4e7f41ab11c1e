"""Where the time of one draw goes: synthetic logistic regression, a million rows, ten coefficients, the defaults.

Run ``python benchmarks/draw.py`` (``--rows`` chooses).  Each part is timed by itself in compiled code, in one run; what
is left of the draw is Python: PyMC's loop, the step's own bookkeeping, and the hand-over of arguments to compiled code.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from kernel import logistic_data, logistic_model
from numba import njit

import pymc_austerity as pma
from pymc_austerity.kernel.generators import pack_generators
from pymc_austerity.rows.storage import build_gather

DRAWS = 20_000


def microseconds(run: Callable[[int], Any], repeats: int = DRAWS) -> float:
    """Time `run(repeats)` after a warm-up, in microseconds a repeat; the best of three."""
    run(10)
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        run(repeats)
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / repeats


def parts(step: Any) -> dict[str, float]:
    """Time the parts of a transition."""
    decider, chain = step.decider, step.chain
    fixed, arrays, expansion = decider.fixed, decider.rows.arrays, decider.expansion
    table, looks = decider.prepared.table, step.chain.looks
    n, constants = int(looks.sizes[0]), decider.bound_constants
    draw, propose, both_sides = decider.row_source.draw, decider.move.propose, decider.density.both_sides
    known_sum, transition = decider.density.known_sum, decider.transition
    gather = build_gather(tuple(a.ndim for a in arrays))
    theta, others = chain.start, np.empty(0)
    surroundings = decider.surroundings(others)
    state, row_state = chain.state, decider.row_source.state(len(decider.rows))
    generators = pack_generators(*np.random.default_rng(1).spawn(3))

    @njit
    def numbers(rng, repeats):  # type: ignore[no-untyped-def]
        total = 0
        for _ in range(repeats):
            total += draw(rng, table, 0, n)[0]
        return total

    @njit
    def gathered(rng, arrays, repeats):  # type: ignore[no-untyped-def]
        total = 0.0
        for _ in range(repeats):
            total += gather(arrays, draw(rng, table, 0, n))[0].ravel()[0]
        return total

    @njit
    def evaluated(rng, theta, others, fixed, arrays, repeats):  # type: ignore[no-untyped-def]
        batch = gather(arrays, draw(rng, table, 0, n))
        total = 0.0
        for _ in range(repeats):
            total += both_sides(theta, theta, others, *((expansion[0],) + fixed + batch))[0][0]
        return total

    @njit
    def proposed(rng, theta, state, surroundings, repeats):  # type: ignore[no-untyped-def]
        total = 0.0
        for _ in range(repeats):
            total += propose(rng, theta, state, surroundings)[1]
        return total

    @njit
    def expanded(theta, others, repeats):  # type: ignore[no-untyped-def]
        total = 0.0
        for _ in range(repeats):
            total += known_sum(theta, others, expansion)
        return total

    @njit
    def whole(links, theta, others, fixed, arrays, row_state, state, looks, generators, constants, repeats):  # type: ignore[no-untyped-def]
        for _ in range(repeats):
            theta = transition(
                links, theta, others, fixed, arrays, row_state, state, looks, 1.0, generators, constants, expansion
            )[0]  # fmt: skip
        return theta

    rng = np.random.default_rng(1)
    row_numbers = microseconds(lambda k: numbers(rng, k))
    return {
        "row numbers": row_numbers,
        "gather": microseconds(lambda k: gathered(rng, arrays, k)) - row_numbers,
        "remainders of the rows": microseconds(lambda k: evaluated(rng, theta, others, fixed, arrays, k)),
        "proposal": microseconds(lambda k: proposed(rng, theta, state, surroundings, k)),
        "sum of the proxy, both sides": 2 * microseconds(lambda k: expanded(theta, others, k)),
        "transition, compiled": microseconds(
            lambda k: whole(
                decider.links, theta, others, *decider.data_at, row_state, state, looks, generators, constants, k
            )
        ),
        "transition, called from Python": microseconds(
            lambda k: [chain.transition(theta, others, 1.0) for _ in range(k)], DRAWS // 4
        ),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    model = logistic_model(*logistic_data(int(parser.parse_args().rows), 10, float))
    with model:
        step = pma.PenaltyMH()
        found = parts(step)
        start = time.perf_counter()
        pm.sample(
            DRAWS, tune=0, step=step, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
        found["draw, under pm.sample"] = 1e6 * (time.perf_counter() - start) / DRAWS
    print(pd.Series(found, name="µs").to_string(float_format="{:,.1f}".format))


if __name__ == "__main__":
    main()
