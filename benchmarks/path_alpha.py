"""What α does to `debias`: variance that no replication has seen, coverage of its intervals, and warnings.

Run ``python benchmarks/path_alpha.py``: the posterior mean of 1,000,000 normal rows, 60 runs of 100 replications for
each α.
"""

from __future__ import annotations

import warnings

import numpy as np
from timing import show

from pymc_austerity import debias

RUNS = 60
ROWS = np.random.default_rng(3).normal(2, 1, 1_000_000)


def posterior_mean(rows: np.ndarray) -> float:
    return ROWS[rows].sum() / (len(rows) + 10)


def main() -> None:
    warnings.simplefilter("ignore")
    truth = posterior_mean(np.arange(len(ROWS)))
    lines = []
    for alpha in (0.3, 0.5, 0.7, 0.85, "auto", 1.0, 1.5, 2.5):
        runs = [
            debias(
                posterior_mean, len(ROWS), min_batch=20, alpha=alpha, replications=100, random_seed=seed,
                progressbar=False,
            )
            for seed in range(RUNS)
        ]  # fmt: skip
        within = [abs(r.estimate[-1] - truth) < 1.96 * r.standard_error[-1] for r in runs]
        lines.append({
            "α": str(alpha),
            "unseen variance, median": float(np.median([r.attrs["unseen_variance"] for r in runs])),
            "95% intervals with φ on all rows": float(np.mean(within)),
            "share of runs that warn": float(np.mean([bool(r.attrs["doubts"]) for r in runs])),
            "rows a run, median": float(np.median([float(r.rows_touched.sum()) for r in runs])),
        })  # fmt: skip
    show(lines)


if __name__ == "__main__":
    main()
