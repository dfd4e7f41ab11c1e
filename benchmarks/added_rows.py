"""A table that doubles five times: what a step pays for the new rows, and whether its draws are those of all rows.

Run ``python benchmarks/added_rows.py`` for logistic regressions with ten coefficients, from 100,000 to 3,200,000 rows,
in memory, and with ``--folder`` for Parquet files that are added to a folder.  Printed for each size are the processor
seconds in which the step learns from what was added, those in which a step that knows nothing of the first rows is
built (compiled before, as the first is), rows a draw, and the largest difference of a mean between both, in standard
deviations of the posterior.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import expit
from timing import quiet, show

import pymc_austerity as pma

D, SEED = 10, 43


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e5, help="of the first table")
    parser.add_argument("--folder", action="store_true")
    options = parser.parse_args()
    quiet()
    n0, rng = int(options.rows), np.random.default_rng(SEED)
    x = rng.normal(size=(32 * n0, D))
    y = (rng.random(len(x)) < expit(x @ np.linspace(-1, 1, D))).astype(int)
    lines = []
    for make in (pma.MHSS, pma.PenaltyMH):
        with TemporaryDirectory() as folder:
            lines += doubled(make, x, y, n0, Path(folder) if options.folder else None)
    show(lines)


def doubled(make: Any, x: np.ndarray, y: np.ndarray, n0: int, folder: Path | None) -> list[dict[str, Any]]:
    columns = [f"x{k}" for k in range(D)]

    def put(start: int, stop: int) -> None:
        if folder is None:
            pm.set_data({"x": x[:stop], "y": y[:stop]}, model=model)
        else:
            rows = pd.DataFrame(x[start:stop], columns=columns).assign(y=y[start:stop])
            rows.to_parquet(folder / f"{stop}.parquet", row_group_size=100_000)

    def built() -> Any:
        data = None if folder is None else pma.Blocks(folder, {"x": columns}, pool=1_000_000, chains=2)
        return make(data=data, progressbar=False, model=model)

    with pm.Model() as model:
        x_, y_ = pm.Data("x", x[:500]), pm.Data("y", y[:500])
        pm.Bernoulli("o", logit_p=x_ @ pm.Normal("b", 0, 1, shape=D), observed=y_)
    put(0, n0)
    settings = {"tune": 300, "chains": 2, "cores": 1, "progressbar": False, "compute_convergence_checks": False}
    step, lines = built(), []
    for k in range(1, 6):
        put(n0 * 2 ** (k - 1), n0 * 2**k)
        before = step.decider.parts.prepared.kept.psi
        added, _ = seconds(step.follow_data if folder is None else step.read_added_files)
        kept = np.array_equal(before, step.decider.parts.prepared.kept.psi)
        of_all, anew = seconds(built)
        with model:
            runs = [pm.sample(2_000, step=of, random_seed=k, **settings) for of in (step, anew)]
        ours, all_new = (run["posterior"]["b"].to_numpy().reshape(-1, D) for run in runs)
        used = [float(run["sample_stats"]["n_rows"].mean()) for run in runs]
        ratio = ours.std(0) / all_new.std(0)
        lines.append({
            "step": make.__name__,
            "rows": n0 * 2**k,
            "learnt from": "the new" if kept else "all",
            "CPU s": added,
            "all anew, CPU s": of_all,
            "rows a draw": used[0],
            "all anew": used[1],
            "means differ by, sd": np.abs((ours.mean(0) - all_new.mean(0)) / all_new.std(0)).max(),
            "sds, factor": ratio[np.abs(np.log(ratio)).argmax()],
        })  # fmt: skip
    return lines


if __name__ == "__main__":
    main()
