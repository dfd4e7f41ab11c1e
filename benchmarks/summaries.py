"""Peak memory and processor time of summaries that are kept in place of the draws of many effects.

Run ``python benchmarks/summaries.py`` for 100,000 groups of 20 effects in four chains; ``--quantiles`` for quantiles of
each.  A process for each line.  The draws are independent and standard normal, so that what is printed is what the
trace takes, and how far the quantiles lie from those of the normal distribution, as ranks, on average over effects.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import pymc as pm
from pymc.step_methods.arraystep import BlockedStep
from scipy import stats
from timing import elsewhere, peak_memory, quiet, show

import pymc_austerity as pma

CHAINS, QUANTILES = 4, (0.05, 0.5, 0.95)


class Independent(BlockedStep):
    """Draws every effect anew."""

    stats_dtypes_shapes: dict[str, object] = {}  # noqa: RUF012

    def __init__(self, model: pm.Model):
        self.vars, self.rng = model.value_vars, np.random.default_rng(1)

    def step(self, point: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[dict[str, object]]]:
        """Return a point."""
        return {name: self.rng.standard_normal(value.shape) for name, value in point.items()}, [{}]


def here(groups: int, effects: int, draws: int, quantiles: tuple[float, ...]) -> dict[str, float]:
    quiet()
    with pm.Model() as model:
        pm.Normal("u", 0, 1, shape=(groups, effects))
        trace, start = pma.RunningSummaries(quantiles=quantiles), time.process_time()
        pm.sample(
            draws, tune=5, chains=CHAINS, cores=1, step=Independent(model), trace=trace, progressbar=False,
            compute_convergence_checks=False, quiet=True,
        )  # fmt: skip
    seconds, found = time.process_time() - start, trace.summaries()["u"]
    line = {"effects": groups * effects, "draws": CHAINS * draws, "peak GB": peak_memory()}
    line["s a draw"] = seconds / (CHAINS * draws)
    for q in quantiles:
        off = stats.norm.cdf(found.sel(summary=f"q{q:g}")) - q
        line[f"rank of {q:g} off by"] = float(np.sqrt(np.mean(off**2)))
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", type=float, default=1e5)
    parser.add_argument("--effects", type=int, default=20)
    parser.add_argument("--draws", type=int, default=100, help="of each chain")
    parser.add_argument("--here", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    size = int(options.groups), options.effects, options.draws
    if options.here is not None:
        print(json.dumps(here(*size, QUANTILES[: options.here])))
        return
    names = "--groups", "--effects", "--draws"
    show([elsewhere(*[str(part) for pair in zip(names, size) for part in pair], "--here", str(n)) for n in (0, 3)])


if __name__ == "__main__":
    main()
