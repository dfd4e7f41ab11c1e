"""How φ moves on the surrogate, found before sampling: what is normal given the rest, and what is moved by slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.groups.group_search import GroupSearch

#: Share of the carried moves that are made on the surrogate: where no tail is heavier than a normal one, and else.
_STRAIGHT, _BENT = 0.05, 0.9
#: Standard deviations out at which tails are looked at, and the share of a normal law's fall by which they must fall.
_FAR, _FALLS = 4.0, 0.7
#: Slice steps of a move: where tails are heavy one more than there are parameters, and no more than these.
_MOST_SLICES, _FEW_SLICES = 6, 3
#: Widths of slices, in standard deviations.
_WIDTH = 2.5
#: What second derivatives of a normal prior may differ by, relative to them and to the slope.
_DIFFERS, _ROUNDS = 1e-6, 1e-9


class SharedSteps(NamedTuple):
    """Moves of φ on the surrogate, as arrays for compiled code; numbers are among what is shared."""

    share: float  # of the carried moves that are made on the surrogate
    sliced: np.ndarray  # int64 (S,): what is moved by slices
    #: (S,) and (S, S): widths of slices along each, and what turns a direction on the unit sphere into one that is as
    #: long as a slice.
    axes: np.ndarray
    oblique: np.ndarray
    n_slices: int
    normal: np.ndarray  # int64 (n,): what is normal given the rest of φ
    unit: np.ndarray  # (n,): about a standard deviation of each
    read_as: np.ndarray  # int64 (n,): their numbers among what the rows read, or −1
    coupled: np.ndarray  # bool (n,): whether the prior connects them with anything


def find_shared_steps(search: GroupSearch, e: GroupExpansion, mean: np.ndarray, factor: np.ndarray) -> SharedSteps:
    """Find what is normal given the rest, and how the rest is moved, from the normal approximation of φ."""

    def slope(theta: np.ndarray) -> np.ndarray:
        return search.model.whole_slope(theta, search.data.others0, *search.data.fixed)[0]

    precision = np.linalg.inv(factor @ factor.T)
    unit = 1 / np.sqrt(np.diag(precision))
    columns = _columns_of_normal(slope, mean, unit, e)
    normal = np.array(sorted(columns), dtype=np.int64)
    sliced = np.setdiff1d(np.arange(mean.size), normal)
    numbers, others = {place: r for r, place in enumerate(e.read)}, np.union1d(e.own, e.shared[normal])
    among = precision[np.ix_(sliced, sliced)]
    oblique = np.linalg.cholesky(np.linalg.inv(among)) * np.sqrt(max(1, sliced.size))
    marginal = search.surrogate.marginal
    bent = any(_has_heavy_tail(lambda phi: marginal(phi, e)[0], mean, step) for step in np.diag(unit)[sliced])
    return SharedSteps(
        _BENT if bent else _STRAIGHT,
        sliced,
        _WIDTH * unit[sliced],
        _WIDTH * oblique,
        min(sliced.size + 1, _MOST_SLICES) if bent else min(sliced.size, _FEW_SLICES),
        normal,
        unit[normal],
        np.array([numbers.get(place, -1) for place in e.shared[normal]], dtype=np.int64),
        np.array([columns[p][others[others != e.shared[p]]].any() for p in normal], dtype=np.bool_),
    )


def _columns_of_normal(
    slope: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, unit: np.ndarray, e: GroupExpansion
) -> dict[int, np.ndarray]:
    """Return columns of second derivatives of the log prior: those that are the same wherever the effects are."""
    rng, theta, found = np.random.default_rng(1777), e.centre.copy(), {}
    theta[e.shared] = mean
    effects = np.zeros(theta.size)
    effects[e.own] = rng.standard_normal(e.own.shape)
    for p, place in enumerate(e.shared):
        step = np.where(np.arange(theta.size) == place, unit[p], 0.0)
        far = theta + effects + 3 * step
        slopes = [slope(at) for at in (theta, theta + step, far, far + step)]
        column, again = slopes[1] - slopes[0], slopes[3] - slopes[2]
        matter = np.append(e.own, place)
        allowed = _DIFFERS * np.abs(column[matter]).max() + _ROUNDS * np.abs(slopes)[:, matter].max()
        if np.abs(again - column)[matter].max() <= allowed and place not in e.scale.place:
            found[p] = np.where(np.abs(column) <= allowed, 0.0, column)
    return found


def _has_heavy_tail(marginal: Callable[[np.ndarray], float], mean: np.ndarray, step: np.ndarray) -> bool:
    """Return whether the marginal falls by less than a normal law along an axis, beside its slope at the mean."""
    low, below, here, above, high = (marginal(mean + k * step) for k in (-_FAR, -1.0, 0.0, 1.0, _FAR))
    slope = (above - below) / 2
    falls = here - _FAR * slope - low, here + _FAR * slope - high
    return bool(np.min(np.nan_to_num(falls, nan=np.inf)) < _FALLS * _FAR**2 / 2)
