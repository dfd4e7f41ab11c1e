"""The same logistic regression with its columns in ten different units: rows a draw, and the coefficients put back.

Run ``python benchmarks/units.py``; it takes about two minutes.
"""

from __future__ import annotations

import argparse
import logging
import warnings

import numpy as np
import pymc as pm
from rich.console import Console
from rich.table import Table

import pymc_austerity as pma


def units() -> dict[str, np.ndarray]:
    """Return matrices M: the columns are Z M, with Z a column of ones and four standard normal ones."""

    def with_entries(**entries: float) -> np.ndarray:
        found = np.eye(5)
        for place, value in entries.items():
            found[int(place[1]), int(place[2])] = value
        return found

    return {
        "standardised": np.eye(5),
        "a column of 1e-8": with_entries(a11=1e-8),
        "a column of 1e8": with_entries(a11=1e8),
        "one of 1e-8, one of 1e8": with_entries(a11=1e-8, a22=1e8),
        "1e-4, 1e3, 1e6, 1e-6": np.diag([1, 1e-4, 1e3, 1e6, 1e-6]),
        "1e3 ± 1": with_entries(a01=1e3),
        "1e6 ± 1": with_entries(a01=1e6),
        "1e6 ± 1e3": with_entries(a01=1e6, a11=1e3),
        "two that differ by 1e-4": with_entries(a12=1.0, a22=1e-4),
        "two of 1e8 that differ by 1e3": with_entries(a11=1e8, a12=1e8, a22=1e3),
    }


def logistic(X: np.ndarray, labels: np.ndarray) -> pm.Model:
    """Logistic regression with a flat prior, which is the same in all units."""
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=pm.math.dot(X, pm.Flat("beta", shape=X.shape[1])), observed=labels)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=100_000)
    parser.add_argument("--draws", type=int, default=2_000)
    arguments = parser.parse_args()
    for name in ("pymc", "pymc_austerity"):
        logging.getLogger(name).setLevel(logging.ERROR)
    rng = np.random.default_rng(0)
    Z = np.column_stack([np.ones(arguments.rows), rng.normal(size=(arguments.rows, 4))])
    labels = (rng.random(arguments.rows) < 1 / (1 + np.exp(-Z @ [-0.5, 0.7, -0.4, 0.3, 0.2]))).astype(int)
    table = Table("columns", "proxy", "passes", "rows a draw", "accepted", "ESS", "mean and sd of the first slope")
    for name, M in units().items():
        with warnings.catch_warnings(), logistic(Z @ M, labels):
            warnings.simplefilter("ignore")
            step = pma.PenaltyMH(progressbar=False)
            idata = pm.sample(
                step=step, tune=200, draws=arguments.draws, chains=1, cores=1, random_seed=1, progressbar=False,
                compute_convergence_checks=False,
            )  # fmt: skip
        usage = pma.data_usage(idata)
        slope = (idata.posterior["beta"].values[0] @ M.T)[:, 1]
        table.add_row(
            name, "no" if step.decider.prepared is None else "yes", f"{usage['setup_passes']:.1f}",
            f"{usage['mean']:,.0f}", f"{float(idata.sample_stats['accepted'].mean()):.2f}", f"{usage['ess']:,.0f}",
            f"{slope.mean():.4f} {slope.std():.4f}",
        )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
