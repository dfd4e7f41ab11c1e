"""What `GroupMH` costs against the number of groups: at a hundred rows a group, and at a million rows in all.

Run ``python benchmarks/group_costs.py --figure file.png`` (``--groups 100 1000`` chooses).  Logistic regressions with
an intercept and a slope for each group, the default share of groups refreshed, one chain, 300 draws after 200: enough
for what a draw takes, not for what it is worth.  CPU seconds; a process for each model, so that memory is its own.
What is compiled once for all of them is in none.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pymc as pm
from groups import with_slopes

import pymc_austerity as pma

TUNE, DRAWS = 200, 300
ROWS_A_GROUP, ROWS_IN_ALL = 100, 1_000_000
KINDS = {"100 rows a group": lambda n: ROWS_A_GROUP * n, "1,000,000 rows": lambda n: ROWS_IN_ALL}
COLUMNS = ["set-up, s", "ms a draw", "most memory, GB"]


def measure(n_rows: int, n_groups: int) -> dict[str, float]:
    """Return what one model takes."""
    with with_slopes(n_rows, n_groups):
        start = time.process_time()
        step = pma.GroupMH(progressbar=False)
        set_up = time.process_time() - start
        settings = {"chains": 1, "cores": 1, "step": step, "random_seed": 1, "progressbar": False, "quiet": True}
        start = time.process_time()
        idata = pm.sample(
            DRAWS, tune=TUNE, var_names=["mean", "scale"], compute_convergence_checks=False, **settings
        )  # fmt: skip
        seconds = time.process_time() - start
    return {
        "rows": n_rows,
        "groups": n_groups,
        "rows a draw": float(idata["sample_stats"]["n_rows"].mean()),
        "set-up, s": set_up,
        "ms a draw": 1e3 * seconds / (TUNE + DRAWS),
        "most memory, GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def elsewhere(n_rows: int, n_groups: int) -> dict[str, float]:
    """Measure in another process: one that is started by a large process would count the memory of that."""
    command = [sys.executable, __file__, "--one", str(n_rows), str(n_groups)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(told.splitlines()[-1])


def draw_figure(table: pd.DataFrame, file: Path) -> None:
    """Save the costs against the number of groups."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(COLUMNS), figsize=(11, 3.4), layout="constrained")
    for axis, column in zip(axes, COLUMNS):
        for (kind, of), marker in zip(table.groupby("kind", sort=False), "os"):
            axis.loglog(of["groups"], of[column], marker + "-", label=kind)
        axis.set(xlabel="groups", ylabel=column)
        axis.grid(alpha=0.3)
    axes[0].legend()
    axes[-1].set(yscale="linear", ylim=(0, None))  # most of it is there before the first row
    figure.savefig(file, dpi=150)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(*given.one)))
        return
    elsewhere(20_000, 200)  # what is compiled once
    lines = []
    for kind, rows in KINDS.items():
        for n_groups in given.groups:
            lines.append({"kind": kind, **elsewhere(rows(n_groups), n_groups)})
            print(lines[-1], flush=True)
    table = pd.DataFrame(lines)
    print(table.to_string(index=False, float_format="{:,.3g}".format))
    if given.figure:
        draw_figure(table, given.figure)


if __name__ == "__main__":
    main()
