"""How φ, what all groups share, is proposed about a centre that is learnt while tuning."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_austerity.cholesky import is_positive_definite
from pymc_austerity.compile.lean_njit import njit
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
#: Moves of either kind until their shares are learnt, and what a move counts for when the next one of its kind is made.
_TRIED, _FORGET = 5.0, 0.97
#: The least share of moves on the surrogate where tails are heavy, as tuning may not have seen them, and the most.
_LEAST_BENT, _MOST_SHARE = 0.25, 0.9
#: A slice of more widths makes the next ones twice as wide: at a scale of zero, where the normal approximation may lie,
#: what belongs to the scale has no width.
_LONG = 16.0


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


def adapt_shared(phi: np.ndarray, accepted: bool, about_centre: bool, state: SharedState, dearer: float) -> None:
    """Take a draw of tuning in; `dearer` is that of `SharedSteps`.

    The angle follows the acceptance of proposals about the centre; centre and covariance follow the draws of a window;
    of the two kinds of moves that is made more often which gets further in its time; long slices become wider.
    """
    kind, kinds = slice(3, 5) if about_centre else slice(1, 3), state.kinds
    kinds[kind] = _FORGET * kinds[kind] + (1.0, float(accepted))
    if min(kinds[1], kinds[3]) > _TRIED:
        of_surrogate, about = (kinds[2] + 1) / (kinds[1] + 2), (kinds[4] + 1) / (kinds[3] + 2)
        odds = (of_surrogate / (dearer * about * (1 - np.cos(np.exp(state.log_angle[0]))))) ** 2
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
