"""Moves for groups, compiled: φ with the groups carried along, and a part of the groups given φ.

*Carried move.*  φ′ is proposed while every z_g = Σ_g(φ)^{-1/2}(u_g − m_g(φ)) stays: u′_g = m_g(φ′) + Σ_g(φ′)^{1/2}z_g.
The map (φ, u) → (φ′, u′) at given z has the Jacobian Π|Σ_g(φ′)|^{1/2}/|Σ_g(φ)|^{1/2}.  One test decides on all rows.

*Refresh.*  Given φ the groups are independent, so each of a part of them draws a new z_g and decides for itself, on its
own rows: on all of them where they are few, and otherwise by the test.  With several factors that holds for those of
one at a time, the others as they are, and the factors take turns within a draw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from pymc_austerity.acceptance import BAD_PRIOR, BAD_ROW, DECIDED, AcceptanceTest, Conclude, RowReader
from pymc_austerity.kernel.generators import DECIDE, PROPOSE, ROWS
from pymc_austerity.kernel.group_shift import build_shift
from pymc_austerity.likelihood import Density, GroupPrior
from pymc_austerity.proposals import SharedState, propose_shared
from pymc_austerity.proxy import (
    Conditional,
    GroupExpansion,
    Shifts,
    mean_given_others,
    own_sum,
    place_all,
    solve_transposed,
    whiten,
)
from pymc_austerity.rows import RowSource, build_gather

#: Rows of groups that are evaluated together.
_TOGETHER = 8192
#: Share of the refreshed groups that walk in z, whose steps find back from tails heavier than normal ones.
_WALKS = 0.05
#: Correlation of the others with where they come from: proposals across the centre make means precise sooner, and what
#: they lose for squares is the square of this (over-relaxation; Adler, Physical Review D 23, 1981).
_ACROSS = -0.4


class GroupPlace(NamedTuple):
    """A proposal, the data that its rows are evaluated with, and where the first row there is stands in the order."""

    theta_new: np.ndarray
    theta: np.ndarray
    others: np.ndarray
    inputs: tuple[np.ndarray, ...]
    arrays: tuple[np.ndarray, ...]
    places: np.ndarray
    first: int


class GroupData(NamedTuple):
    """What the moves read: data sorted by group, and what was learnt of them.

    Attributes
    ----------
    others : numpy.ndarray
    fixed, arrays : tuple of numpy.ndarray
    start : numpy.ndarray of int64, shape (G + 1,)
        The rows of group g are ``start[g]`` to ``start[g + 1] - 1`` in the order of its factor.
    places : numpy.ndarray
        See `PreparedGroups`.
    expansion : GroupExpansion
    shifts : Shifts
    row_state : Any
        Of the row source of the carried move.
    looks : Any
        Looks at all rows.
    few : int
        A group with no more rows than this decides on all of them.
    n_refreshed : numpy.ndarray of int64, shape (F,)
        Groups of each factor refreshed a draw.
    """

    others: np.ndarray
    fixed: tuple[np.ndarray, ...]
    arrays: tuple[np.ndarray, ...]
    start: np.ndarray
    places: np.ndarray
    expansion: GroupExpansion
    shifts: Shifts
    row_state: Any
    looks: Any
    few: int
    n_refreshed: np.ndarray


class GroupState(NamedTuple):
    """What a chain carries from draw to draw.

    Attributes
    ----------
    shared : SharedState
        Moves of φ.
    phi : numpy.ndarray, shape (P,)
        The φ at which `mean`, `factor` and `log_det` hold; not numbers before the first draw.
    mean, factor, log_det
        The `Conditional` at `phi`; `log_det` of shape (1,).
    next : numpy.ndarray of int64, shape (F,)
        The group of each factor to be refreshed next.
    order : numpy.ndarray of uint32
        Row numbers for drawing some of the rows of a large group.
    """

    shared: SharedState
    phi: np.ndarray
    mean: np.ndarray
    factor: np.ndarray
    log_det: np.ndarray
    next: np.ndarray
    order: np.ndarray


class CarriedOutcome(NamedTuple):
    """What became of a carried move; fields as in `Outcome`."""

    theta: np.ndarray
    status: int
    accepted: bool
    n_rows: int
    n_stages: int
    log_ratio: float
    log_ratio_sd: float
    row: int
    full_data: bool
    threshold: float
    walks: bool


class RefreshOutcome(NamedTuple):
    """What became of a refresh.

    Attributes
    ----------
    theta : numpy.ndarray
    status, row : int
        As in `Outcome`.
    n_groups, n_accepted : int
        Groups that decided, and those that moved.
    n_rows : int
        Rows read.
    n_stages : int
        Looks at the rows of groups with many.
    n_shifted : int
        Shifts that were accepted.
    """

    theta: np.ndarray
    status: int
    row: int
    n_groups: int
    n_accepted: int
    n_rows: int
    n_stages: int
    n_shifted: int


class GroupParts(NamedTuple):
    """The compiled parts that the moves are made of.

    Attributes
    ----------
    density : Density
        Of the rows as they are.
    seen : Density
        As the test sees it: remainders, with their known sum, or the rows as they are.
    prior : GroupPrior
    condition : callable
        See `build_condition`.
    test, drawn : AcceptanceTest
        For rows of equal weight, and for rows as `source` draws them.
    source : RowSource
        Of the carried move.
    slope : callable or None
        Of rows along a direction; None where there are no shifts.
    """

    density: Density
    seen: Density
    prior: GroupPrior
    condition: Callable[..., Any]
    test: AcceptanceTest
    drawn: AcceptanceTest
    source: RowSource
    slope: Callable[..., Any] | None


@njit
def _numbered(numbers, places, n_rows):  # type: ignore[no-untyped-def]
    """Return row numbers, for numbers in the order of one factor."""
    if numbers.size > 0 and numbers[0] >= n_rows:
        found = np.empty(numbers.size, np.int64)
        for i in range(numbers.size):
            found[i] = places[numbers[i] - n_rows]
        return found
    return numbers.astype(np.int64)


def _conclude(parts: GroupParts, test: AcceptanceTest, source: RowSource, ndims: tuple[int, ...]) -> Conclude:
    both_sides, gather = parts.seen.both_sides, build_gather(ndims)

    @njit
    def terms(numbers, at):  # type: ignore[no-untyped-def]
        rows = gather(at.arrays, _numbered(numbers + at.first, at.places, len(at.arrays[0])))
        return both_sides(at.theta_new, at.theta, at.others, *(at.inputs + rows))

    return test.for_rows(RowReader(terms, source))


def build_carried_move(parts: GroupParts, ndims: tuple[int, ...]) -> Callable[..., Any]:
    """Compile ``carried(theta, data, state, generators)``, which returns a `CarriedOutcome`."""
    log_prior, known_sum, expands = parts.density.log_prior, parts.seen.known_sum, parts.seen.expands
    condition, draw_noise = parts.condition, parts.drawn.draw_noise
    conclude = _conclude(parts, parts.drawn, parts.source, ndims)

    @njit
    def carry(theta, phi_new, data, conditional):  # type: ignore[no-untyped-def]
        """Return θ′ with φ′ and every z_g kept, and the conditional there."""
        e = data.expansion
        z = whiten(theta, e, conditional)
        theta_new = theta.copy()
        for p in range(e.shared.size):
            theta_new[e.shared[p]] = phi_new[p]
        there = condition(theta_new, data.others, data.fixed, e)
        place_all(theta_new, z, e, there)
        return theta_new, there

    @njit
    def carried(theta, data, state, generators):  # type: ignore[no-untyped-def]
        e, n_total = data.expansion, len(data.arrays[0])
        phi = theta[e.shared]
        if np.any(phi != state.phi):
            _keep(phi, condition(theta, data.others, data.fixed, e), state)
        here = Conditional(state.mean, state.factor, state.log_det[0])
        noise = draw_noise(generators[DECIDE])
        phi_new, log_q_ratio, walks = propose_shared(generators[PROPOSE], phi, state.shared)
        theta_new, there = carry(theta, phi_new, data, here)
        prior = log_prior(theta, data.others, *data.fixed)[0].item()
        prior_new = log_prior(theta_new, data.others, *data.fixed)[0].item()
        if not np.isfinite(prior):
            return CarriedOutcome(theta, BAD_PRIOR, False, 0, 0, np.nan, np.nan, -1, False, np.nan, walks)
        offset = prior_new - prior + log_q_ratio + there.log_det - here.log_det
        offset += known_sum(theta_new, data.others, e) - known_sum(theta, data.others, e)
        if not np.isfinite(offset):
            return CarriedOutcome(theta, DECIDED, False, 0, 0, -np.inf, 0.0, -1, False, np.nan, walks)
        inputs = (e.centre,) + data.fixed if expands else data.fixed
        at = GroupPlace(theta_new, theta, data.others, inputs, data.arrays, data.places, 0)
        d = conclude(generators[ROWS], data.row_state, data.looks, at, n_total, np.inf, offset, float(n_total), noise)
        if d.accepted:
            _keep(phi_new, there, state)
        return CarriedOutcome(
            theta_new if d.accepted else theta, d.status, d.accepted, d.n_rows, d.n_stages, d.log_ratio,
            d.log_ratio_sd, d.row, d.full_data, d.threshold, walks,
        )  # fmt: skip

    return carried


@njit
def _keep(phi, conditional, state):  # type: ignore[no-untyped-def]
    """Remember the conditional at φ."""
    state.phi[:] = phi
    state.mean[:] = conditional.mean
    state.factor[:] = conditional.factor
    state.log_det[0] = conditional.log_det


@njit
def _propose_groups(theta, groups, data, state, rng):  # type: ignore[no-untyped-def]
    """Return θ′ and, for each of the groups, log q(u|u′) − log q(u′|u)."""
    e = data.expansion
    theta_new, log_q_ratio = theta.copy(), np.zeros(groups.size)
    here = Conditional(state.mean, state.factor, state.log_det[0])
    walks = rng.random(groups.size)
    noise = rng.standard_normal((groups.size, e.own.shape[1]))
    for i in range(groups.size):
        g = groups[i]
        size = e.size[g]
        mean = mean_given_others(theta, g, e, here)
        if walks[i] < _WALKS:
            step = noise[i, :size] * (2.38 / np.sqrt(size))
            solve_transposed(state.factor[g], step)
            for k in range(size):
                theta_new[e.own[g, k]] = theta[e.own[g, k]] + step[k]
        else:
            for k in range(size):
                z = 0.0
                for j in range(k, size):
                    z += state.factor[g, j, k] * (theta[e.own[g, j]] - mean[j])
                noise[i, k] = _ACROSS * z + np.sqrt(1 - _ACROSS**2) * noise[i, k]
                log_q_ratio[i] += (noise[i, k] ** 2 - z * z) / 2
            step = noise[i, :size].copy()
            solve_transposed(state.factor[g], step)
            for k in range(size):
                theta_new[e.own[g, k]] = mean[k] + step[k]
    return theta_new, log_q_ratio


@njit
def _rows_together(first, groups, data):  # type: ignore[no-untyped-def]
    """Return the row numbers of groups with few rows, from a place in `groups` on, and the place behind them."""
    last, n = first, 0
    while last < groups.size and (n == 0 or n < _TOGETHER):
        g = groups[last]
        size = data.start[g + 1] - data.start[g]
        n += size if size <= data.few else 0
        last += 1
    numbers, n = np.empty(n, np.int64), 0
    for i in range(first, last):
        g = groups[i]
        if data.start[g + 1] - data.start[g] <= data.few:
            for row in range(data.start[g], data.start[g + 1]):
                numbers[n] = row
                n += 1
    return _numbered(numbers, data.places, len(data.arrays[0])), last


def build_refresh(parts: GroupParts, ndims: tuple[int, ...]) -> Callable[..., Any]:
    """Compile ``refresh(theta, f, data, state, looks_of_large, generators)``, which returns a `RefreshOutcome`.

    The next groups of factor f in turn; the φ in θ must be that of the state.  The looks at the rows of groups with
    many are a typed dict from their numbers.
    """
    both_sides, gather, prior_terms = parts.density.both_sides, build_gather(ndims), parts.prior.terms
    expands, draw_noise = parts.seen.expands, parts.test.draw_noise
    conclude = _conclude(parts, parts.test, parts.test.rows, ndims)

    @njit
    def refresh(theta, f, data, state, looks_of_large, generators):  # type: ignore[no-untyped-def]
        e = data.expansion
        n_groups = e.first[f + 1] - e.first[f]
        n = min(data.n_refreshed[f], n_groups)
        groups = e.first[f] + (state.next[f] + np.arange(n)) % n_groups
        state.next[f] = (state.next[f] + n) % n_groups
        theta_new, offset = _propose_groups(theta, groups, data, state, generators[PROPOSE])
        change = prior_terms(theta_new, data.others, *data.fixed)[0] - prior_terms(theta, data.others, *data.fixed)[0]
        n_rows, n_stages, n_accepted, status, bad_row = 0, 0, 0, DECIDED, -1
        accepted = np.zeros(n, np.bool_)
        inputs = (e.centre,) + data.fixed if expands else data.fixed
        first = 0
        while first < n and status == DECIDED:
            numbers, last = _rows_together(first, groups, data)
            new, old = np.empty(0), np.empty(0)
            if numbers.size > 0:
                new, old = both_sides(theta_new, theta, data.others, *(data.fixed + gather(data.arrays, numbers)))
            n_rows += numbers.size
            row = 0
            for i in range(first, last):
                g = groups[i]
                size = data.start[g + 1] - data.start[g]
                log_ratio = offset[i] + change[g]
                if size <= data.few:
                    for _ in range(size):
                        if not np.isfinite(old[row]):
                            status, bad_row = BAD_ROW, numbers[row]
                        log_ratio += new[row] - old[row]
                        row += 1
                    accepted[i] = np.log1p(-generators[DECIDE].random()) < log_ratio  # never where it is no number
                elif np.isfinite(log_ratio):
                    if expands:
                        log_ratio += own_sum(theta_new, g, e) - own_sum(theta, g, e)
                    noise = draw_noise(generators[DECIDE])
                    at = GroupPlace(theta_new, theta, data.others, inputs, data.arrays, data.places, data.start[g])
                    d = conclude(
                        generators[ROWS], state.order[:size], looks_of_large[g], at, size, np.inf, log_ratio,
                        float(size), noise,
                    )  # fmt: skip
                    accepted[i] = d.accepted
                    n_rows += d.n_rows
                    n_stages += d.n_stages
                    if d.status != DECIDED:
                        status, bad_row = d.status, d.row
                        if d.row >= 0:
                            bad_row = _numbered(np.array([data.start[g] + d.row]), data.places, len(data.arrays[0]))[0]
            first = last
        for i in range(n):
            if accepted[i]:
                n_accepted += 1
            else:
                for k in range(e.size[groups[i]]):
                    theta_new[e.own[groups[i], k]] = theta[e.own[groups[i], k]]
        return RefreshOutcome(
            theta_new if status == DECIDED else theta, status, bad_row, n, n_accepted, n_rows, n_stages, 0
        )

    return refresh


@njit
def _no_shift(theta, data, generators):  # type: ignore[no-untyped-def]
    return theta, 0


def build_group_transition(parts: GroupParts, ndims: tuple[int, ...]) -> Callable[..., Any]:
    """Compile ``transition(theta, data, state, looks_of_large, generators)``.

    A carried move, a refresh of each factor in turn, and the shifts.

    Returns
    -------
    callable
        Which returns the fields of a `CarriedOutcome` and those of a `RefreshOutcome`, as two plain tuples.
    """
    carried, refresh = build_carried_move(parts, ndims), build_refresh(parts, ndims)
    shift = _no_shift if parts.slope is None else build_shift(parts.density, parts.slope, ndims)

    @njit
    def transition(theta, data, state, looks_of_large, generators):  # type: ignore[no-untyped-def]
        first = carried(theta, data, state, generators)
        if first.status != DECIDED:
            return first[:], RefreshOutcome(theta, DECIDED, -1, 0, 0, 0, 0, 0)[:]
        # All factors given one φ, before a shift changes it: what belongs to φ is worked out once a draw.
        second = refresh(first.theta, 0, data, state, looks_of_large, generators)
        for f in range(1, state.next.size):
            if second.status == DECIDED:
                then = refresh(second.theta, f, data, state, looks_of_large, generators)
                second = RefreshOutcome(
                    then.theta, then.status, then.row, second.n_groups + then.n_groups,
                    second.n_accepted + then.n_accepted, second.n_rows + then.n_rows,
                    second.n_stages + then.n_stages, 0,
                )  # fmt: skip
        theta_new, n_shifted = second.theta, 0
        if second.status == DECIDED:
            theta_new, n_shifted = shift(theta_new, data, generators)
        return first[:], (theta_new,) + second[1:7] + (n_shifted,)

    return transition
