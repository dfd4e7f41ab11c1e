"""Error against rows read for the first batch of `PenaltyMH` and `MinibatchBarker`: where their defaults come from.

Run ``python benchmarks/batch_size.py`` after ``python benchmarks/accuracy.py --problems "mnist 7v9"``, with whose exact
chain it compares.  MNIST 7v9 is the hardest of the problems for a proxy: 244 rows a parameter.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
import pymc as pm
from peers import error, smallest_ess
from problems import PROBLEMS

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group

DRAWS, TUNE, CHAINS = 10_000, 300, 2


def measure(problem: str, model: pm.Model, step: object, batch_size: int) -> dict[str, object]:
    """Sample once and return what was read and how far off it is."""
    idata = pm.sample(
        DRAWS, tune=TUNE, step=step, chains=CHAINS, cores=CHAINS, random_seed=1, progressbar=False, quiet=True,
        compute_convergence_checks=False,
    )  # fmt: skip
    ess, rows = smallest_ess(idata), float(group(idata, "sample_stats")["n_rows"].mean())
    return {
        "test": type(step).__name__, "batch_size": batch_size, "rows a draw": rows,
        "shift rms": error(problem, model, idata), "its MC error": 1 / np.sqrt(ess), "min ESS": ess,
        "ESS per million rows": ess / (CHAINS * DRAWS * rows) * 1e6,
    }  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", choices=PROBLEMS, default="mnist 7v9")
    parser.add_argument("--sizes", type=int, nargs="+", default=[25, 50, 100, 200, 400])
    given = parser.parse_args()
    with PROBLEMS[given.problem]() as model:
        lines = [
            measure(given.problem, model, test(batch_size=size), size)
            for test in (pma.PenaltyMH, pma.MinibatchBarker)
            for size in given.sizes
        ]
    print(pd.DataFrame(lines).to_string(index=False, float_format="{:,.3f}".format))


if __name__ == "__main__":
    main()
