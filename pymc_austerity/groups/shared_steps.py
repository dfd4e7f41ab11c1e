"""How φ moves on the surrogate, found before sampling: what is normal given the rest, and what is moved by slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.groups.group_search import GroupSearch

#: Draws with a move about the centre that take as long as one with a move on the surrogate, about, and for each slice
#: where factors are crossed: points of the surrogate then take more time than all else.
_DEARER, _DEARER_CROSSED = 3.0, 5.0
#: Moves of each parameter given the effects, and where factors are crossed.
_ONCE, _CROSSED = 1, 3
#: Share of the carried moves that are made on the surrogate: where no tail is heavier than a normal one, and else.
_STRAIGHT, _BENT = 0.05, 0.9
#: Standard deviations out at which tails are looked at, and the share of a normal law's fall by which they must fall.
_FAR, _FALLS = 4.0, 0.7
#: Slice steps of a move: where tails are heavy one more than there are parameters, and no more than these.
_MOST_SLICES, _FEW_SLICES = 6, 3
#: Widths of slices, in standard deviations.
_WIDTH = 2.5
#: Of many parameters that no row reads, those have slices of their own that the prior, given the effects, holds to less
#: than this share of their standard deviation; draws of the effects that say so, and a step of standard deviations.
_HELD, _DRAWS, _STEP = 0.4, 4, 0.1
#: What second derivatives of a normal prior may differ by, relative to them and to the slope.
_DIFFERS, _ROUNDS = 1e-6, 1e-9


class SharedSteps(NamedTuple):
    """Moves of φ on the surrogate, as arrays for compiled code; numbers are among what is shared."""

    share: float  # of the carried moves that are made on the surrogate
    sliced: np.ndarray  # int64 (S,): what is moved by slices
    chosen: np.ndarray  # int64: the numbers, among these, of those that are moved alone too
    #: (S,) and (S, S): widths of slices along each, and what turns a direction on the unit sphere into one that is as
    #: long as a slice.
    axes: np.ndarray
    oblique: np.ndarray
    n_slices: int
    dearer: float  # draws with a move about the centre that take as long as one with a move on the surrogate
    normal: np.ndarray  # int64 (n,): what is normal given the rest of φ
    unit: np.ndarray  # (n,): about a standard deviation of each
    read_as: np.ndarray  # int64 (n,): their numbers among what the rows read, or −1
    coupled: np.ndarray  # bool (n,): whether the prior connects them with anything
    unread: np.ndarray  # int64 (U,): what no row reads
    n_sweeps: int  # moves of each of these a draw, given the effects
    unit_of_unread: np.ndarray  # (U,): about a standard deviation of each
    sliced_as: np.ndarray  # int64 (U,): their numbers among what is moved by slices, −1 where normal given the rest


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
    n_slices = min(sliced.size + 1, _MOST_SLICES) if bent else min(sliced.size, _FEW_SLICES)
    unread = np.flatnonzero(~np.isin(e.shared, search.model.groups.read))
    return SharedSteps(
        _BENT if bent else _STRAIGHT,
        sliced,
        _moved_alone(search, e, mean, factor, sliced),
        _WIDTH * unit[sliced],
        _WIDTH * oblique,
        n_slices,
        _DEARER_CROSSED * max(1, n_slices) if e.cell_with.size else _DEARER,
        normal,
        unit[normal],
        np.array([numbers.get(place, -1) for place in e.shared[normal]], dtype=np.int64),
        np.array([columns[p][others[others != e.shared[p]]].any() for p in normal], dtype=np.bool_),
        unread,
        _CROSSED if e.cell_with.size else _ONCE,
        unit[unread],
        np.where(np.isin(unread, normal), -1, np.searchsorted(sliced, unread)),
    )


def _moved_alone(
    search: GroupSearch, e: GroupExpansion, mean: np.ndarray, factor: np.ndarray, sliced: np.ndarray
) -> np.ndarray:
    """Return which parameters have slices of their own among those that are moved by slices.

    Where they are many, not those that moves given the effects take far, as the local scales of a horseshoe.
    """
    if sliced.size <= _MOST_SLICES:
        return np.arange(sliced.size)
    rng, sd = np.random.default_rng(2010), np.sqrt(np.square(factor).sum(axis=1))
    curvature = np.zeros(sliced.size)
    for _ in range(_DRAWS):
        theta = search.surrogate.theta(mean, rng.standard_normal(e.own.shape), e)
        here = search.log_prior(theta)
        for s, p in enumerate(sliced):
            step = np.where(np.arange(theta.size) == e.shared[p], _STEP * sd[p], 0.0)
            sides = search.log_prior(theta + step) + search.log_prior(theta - step)
            curvature[s] += (2 * here - sides) / _STEP**2 / _DRAWS
    held = np.isin(e.shared[sliced], search.model.groups.read) | ~(curvature < _HELD**-2)
    return np.flatnonzero(held) if held.any() else np.arange(sliced.size)


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
