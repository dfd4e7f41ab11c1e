"""The figure of what an expansion misses: four posteriors of one parameter, of 2,000 to 200,000 rows.

Run ``python benchmarks/expansion_figure.py``, which takes seconds and writes ``docs/not_normal.png``.  Above, the log
posterior and its expansion to second order about the mode; below, the difference between both and what 200 weighted
rows estimate of it.  Only NumPy is used, so that the file shows what the package does to any model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from scipy import optimize
from scipy.special import expit, log_expit

OUT = Path(__file__).resolve().parents[1] / "docs" / "not_normal.png"
BATCH, STEP, LOWEST = 200, 1e-2, -8.0


class Posterior(NamedTuple):
    """Log-likelihoods of all rows and the log prior at a value of the parameter, where to search for the mode."""

    title: str
    parameter: str
    rows: Callable[[float], np.ndarray]
    prior: Callable[[float], float]
    start: float
    ends: tuple[float, float]  # of the axis, in standard deviations of the expansion
    power: float | None = None  # of an expansion that suits a boundary


def logistic() -> Posterior:
    rng = np.random.default_rng(1)
    x = rng.normal(size=20_000)
    y = rng.random(len(x)) < expit(0.5 * x)
    return Posterior(
        "many rows", "slope", lambda b: np.where(y, log_expit(b * x), log_expit(-b * x)), lambda b: -(b**2) / 2,
        0.5, (-4, 4),
    )  # fmt: skip


def rare() -> Posterior:
    y = np.arange(200_000) < 5
    return Posterior(
        "5 events in 200,000 rows", "log odds", lambda a: np.where(y, log_expit(a), log_expit(-a)),
        lambda a: -((a / 10) ** 2) / 2, -10.0, (-5, 4),
    )  # fmt: skip


def zero_inflation() -> Posterior:
    y = np.random.default_rng(2).poisson(1.5, 20_000)
    p0 = np.exp(-1.5)

    def rows(a: float) -> np.ndarray:
        zero = expit(a)
        return np.where(y == 0, np.log(zero + (1 - zero) * p0), log_expit(-a))

    return Posterior(
        "share near 0", "log odds of zero inflation", rows, lambda a: log_expit(a) + log_expit(-a), -4.0, (-4, 4), 1.0
    )


def mirrored() -> Posterior:
    y = np.random.default_rng(3).normal(0.04, 1, 2_000)
    return Posterior(
        "two modes", "root of the mean", lambda a: -((y - a**2) ** 2) / 2, lambda a: -(a**2) / 2, 0.2, (-9, 4)
    )


def estimates(remainder: Callable[[float], np.ndarray], at: np.ndarray, sd: float, mode: float) -> np.ndarray:
    """Return what batches of weighted rows say of the sum of the remainders."""
    rng = np.random.default_rng(4)
    typical = np.sqrt(np.mean([remainder(mode + z * sd) ** 2 for z in (-2, -1, 1, 2)], axis=0))
    p = 0.9 * typical / typical.sum() + 0.1 / len(typical)
    found = []
    for a in at:
        chosen = rng.choice(len(p), size=BATCH, p=p)
        found.append(np.mean(remainder(a)[chosen] / p[chosen]))
    return np.array(found)


def draw(axes: np.ndarray, of: Posterior) -> None:
    """Draw a column of the figure."""
    mode = float(
        optimize.minimize(lambda a: -(of.rows(a[0]).sum() + of.prior(a[0])), of.start, method="Nelder-Mead").x[0]
    )
    before, here, after = (of.rows(mode + s * STEP) for s in (-1, 0, 1))
    slope, curve = (after - before) / (2 * STEP), (after - 2 * here + before) / STEP**2

    def expansion(a: float) -> np.ndarray:
        return here + slope * (a - mode) + curve * (a - mode) ** 2 / 2

    def remainder(a: float) -> np.ndarray:
        return of.rows(a) - expansion(a)

    prior_curve = (of.prior(mode + STEP) - 2 * of.prior(mode) + of.prior(mode - STEP)) / STEP**2
    sd = 1 / np.sqrt(-(curve.sum() + prior_curve))
    grid = mode + sd * np.linspace(*of.ends, 121)
    top = here.sum() + of.prior(mode)
    exact = np.array([of.rows(a).sum() + of.prior(a) for a in grid]) - top
    expanded = np.array([expansion(a).sum() + of.prior(a) for a in grid]) - top
    axes[0].plot(grid, exact, lw=2.5, label="log posterior")
    axes[0].plot(grid, expanded, "--", label="its expansion")
    if of.power:
        u = np.expm1(of.power * (grid - mode)) / of.power
        of_power = [slope.sum() * x + (curve - of.power * slope).sum() * x**2 / 2 for x in u]
        priors = [of.prior(a) - of.prior(mode) for a in grid]
        axes[0].plot(grid, np.add(of_power, priors), ":", color="C2", lw=2.5, label="in a power")
        axes[0].legend(handles=axes[0].lines[-1:], fontsize=10, loc="lower left")
    axes[0].set(ylim=(LOWEST, 0.5), title=of.title, xticklabels=[])
    at = grid[::6]
    axes[1].plot(grid, exact - expanded, "k", lw=1, label="what the expansion misses")
    axes[1].plot(at, estimates(remainder, at, sd, mode), "o", ms=4, color="C3", label="its estimate from 200 rows")
    axes[1].set(xlabel=of.parameter, ylim=(LOWEST, -LOWEST), xlim=axes[0].get_xlim())
    for ax in axes:
        ax.locator_params(axis="x", nbins=4)


def main() -> None:
    plt.rcParams["font.size"] = 13
    fig, axes = plt.subplots(4, 2, figsize=(8.5, 10), layout="constrained", sharey="row")
    pairs = (axes[:2, 0], axes[:2, 1], axes[2:, 0], axes[2:, 1])
    for pair, make in zip(pairs, (logistic, rare, zero_inflation, mirrored)):
        draw(pair, make())
    for ax in axes[:2, 0]:
        ax.legend(fontsize=11, loc="lower center")
    fig.savefig(OUT, dpi=90)


if __name__ == "__main__":
    main()
