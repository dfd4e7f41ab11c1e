"""How φ, what all groups share, is proposed about a centre that is learnt while tuning.

And how it moves on the surrogate, found before sampling: what is normal given the rest, and what is moved by slices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_austerity.cholesky import is_positive_definite
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.proxy import towards_target

#: Acceptance rate of proposals about the centre.
TARGET = 0.45
#: Correlation of proposals that go furthest with where they come from: across the centre, so that means are precise
#: sooner than from independent ones (over-relaxation; Adler, Physical Review D 23, 1981).
_ACROSS = -0.4
FURTHEST = float(np.log(np.arccos(_ACROSS)))
#: Draws until the centre is learnt for the first time; each time after that, from twice as many.
_FIRST_WINDOW = 200
#: Draws that the normal approximation from before counts for, and the share of the draws of windows that has gone into
#: what is known: the chain may still have been on its way.
_PRIOR_DRAWS, _KEPT = 50.0, 0.5
#: Moves about the centre that take as long as one on the surrogate, about; moves of either kind until their shares are
#: learnt, and what a move counts for when the next one of its kind is made.
_DEARER, _TRIED, _FORGET = 3.0, 5.0, 0.97
#: The least share of moves on the surrogate where tails are heavy, as tuning may not have seen them, and the most.
_LEAST_BENT, _MOST_SHARE = 0.25, 0.9
#: A slice of more widths makes the next ones twice as wide: at a scale of zero, where the normal approximation may lie,
#: what belongs to the scale has no width.
_LONG = 16.0
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


class SharedState(NamedTuple):
    """Centre, spread and angle of the moves of one chain; arrays that tuning changes."""

    centre: np.ndarray  # (P,)
    factor: np.ndarray  # (P, P): lower Cholesky factor of the covariance of φ
    #: (1,): log of α in φ′ = c + cos α (φ − c) + sin α L ξ: the length of a move where it is short, and beyond π/2
    #: across the centre.
    log_angle: np.ndarray
    #: (P,) and (P, P): of φ and of φφᵀ, about the centre, in this window.
    sum: np.ndarray
    products: np.ndarray
    #: int64 (4,): draws in this window, its length, moves about the centre, and draws that what is known counts for.
    counts: np.ndarray
    #: (5,): the share of the moves on the surrogate, 0 before it is learnt; and of moves on the surrogate and about the
    #: centre, how many were made and accepted, of late.
    kinds: np.ndarray
    #: (S,): by how much slices are wider than `SharedSteps` has it, and how many widths the longest was, along each
    #: axis since the last draw of tuning.
    wider: np.ndarray
    lengths: np.ndarray


def shared_state(mean: np.ndarray, factor: np.ndarray, n_sliced: int) -> SharedState:
    """Return the state before tuning, from the normal approximation of φ."""
    p = mean.size
    counts = np.array([0, max(_FIRST_WINDOW, 20 * p), 0, int(_PRIOR_DRAWS)])
    sums, slices = (np.zeros(p), np.zeros((p, p))), (np.ones(n_sliced), np.zeros(n_sliced))
    return SharedState(mean.copy(), factor.copy(), np.full(1, np.log(np.pi / 2)), *sums, counts, np.zeros(5), *slices)


@njit
def share_on_surrogate(share, state):  # type: ignore[no-untyped-def]
    """Return the share of moves on the surrogate: `share`, or what was learnt while tuning."""
    learnt = state.kinds[0]
    if learnt == 0.0 or share == 0.0 or share == 1.0:
        return share
    return min(_MOST_SHARE, max(learnt, min(share, _LEAST_BENT)))


@njit
def propose_shared(rng, phi, state):  # type: ignore[no-untyped-def]
    """Return φ′ and log q(φ|φ′) − log q(φ′|φ)."""
    step, phi_new = np.dot(state.factor, rng.standard_normal(phi.size)), np.empty(phi.size)
    angle, centre = np.exp(state.log_angle[0]), state.centre
    for i in range(phi.size):  # a loop is compiled sooner than whole arrays are
        phi_new[i] = centre[i] + np.cos(angle) * (phi[i] - centre[i]) + np.sin(angle) * step[i]
    return phi_new, (_distance(phi_new, state) - _distance(phi, state)) / 2


@njit
def _distance(phi, state):  # type: ignore[no-untyped-def]
    """Return ‖L⁻¹(φ − c)‖²."""
    total, white = 0.0, np.empty(phi.size)
    for i in range(phi.size):
        white[i] = phi[i] - state.centre[i]
        for j in range(i):
            white[i] -= state.factor[i, j] * white[j]
        white[i] /= state.factor[i, i]
        total += white[i] ** 2
    return total


def adapt_shared(phi: np.ndarray, accepted: bool, about_centre: bool, state: SharedState) -> None:
    """Take a draw of tuning in.

    The angle follows the acceptance of proposals about the centre; centre and covariance follow the draws of a window;
    of the two kinds of moves that is made more often which gets further in its time; long slices become wider.
    """
    kind, kinds = slice(3, 5) if about_centre else slice(1, 3), state.kinds
    kinds[kind] = _FORGET * kinds[kind] + (1.0, float(accepted))
    if min(kinds[1], kinds[3]) > _TRIED:
        of_surrogate, about = (kinds[2] + 1) / (kinds[1] + 2), (kinds[4] + 1) / (kinds[3] + 2)
        odds = (of_surrogate / (_DEARER * about * (1 - np.cos(np.exp(state.log_angle[0]))))) ** 2
        kinds[0] = odds / (1 + odds)
    state.wider[state.lengths > _LONG] *= 2
    state.lengths[:] = 0.0
    if about_centre:
        state.counts[2] += 1
        moved = towards_target(state.log_angle[0], float(accepted), TARGET, state.counts[2])
        state.log_angle[0] = min(FURTHEST, moved)
    shift = phi - state.centre
    state.sum[:] += shift
    state.products[:] += shift[:, None] * shift
    state.counts[0] += 1
    if state.counts[0] >= state.counts[1]:
        learn_shared(state)


def learn_shared(state: SharedState) -> None:
    """Learn centre and covariance from the draws of a window that has ended, or ends here with the tuning."""
    n, known = int(state.counts[0]), int(state.counts[3])
    if n == 0:
        return
    products = known * state.factor @ state.factor.T + state.products - np.outer(state.sum, state.sum) / n
    covariance = products / (n + known)
    if is_positive_definite(covariance):  # of draws that ran away nothing is learnt
        state.factor[:] = np.linalg.cholesky(covariance)
    state.centre[:] += state.sum / (n + known)
    state.sum[:] = 0.0
    state.products[:] = 0.0
    state.counts[:] = 0, 2 * state.counts[1], state.counts[2], int(_KEPT * (n + known))


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
    normal: np.ndarray  # int64 (n,): what is normal given the rest of φ
    unit: np.ndarray  # (n,): about a standard deviation of each
    read_as: np.ndarray  # int64 (n,): their numbers among what the rows read, or −1
    coupled: np.ndarray  # bool (n,): whether the prior connects them with anything
    unread: np.ndarray  # int64 (U,): what no row reads
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
    unread = np.flatnonzero(~np.isin(e.shared, search.model.groups.read))
    return SharedSteps(
        _BENT if bent else _STRAIGHT,
        sliced,
        _moved_alone(search, e, mean, factor, sliced),
        _WIDTH * unit[sliced],
        _WIDTH * oblique,
        min(sliced.size + 1, _MOST_SLICES) if bent else min(sliced.size, _FEW_SLICES),
        normal,
        unit[normal],
        np.array([numbers.get(place, -1) for place in e.shared[normal]], dtype=np.int64),
        np.array([columns[p][others[others != e.shared[p]]].any() for p in normal], dtype=np.bool_),
        unread,
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
