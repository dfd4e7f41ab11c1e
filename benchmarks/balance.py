"""What an imbalance that the spot check measures does to a posterior: the table of the page "Can I trust it?".

Run ``python benchmarks/balance.py``.  The mean of 500 normal rows, whose posterior is known, sampled without a proxy by
tests of growing carelessness; one of them forgets the penalty for its noise.
"""

from __future__ import annotations

import logging

import numpy as np
import pymc as pm
from numba import njit
from rich.console import Console
from rich.table import Table

import pymc_austerity as pma
from pymc_austerity.acceptance import (
    ACCEPT,
    REJECT,
    UNDECIDED,
    AcceptanceTest,
    FixedBatch,
    NoisePenalty,
    SequentialT,
    standard_error,
)
from pymc_austerity.steps.row_step import RowStep

N, SIGMA, DRAWS = 500, 2.0, 20_000


@njit
def decide_without_penalty(looks, look, moments, offset, scale, noise):  # type: ignore[no-untyped-def]
    """Take the estimate for the log ratio itself."""
    if moments.n < moments.n_total and (scale * standard_error(moments)) ** 2 > looks.max_variance:
        return UNDECIDED
    return ACCEPT if scale * moments.mean + offset > noise else REJECT


class WithoutPenalty(NoisePenalty):
    """The noise penalty, forgotten."""

    decide = staticmethod(decide_without_penalty)


def run(test: AcceptanceTest) -> tuple[str, str, str]:
    """Return the imbalance with its interval, the standard deviation over the right one, and the verdict."""
    rows = np.random.default_rng(12).normal(1, SIGMA, size=N)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 10), SIGMA, observed=rows)
        step = RowStep(test, proposal=pma.RandomWalk(scale=0.07), proxy=None)
        idata = pm.sample(
            DRAWS, tune=500, chains=4, cores=1, step=step, initvals={"mu": 1.0}, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    spot = pma.reliability(idata, model, step=step, n_states=200).checks.loc["spot check"]
    exact = 1 / np.sqrt(N / SIGMA**2 + 1 / 100)
    return f"{spot['value']:.3f}", f"{float(idata['posterior']['mu'].std()) / exact:.3f}", str(spot["verdict"])


def main() -> None:
    """Print the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    logging.getLogger("pymc_austerity").setLevel(logging.ERROR)
    table = Table("test", "out of balance", "standard deviation", "verdict of the spot check")
    tests = [NoisePenalty(150, growth=1.3), WithoutPenalty(150, growth=1.3)]
    tests += [SequentialT(epsilon, 50) for epsilon in (0.02, 0.05, 0.1, 0.2)]
    tests += [FixedBatch(250), FixedBatch(100)]
    for test in tests:
        table.add_row(str(test), *run(test))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
