"""Posterior means from skewed rows under the default settings of each test, and under careless ones.

Run ``python benchmarks/skewed_rows.py``; it takes about a quarter of an hour.  A batch of skewed rows that estimates a
small variance is one whose mean is off, and a chain that moves by small steps adds such errors up.  The posteriors are
known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from rich.console import Console
from rich.table import Table
from scipy import special

import pymc_austerity as pma

DRAWS, CHAINS = 10_000, 4
EXPONENTIAL = np.random.default_rng(7).exponential(size=2_000)
LOG_NORMAL = np.random.default_rng(2).lognormal(0, 1, size=4_000)
#: The rows of the tests of faults, a few of which carry most of the variance.
HEAVY_LOG_NORMAL = np.random.default_rng(2).lognormal(0, 2, size=4_000)


def normal_mean(y: np.ndarray) -> tuple[pm.Model, float, float]:
    """Return the model of a mean, taken for that of normal rows, with its posterior mean and standard deviation."""
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("mu", initval=y.mean()), y.std(), observed=y)
    return model, float(y.mean()), float(y.std() / np.sqrt(y.size))


def exponential_rate(y: np.ndarray) -> tuple[pm.Model, float, float]:
    """Return the model of a log rate, with its posterior mean and standard deviation."""
    with pm.Model() as model:
        mu = pm.Flat("mu", initval=-np.log(y.mean()))
        pm.Exponential("y", pm.math.exp(mu), observed=y)
    return model, float(special.digamma(y.size) - np.log(y.sum())), float(np.sqrt(special.polygamma(1, y.size)))


CASES = {
    "normal mean, exponential rows": normal_mean(EXPONENTIAL),
    "exponential rate, exponential rows": exponential_rate(EXPONENTIAL),
    "normal mean, log-normal rows": normal_mean(LOG_NORMAL),
    "normal mean, log-normal rows of log sd 2": normal_mean(HEAVY_LOG_NORMAL),
}


def steps(sd: float) -> dict[str, Callable[[], Any]]:
    """Return the steps by name, the careless ones last."""
    short: dict[str, Any] = {"proposal": pma.RandomWalk(scale=0.3 * sd), "tune": False, "proxy": None}
    return {
        "ApproxMH(proxy=None)": lambda: pma.ApproxMH(proxy=None),
        "PenaltyMH(proxy=None)": lambda: pma.PenaltyMH(proxy=None),
        "MinibatchBarker(proxy=None)": lambda: pma.MinibatchBarker(proxy=None),
        "PenaltyMH, steps of .3 sd": lambda: pma.PenaltyMH(**short),
        "MinibatchBarker, steps of .3 sd": lambda: pma.MinibatchBarker(**short),
        "MinibatchBarker(skewness=False), steps of .3 sd": lambda: pma.MinibatchBarker(skewness=False, **short),
    }


def run(model: pm.Model, mean: float, sd: float, build: Callable[[], Any]) -> list[str]:
    """Return the row of one step."""
    with model:
        step = build()
        idata = pm.sample(
            DRAWS, tune=1_000, chains=CHAINS, cores=1, step=step, random_seed=3, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    draws = idata["posterior"]["mu"].to_dataset(name="mu")
    error = float(az.mcse(draws, method="mean")["mu"]) / sd
    report = pma.reliability(idata, model, step=step)
    return [
        f"{(float(draws['mu'].mean()) - mean) / sd:+.3f} ± {error:.3f}",
        f"{report.checks.loc['means', 'value']:.3f}" if "means" in report.checks.index else "–",
        f"{float(draws['mu'].std()) / sd:.3f}",
        f"{float(idata['sample_stats']['n_rows'].mean()):,.0f}",
        report.verdict,
    ]


def main() -> None:
    """Print the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    logging.getLogger("pymc_austerity").setLevel(logging.ERROR)
    table = Table(
        "rows", "step", "shift of the mean (sd)", "as reliability sees it", "sd ratio", "rows a draw", "verdict"
    )
    for name, (model, mean, sd) in CASES.items():
        for described, build in steps(sd).items():
            table.add_row(name, described, *run(model, mean, sd, build))
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
