"""Groups whose effects are far from normal given φ, and the laws that these are proposed from instead.

The logarithm of a rate of which no event was seen has an exponential tail to one side: a chain that is proposed to from
a normal law stays there for thousands of draws.  Along each coordinate of z a split Student law has the median, and on
either side the width, of the law that all rows of the group and its prior give at the centre of φ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from pymc_austerity.compile.lean_njit import njit

#: Degrees of freedom.
_FREEDOM = 3.0
#: Standard deviations out at which laws are looked at, and by what their fall may differ from a normal law's.
_LOOKED_AT = (-4.5, -2.5, 2.5, 4.5)
_LEAST_FALL, _MOST_FALL = 0.75, 2.5
#: Points of z between which the law of a group is interpolated: denser at the centre, and as far out as a tail may be.
_POINTS = np.sinh(np.linspace(-4.4, 4.4, 45))
#: Quantile that tells the width of a side, and the least width.
_QUANTILE, _LEAST = 0.1, 0.1
#: Share of walks, and how far the logarithm of their length is from that of the width at most.
_WALKS, _LENGTHS = 0.2, 1.5

#: ``log_law(k, x)``: log density of every group where coordinate k of its z is x and all others are zero, up to a
#: constant of each group.
LogLaw = Callable[[int, float], np.ndarray]


class GroupTails(NamedTuple):
    """Laws that some groups are proposed from, as arrays for compiled code."""

    number: np.ndarray  # int64 (G,): which of these laws a group has, or −1
    middle: np.ndarray  # (B, K): medians of z
    #: (B, K): widths below and above.
    low: np.ndarray
    high: np.ndarray


def no_tails(n_groups: int, size: int) -> GroupTails:
    """Return that all groups are proposed from a normal law."""
    return GroupTails(np.full(n_groups, -1), *np.empty((3, 0, size)))


def find_tails(log_law: LogLaw, sizes: np.ndarray, size: int) -> GroupTails:
    """Look at the law of each group, and fit those that are far from normal.

    `sizes`, shape (G,): parameters of each group, `size` at most; those of none are left as they are.
    """
    found, bent = no_tails(sizes.size, size), np.zeros(sizes.size, bool)
    for k in range(size):
        here = log_law(k, 0.0)
        for x in _LOOKED_AT:
            with np.errstate(invalid="ignore"):  # no number where a row is impossible
                share = (here - log_law(k, x)) / (x * x / 2)
            bent |= (k < sizes) & ~((share > _LEAST_FALL) & (share < _MOST_FALL))
    if not bent.any():
        return found
    fits = [_split_law(np.array([log_law(k, x)[bent] for x in _POINTS])) for k in range(size)]
    found.number[bent] = np.arange(bent.sum())
    return GroupTails(found.number, *(np.ascontiguousarray(np.transpose(of)) for of in zip(*fits, strict=True)))


def _split_law(log_law: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return median and both widths of laws with these log densities at `_POINTS`, one a column."""
    log_law = np.where(np.isfinite(log_law), log_law, -np.inf)
    density = np.exp(log_law - np.maximum(log_law.max(axis=0), -1e300))
    areas = (density[1:] + density[:-1]) / 2 * np.diff(_POINTS)[:, None]
    below = np.concatenate([np.zeros((1, areas.shape[1])), np.cumsum(areas, axis=0)])
    levels = [_QUANTILE, 0.5, 1 - _QUANTILE]
    found = np.array(
        [np.interp(levels, of / of[-1], _POINTS) if of[-1] > 0 else np.array([-1.3, 0.0, 1.3]) for of in below.T]
    )
    unit = special.stdtrit(_FREEDOM, 1 - _QUANTILE)
    low, high = (np.maximum(np.diff(found, axis=1) / unit, _LEAST)).T
    return found[:, 1], low, high


@njit
def propose_by_tails(z, z_new, size, b, tails, rng):  # type: ignore[no-untyped-def]
    """Fill z′ with a proposal from law b, or a step of a walk, and return log q(z|z′) − log q(z′|z)."""
    middle, low, high = tails.middle, tails.low, tails.high
    if rng.random() < _WALKS:
        length = np.exp(_LENGTHS * (2.0 * rng.random() - 1.0)) / np.sqrt(size)
        for k in range(size):
            z_new[k] = z[k] + length * (low[b, k] + high[b, k]) / 2.0 * rng.standard_normal()
        return 0.0
    log_q_ratio = 0.0
    for k in range(size):
        below, above = low[b, k], high[b, k]
        width = -below if rng.random() * (below + above) < below else above
        chi_square = 2.0 * rng.standard_gamma(_FREEDOM / 2.0)
        z_new[k] = middle[b, k] + width * abs(rng.standard_normal()) / np.sqrt(chi_square / _FREEDOM)
        before, after = z[k] - middle[b, k], z_new[k] - middle[b, k]
        before /= below if before < 0 else above
        after /= below if after < 0 else above
        log_q_ratio += (_FREEDOM + 1.0) / 2.0 * np.log((_FREEDOM + after**2) / (_FREEDOM + before**2))
    return log_q_ratio
