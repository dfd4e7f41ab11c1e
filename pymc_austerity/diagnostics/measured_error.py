"""Moves out of balance, from repeated decisions on a proposal and its reverse, and how far they shift the posterior.

A chain whose flow from θ to θ′ is not that from θ′ to θ drifts: E[(h(θ′) − h(θ)) × imbalance] a draw, for h = θ as for
its square.  A slow chain comes back only slowly, so that an error too small to be seen in a single decision adds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.special import ndtri

_BOOTSTRAPS = 1_000


class Estimate(NamedTuple):
    """A number with a confidence interval."""

    value: float
    low: float
    high: float


class Repeats(NamedTuple):
    """What many runs of a test decided on one proposal."""

    n: int
    #: Runs in which the test accepted, in which the same random number decided on all rows would have, and both.
    accepted: int
    exact: int
    both: int
    #: Rows read over all runs; runs that decided before all rows, and the rows that these read.
    rows: int
    partial: int
    partial_rows: int

    def with_more(self, others: Repeats) -> Repeats:
        """Return these runs and others on the same proposal together."""
        return Repeats(*(a + b for a, b in zip(self, others)))


def control_coefficient(repeats: Sequence[Repeats]) -> float:
    """Return the regression coefficient of the test's decision on that of all rows, pooled within proposals.

    One where both compare with the same threshold, zero where the noise of the batch is part of the test.
    """
    covariance = sum(r.both - r.accepted * r.exact / r.n for r in repeats)
    variance = sum(r.exact - r.exact**2 / r.n for r in repeats)
    return float(covariance / variance) if variance > 0 else 0.0


def error_of(repeats: Repeats, exact: float, coefficient: float) -> tuple[float, float]:
    """Return the error of the test's acceptance probability and its standard error.

    `exact` is the probability on all rows; what their decisions missed of it is subtracted `coefficient` times.
    """
    n = repeats.n
    accepted, same, both = repeats.accepted / n, repeats.exact / n, repeats.both / n
    error = accepted - exact - coefficient * (same - exact)
    variance = (
        accepted * (1 - accepted) + coefficient**2 * same * (1 - same) - 2 * coefficient * (both - accepted * same)
    )
    return error, float(np.sqrt(max(variance, 0.0) / (n - 1)))


class Flow(NamedTuple):
    """How often a proposal and its reverse are accepted, as seen from the more probable of the two states.

    Acceptance probabilities by the test, times the posterior of the state that the move starts from, over that of the
    more probable state. Equal for a chain that keeps the posterior (detailed balance), whatever part of its proposals
    it accepts. `se` is the standard error of their difference.
    """

    there: float
    back: float
    se: float

    @property
    def error(self) -> float:
        """What is out of balance: positive where the chain makes the move too often."""
        return self.there - self.back


def flow_of(
    forth: Repeats, back: Repeats | None, exact: tuple[float, float], log_ratio: float, coefficient: float
) -> Flow:
    """Return the flow between two states, from their acceptance probabilities on all rows, `exact`, and repeated tests.

    The reverse has no tests where it starts from an impossible state; its log acceptance ratio is −`log_ratio`.
    """
    weights = np.exp(min(0.0, -log_ratio)), np.exp(min(0.0, log_ratio))
    found = [(0.0, 0.0) if r is None else error_of(r, e, coefficient) for r, e in zip((forth, back), exact)]
    there, reverse = (float(w * (e + error)) for w, e, (error, _) in zip(weights, exact, found))
    return Flow(there, reverse, float(np.hypot(*(w * se for w, (_, se) in zip(weights, found)))))


def typical_error(errors: np.ndarray, ses: np.ndarray, rng: np.random.Generator, level: float) -> Estimate:
    """Return the root mean square error over states, without what Monte Carlo error adds, with a bootstrap interval."""
    excess = errors**2 - ses**2
    means = excess[rng.integers(excess.size, size=(_BOOTSTRAPS, excess.size))].mean(axis=1)
    low, high = np.quantile(means, [level / 2, 1 - level / 2])
    value, low, high = np.sqrt(np.maximum([excess.mean(), low, high], 0.0))
    return Estimate(float(value), float(low), float(high))


def mean_error(errors: np.ndarray, level: float) -> Estimate:
    """Return the mean error with an interval for other states as well."""
    value = float(errors.mean())
    half = float(-ndtri(level / 2) * errors.std(ddof=1) / np.sqrt(errors.size))
    return Estimate(value, value - half, value + half)


def worst_error(
    errors: np.ndarray,
    ses: np.ndarray,
    finalists: np.ndarray,
    again: np.ndarray,
    again_ses: np.ndarray,
    n: tuple[int, int],
    level: float,
) -> Estimate:
    """Return the largest error over states.

    The `finalists` were measured `again`, with independent random numbers: not selected for being large, so not biased
    by it. The lower end of the interval is that of these errors, the upper end that of all states at once (Bonferroni).
    `n` are the runs of the test behind each error and behind each new one: where no run differed from all rows, the
    rate of differences is not zero but below about 3/n.
    """
    if not len(finalists):
        return Estimate(0.0, 0.0, 0.0)
    sizes = np.abs(again)
    low = max(0.0, float((sizes + ndtri(level / 2 / len(finalists)) * again_ses).max()))
    z = -ndtri(level / 2 / len(errors))
    highs = np.abs(errors) + np.maximum(z * ses, np.where(ses > 0, 0.0, 3 / n[0]))
    highs[finalists] = sizes + np.maximum(z * again_ses, np.where(again_ses > 0, 0.0, 3 / n[1]))
    return Estimate(float(sizes.max()), low, min(1.0, float(highs.max())))


class MeanShift(NamedTuple):
    """Shift of one mean in posterior standard deviations, negative where draws are too low, with an interval."""

    name: str
    value: float
    low: float
    high: float

    @property
    def shown(self) -> float:
        """The least size that the interval allows."""
        return max(0.0, self.low, -self.high)


def mean_shift(
    moves: np.ndarray, errors: np.ndarray, log_ratios: np.ndarray, relaxation: np.ndarray, names: list[str],
    level: float,
) -> MeanShift:  # fmt: skip
    """Return the shift of the means that is furthest from zero in units of its standard error.

    `moves` are θ′ − θ of S proposals from drawn states, shape (S, D), in posterior standard deviations; `errors` what
    is out of balance, as seen from the more probable of the two states (`Flow.error`); `relaxation` the draws in which
    a deviation of each mean decays, (τ + 1)/2 for an autocorrelation time of τ. The intervals hold for all means at
    once (Bonferroni).

    With P the exact chain, P + δP the present one and g the solution of (I − P)g = h, the mean of h moves by E_π[δP g].
    For a coordinate that decays exponentially g = h/(1 − ρ), and (τ + 1)/2 = 1/(1 − ρ). A pair of states is met from
    either side; with the weights 1/(1 + e^Δ) each pair counts once, and the imbalance as seen from the more probable
    state is weighed by 1/(1 + e^−abs(Δ)).
    """
    drift = moves * (errors * special.expit(np.abs(log_ratios)))[:, None]
    shift = drift.mean(axis=0) * relaxation
    se = drift.std(axis=0, ddof=1) / np.sqrt(len(drift)) * relaxation
    half = -special.ndtri(level / 2 / shift.size) * se
    k = int(np.argmax(np.abs(shift) - half))
    return MeanShift(names[k], float(shift[k]), float(shift[k] - half[k]), float(shift[k] + half[k]))


def spread_shift(
    old: np.ndarray, new: np.ndarray, errors: np.ndarray, log_ratios: np.ndarray, relaxation: np.ndarray, level: float
) -> MeanShift:
    """Return by how much the standard deviations are off, averaged over the entries of θ.

    Imbalance lets a chain stay where the posterior is thin, in all directions alike: their average is seen long before
    any one of them. `old` and `new` are θ and θ′ as in `mean_shift`, from the posterior mean. The variance of z moves
    by E[(z′² − z²) × imbalance] × relaxation, and so the standard deviation by half of it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        drift = ((new**2 - old**2) * relaxation).mean(axis=1) / 2 * errors * special.expit(np.abs(log_ratios))
        value, half = float(drift.mean()), float(-special.ndtri(level / 2) * drift.std(ddof=1) / np.sqrt(len(drift)))
    return MeanShift("spread", value, value - half, value + half)
