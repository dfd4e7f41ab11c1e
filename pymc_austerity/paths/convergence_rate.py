"""How fast partial posteriors converge (β), and the truncation exponent α that follows.

β is read off a few short pilot paths: δ_t² ≈ c·n_t^(−β) makes the squared increments
E|φ_t − φ_{t−1}|² a power law with the same exponent, whether the error is spread, bias, or Monte Carlo noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from pymc_austerity.paths.truncation import FloatArray, Truncation

#: Increments of this many batches give a slope; fewer leave nothing to fit.
MIN_LEVELS = 3
#: A path is walked up to here: 31 times the smallest batch for ratio 2.
MAX_LEVELS = 5
#: Random subsets of n rows differ by 1/n in variance: a faster rate is that of a bias of small batches, and
#: it ends where the spread takes over.
MAX_BETA = 1.0
#: Slower convergence than this leaves no α > 0 worth the name.
MIN_BETA = 0.1
#: The standard error of β is a jackknife over pilot paths; from fewer it cannot be relied on.
MIN_PILOT_PATHS = 8
#: What a smaller α may cost, so that fewer of the jumps that make the variance are too rare to be seen.
_SLACK = 0.2
_RULE = f"the smallest with a cost × variance within {_SLACK:.0%} of the least"


@dataclass(frozen=True)
class Choice:
    """A truncation exponent α, with the convergence rate it follows from (NaN where none was fitted) and the reason."""

    alpha: float
    beta: float
    beta_error: float
    #: One or two sentences for the user.
    reason: str
    #: Rows that the pilot passed to φ.
    rows: int = 0


def choose(
    alpha: float | Literal["auto"],
    sizes: tuple[int, ...],
    ratio: float,
    cost: Callable[[int], float],
    pilot_paths: int,
    pilot: Callable[[tuple[int, ...]], NDArray[np.float64]],
) -> Choice:
    """Take the α of the user, or find one with a pilot run where there is something to find.

    ``pilot(sizes)`` walks `pilot_paths` paths over these batches and returns φ on them, shape (K, m, ...).
    """
    if alpha != "auto":
        Truncation(sizes, alpha, ratio)  # refuses one for which there is no law
        return Choice(float(alpha), np.nan, np.nan, "given by the user")
    for size in sizes:
        if not (isinstance(value := cost(size), float | int | np.number) and 0 < value < np.inf):
            raise ValueError(
                f"cost must return a finite number above 0 for every batch, found {value!r} for {size} rows: "
                "alpha='auto' minimises expected cost × variance, which would not exist. Return a number in any unit, "
                "or give alpha."
            )
    if len(sizes) == 1:
        return Choice(1.0, np.nan, np.nan, "the only batch is the whole data; α plays no part")
    # The last batch is left out: it is the whole data, and a pilot must stay cheap.
    levels = min(MAX_LEVELS, len(sizes) - 1)
    if levels < MIN_LEVELS:
        found = _cautious_alpha(sizes, ratio, 1.0, cost)
        reason = f"{len(sizes)} batches are too few for a pilot; α is {_RULE} for β = 1."
        return Choice(found, np.nan, np.nan, reason)
    if not (isinstance(pilot_paths, int | np.integer) and pilot_paths >= MIN_PILOT_PATHS):
        raise ValueError(
            f"pilot_paths must be a whole number of at least {MIN_PILOT_PATHS} for a usable convergence rate, found "
            f"{pilot_paths}. Raise it, or give alpha."
        )
    return choose_alpha(sizes, ratio, pilot(sizes[:levels]), cost)


def fit_rate(sizes: Sequence[int], paths: NDArray[np.float64]) -> tuple[float, float]:
    """Fit β by least squares on the logarithms of mean squared increments of φ along K paths, shape (K, m, ...).

    Return β and its standard error, a jackknife over the paths. β is infinite where φ does not change at all, or no
    longer after the first batches. One of them is NaN where φ changes on too few of the paths.
    """
    increments = np.diff(paths, axis=1) ** 2
    increments = increments.reshape(*increments.shape[:2], -1)
    scale = increments.mean(axis=(0, 1))
    moving = scale > 0
    if not moving.any():
        return np.inf, 0.0
    # Every component of φ counts alike, whatever its unit.
    per_path = (increments[:, :, moving] / scale[moving]).mean(axis=2)
    log_n = np.log(np.asarray(sizes[:-1], dtype=float))
    weights = (log_n - log_n.mean()) / ((log_n - log_n.mean()) ** 2).sum()
    total = per_path.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        beta = -float(weights @ np.log(total))
        left_out = -np.log(total - per_path) @ weights
        count = len(per_path)
        error = float(np.sqrt((count - 1) * np.mean((left_out - left_out.mean()) ** 2)))
    return beta, error


def best_alpha(sizes: tuple[int, ...], ratio: float, beta: float, cost: Callable[[int], float] = float) -> float:
    """Minimise expected cost × second moment over 0 < α < β.

    The second moment is the bound of Appendix A. The exact variance would not do on short paths: it vanishes when every
    replication reads all rows, so its product with the cost falls towards α = 0, the full data over and over.
    """
    product = _cost_times_moment(sizes, ratio, beta, cost)
    return float(minimize_scalar(product, bounds=(0.0, beta), method="bounded").x)


def _cautious_alpha(sizes: tuple[int, ...], ratio: float, beta: float, cost: Callable[[int], float]) -> float:
    """Return the smallest α whose expected cost × second moment is at most `_SLACK` above the minimum.

    Near the minimum the product is flat in α, and the share of the variance that a few hundred replications do not see
    is not.
    """
    product, best = _cost_times_moment(sizes, ratio, beta, cost), best_alpha(sizes, ratio, beta, cost)
    most, least = np.log(product(best)) + np.log1p(_SLACK), 0.05 * best

    def excess(alpha: float) -> float:
        return np.log(product(alpha)) - most

    return float(brentq(excess, least, best)) if excess(least) > 0 else least


def _cost_times_moment(
    sizes: tuple[int, ...], ratio: float, beta: float, cost: Callable[[int], float]
) -> Callable[[float], float]:
    def product(alpha: float) -> float:
        law = Truncation(sizes, alpha, ratio)
        return law.expected_cost(cost) * law.second_moment_bound(beta)

    return product


def choose_alpha(
    sizes: tuple[int, ...], ratio: float, paths: NDArray[np.float64], cost: Callable[[int], float] = float
) -> Choice:
    """Turn pilot paths into α, erring towards a slow convergence rate, which is the safe side."""
    n_paths, levels = paths.shape[:2]
    rows = n_paths * sum(sizes[:levels])
    beta, error = fit_rate(sizes[:levels], paths)
    if np.isposinf(beta):
        alpha = _cautious_alpha(sizes, ratio, MAX_BETA, cost)
        how = "did not change" if error == 0 else "stopped changing"
        reason = f"φ {how} along {n_paths} pilot paths; α is that of a fast rate, β = {MAX_BETA}."
        return Choice(alpha, beta, error, reason, rows)
    if not (np.isfinite(beta) and np.isfinite(error)):
        raise ValueError(
            f"alpha='auto' finds no convergence rate: φ changed on too few of {n_paths} pilot paths. Raise pilot_paths "
            "or min_batch, so that φ changes on several of them, or give alpha."
        )
    used = float(np.clip(beta - error, MIN_BETA, MAX_BETA))
    alpha = _cautious_alpha(sizes, ratio, used, cost)
    reason = (
        f"β = {beta:.2f} ± {error:.2f} from {n_paths} pilot paths over batches of {sizes[0]} to "
        f"{sizes[levels - 1]} rows; α is {_RULE} for β = {used:.2f}, one standard error lower and at "
        f"most {MAX_BETA:g}, because a rate taken too low is safe and one taken too high is not."
    )
    return Choice(alpha, beta, error, reason, rows)


def squared_errors(sizes: tuple[int, ...], beta: float) -> FloatArray:
    """Return δ_t² = n_t^(−β) − N^(−β), up to a factor: nested batches without replacement end in δ_L = 0."""
    n = np.asarray(sizes, dtype=float)
    return n**-beta - n[-1] ** -beta
