"""The same logistic regression with its columns in ten units: what a step reads, and the first slope put back.

Run ``python benchmarks/units.py``.  20,000 rows, a flat prior, one chain of 300 draws after 200 of tuning; columns are
``Z M`` with an intercept and four standard normal columns in Z and a matrix M for each line.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
from timing import ONE_CHAIN, quiet, show

import pymc_austerity as pma

ROWS = 20_000


def unit(**entries: float) -> np.ndarray:
    """Return the unit matrix with other entries, ``a01=`` in row 0 and column 1."""
    found = np.eye(5)
    for place, value in entries.items():
        found[int(place[1]), int(place[2])] = value
    return found


UNITS = {
    "standardised": unit(),
    "one of 1e-8": unit(a11=1e-8),
    "one of 1e8": unit(a11=1e8),
    "one of 1e-8, one of 1e8": unit(a11=1e-8, a22=1e8),
    "1e-4, 1e3, 1e6, 1e-6": np.diag([1, 1e-4, 1e3, 1e6, 1e-6]),
    "1e3 ± 1": unit(a01=1e3),
    "1e6 ± 1": unit(a01=1e6),
    "1e6 ± 1e3": unit(a01=1e6, a11=1e3),
    "two that differ by 1e-4": unit(a12=1, a22=1e-4),
    "two of 1e8 that differ by 1e3": unit(a11=1e8, a12=1e8, a22=1e3),
}


def main() -> None:
    quiet()
    rng = np.random.default_rng(0)
    Z = np.column_stack([np.ones(ROWS), rng.normal(size=(ROWS, 4))])
    seen = rng.random(ROWS) < 1 / (1 + np.exp(-Z @ [-0.5, 0.7, -0.4, 0.3, 0.2]))
    lines = []
    for name, M in UNITS.items():
        with pm.Model():
            pm.Bernoulli("y", logit_p=(Z @ M) @ pm.Flat("beta", shape=5), observed=seen)
            step = pma.PenaltyMH(progressbar=False)
            idata = pm.sample(300, tune=200, step=step, **ONE_CHAIN)
        usage, slope = pma.data_usage(idata), (idata["posterior"]["beta"].to_numpy()[0] @ M.T)[:, 1]
        lines.append({
            "columns": name,
            "passes": float(usage["setup_passes"]),
            "rows a draw": float(usage["mean"]),
            "accepted": float(idata["sample_stats"]["accepted"].mean()),
            "ESS of 300": float(usage["ess"]),
            "first slope": f"{slope.mean():.3f} ± {slope.std():.3f}",
        })  # fmt: skip
    show(lines)


if __name__ == "__main__":
    main()
