"""Models with many groups: effective draws a CPU second of `GroupMH`, and of `PenaltyMH` with one decision over all.

Run ``python benchmarks/groups.py`` (``--problems`` chooses, ``--columns`` those of the table).  Logistic regressions
with five slopes, groups of very unequal size and an unknown mean and scale of their effects, one chain each.  CPU time
of sampling, tuning included, set-up by itself.  ESS is ArviZ's bulk ESS: the smallest of what the groups share, and
that of the slowest of 20 groups.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
from group_models import groups
from timing import sampled, show

import pymc_austerity as pma
from pymc_austerity.diagnostics.results import group

#: Numbers of groups, each with 100 rows in the mean.
PROBLEMS = {"3,000 x 36": 30, "10,000 x 106": 100, "30,000 x 306": 300, "200,000 x 2,006": 2_000}
SHARED = ("intercept", "log_scale", "slopes")
STEPS: dict[str, Callable[[], Any]] = {
    "GroupMH, auto": partial(pma.GroupMH, progressbar=False),
    "one decision": partial(pma.PenaltyMH, proposal=pma.CrankNicolson(), progressbar=False),
}


def draws_of(idata: Any) -> dict[str, np.ndarray]:
    """Return the draws of all that is shared and of 20 groups, shape (C, S, number) by kind."""
    posterior = group(idata, "posterior")
    shared = [posterior[name].to_numpy().reshape(*posterior[name].shape[:2], -1) for name in SHARED]
    effects = posterior["effect"].to_numpy()
    some = np.random.default_rng(1).choice(effects.shape[2], 20, replace=False)
    return {"shared": np.concatenate(shared, axis=2), "effects": effects[:, :, some]}


def measure(n_groups: int, build: Callable[[], Any], tune: int, draws: int) -> dict[str, float]:
    """Sample with a step, and return what its draws cost and are worth."""
    with groups(100 * n_groups, n_groups).build():
        run = sampled(build, draws, tune)
    stats = group(run.idata, "sample_stats")
    return {
        "set-up s": run.set_up,
        "ms a draw": 1e3 * run.sampling / (draws + tune),
        "rows a draw": float(stats["n_rows"].mean()),
        "accepted": float(stats["accepted"].mean()),
        **{f"ESS/s {kind}": float(np.min(az.ess(of))) / run.sampling for kind, of in draws_of(run.idata).items()},
    }


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS)[:3], choices=list(PROBLEMS))
    parser.add_argument("--tune", type=int, default=1_000)
    parser.add_argument("--draws", type=int, default=3_000)
    parser.add_argument("--columns", nargs="+", help="of the table, all by default")
    options = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for name in options.problems:
        for step, build in STEPS.items():
            lines.append({"problem": name, "step": step})
            lines[-1] |= measure(PROBLEMS[name], build, options.tune, options.draws)
            show(lines[-1:], sys.stderr)
    table = pd.DataFrame(lines)
    show(table[options.columns or list(table)])


if __name__ == "__main__":
    main()
