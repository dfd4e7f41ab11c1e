"""Groups whose effects are far from normal given φ, and the laws that these are proposed from instead.

The logarithm of a rate of which no event was seen has an exponential tail to one side: a chain that is proposed to from
a normal law stays there for thousands of draws.  Each coordinate of z is middle + w y + b (√(1 + y²) − 1), and y has a
Student law: that has the median, and on either side the width, of the law that all rows of the group and its prior give
at the centre of φ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from pymc_austerity.compile.lean_njit import njit

#: Degrees of freedom of y.
_FREEDOM = 4.0
#: Most of b, as a share of w: the map from y to z keeps a slope.
_MOST_BEND = 0.9
#: Standard deviations out at which laws are looked at, and by what their fall may differ from a normal law's.
_LOOKED_AT = (-4.5, -2.5, 2.5, 4.5)
_LEAST_FALL, _MOST_FALL = 0.75, 2.5
#: Points of z between which the law of a group is interpolated: denser at the centre, and as far out as a tail may be.
_POINTS = np.sinh(np.linspace(-4.4, 4.4, 45))
#: Quantile that tells the width of a side, and the least w.
_QUANTILE, _LEAST = 0.1, 0.1
#: Correlation of a proposal with where it comes from: proposals across the centre make means precise sooner, and what
#: they lose for squares is the square of this (over-relaxation; Adler, Physical Review D 23, 1981).
_ACROSS = -0.4
#: Share of walks, and how far the logarithm of their length is from that of the width at most.
_WALKS, _LENGTHS = 0.2, 1.5

#: ``log_law(k, x)``: log density of every group where coordinate k of its z is x and all others are zero, up to a
#: constant of each group.
LogLaw = Callable[[int, float], np.ndarray]


class GroupTails(NamedTuple):
    """Laws that some groups are proposed from, as arrays for compiled code."""

    number: np.ndarray  # int64 (G,): which of these laws a group has, or −1
    #: (B, K): medians of z, w and b.
    middle: np.ndarray
    width: np.ndarray
    bend: np.ndarray


def find_tails(log_law: LogLaw, sizes: np.ndarray, size: int) -> GroupTails:
    """Look at the law of each group, and fit those that are far from normal.

    `sizes`, shape (G,): parameters of each group, `size` at most; those of none are left as they are.
    """
    number, bent = np.full(sizes.size, -1), np.zeros(sizes.size, bool)
    for k in range(size):
        here = log_law(k, 0.0)
        for x in _LOOKED_AT:
            with np.errstate(invalid="ignore"):  # no number where a row is impossible
                share = (here - log_law(k, x)) / (x * x / 2)
            bent |= (k < sizes) & ~((share > _LEAST_FALL) & (share < _MOST_FALL))
    if not bent.any():
        return GroupTails(number, *np.empty((3, 0, size)))
    fits = [_bent_law(np.array([log_law(k, x)[bent] for x in _POINTS])) for k in range(size)]
    number[bent] = np.arange(bent.sum())
    return GroupTails(number, *(np.ascontiguousarray(np.transpose(of)) for of in zip(*fits, strict=True)))


def _bent_law(log_law: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return median, w and b of laws with these log densities at `_POINTS`, one a column."""
    log_law = np.where(np.isfinite(log_law), log_law, -np.inf)
    density = np.exp(log_law - np.maximum(log_law.max(axis=0), -1e300))
    areas = (density[1:] + density[:-1]) / 2 * np.diff(_POINTS)[:, None]
    below = np.concatenate([np.zeros((1, areas.shape[1])), np.cumsum(areas, axis=0)])
    levels = [_QUANTILE, 0.5, 1 - _QUANTILE]
    found = np.array(
        [np.interp(levels, of / of[-1], _POINTS) if of[-1] > 0 else np.array([-1.3, 0.0, 1.3]) for of in below.T]
    )
    unit = special.stdtrit(_FREEDOM, 1 - _QUANTILE)
    low, high = np.diff(found, axis=1).T
    curve = np.sqrt(1 + unit**2) - 1
    # Of a law that is more lopsided than b may make it, the wider side is right.
    share = np.clip((high - low) / (high + low) * unit / curve, -_MOST_BEND, _MOST_BEND)
    width = np.maximum(np.maximum(low, high) / (unit + np.abs(share) * curve), _LEAST)
    return found[:, 1], width, share * width


@njit
def propose_across(z, z_new, size, freedom, rng):  # type: ignore[no-untyped-def]
    """Put z′ in the place of standard normal numbers, and return log q(z|z′) − log q(z′|z).

    That is reversible for a Student law, so that steps from far out are long ones (Kamatani, Bernoulli 24, 2018).
    """
    square, square_new = 0.0, 0.0
    for k in range(size):
        square += z[k] ** 2
    width = np.sqrt((freedom + square) / (2.0 * rng.standard_gamma((freedom + size) / 2.0)))
    for k in range(size):
        z_new[k] = _ACROSS * z[k] + np.sqrt(1 - _ACROSS**2) * width * z_new[k]
        square_new += z_new[k] ** 2
    return (freedom + size) / 2.0 * (np.log1p(square_new / freedom) - np.log1p(square / freedom))


@njit
def propose_by_tails(z, z_new, size, of, tails, rng):  # type: ignore[no-untyped-def]
    """Put z′, from law number `of` or by a walk, in the place of normal numbers; return log q(z|z′) − log q(z′|z)."""
    middle, width, bend = tails.middle, tails.width, tails.bend
    if rng.random() < _WALKS:
        length = np.exp(_LENGTHS * (2.0 * rng.random() - 1.0)) / np.sqrt(size)
        for k in range(size):
            z_new[k] = z[k] + length * width[of, k] * z_new[k]
        return 0.0
    y, log_slopes = np.empty(size), 0.0
    for k in range(size):
        w, b = width[of, k], bend[of, k]
        x = z[k] - middle[of, k] + b
        y[k] = (w * x - b * np.sqrt(x * x + w * w - b * b)) / (w * w - b * b)
        log_slopes -= np.log(w + b * y[k] / np.sqrt(1.0 + y[k] ** 2))
    log_q_ratio = propose_across(y, z_new, size, _FREEDOM, rng)
    for k in range(size):
        w, b, root = width[of, k], bend[of, k], np.sqrt(1.0 + z_new[k] ** 2)
        log_slopes += np.log(w + b * z_new[k] / root)
        z_new[k] = middle[of, k] + w * z_new[k] + b * (root - 1.0)
    return log_q_ratio + log_slopes
