"""How far moves that are out of balance shift the posterior means and standard deviations, to first order.

A chain whose flow from θ to θ′ is not that from θ′ to θ drifts: E[(h(θ′) − h(θ)) × imbalance] a draw, for h = θ as for
its square.  A slow chain comes back only slowly, so that an error too small to be seen in a single decision adds up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special


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
