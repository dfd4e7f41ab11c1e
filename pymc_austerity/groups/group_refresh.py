"""The refresh of groups given φ: some of them are proposed to, and each decides on its own rows.

Where the rows have bounds every group decides exactly, most of them without reading a row: of a group with
Σ c_i M_g = λ rows Poisson(λ) are drawn and thinned, as by `ScalableSubsampling`.  All of them are read where λ is more
than `most_drawn`: what they leave to chance would refuse most ways out of a tail.  Without bounds groups with few rows
decide on all of them, and others by the test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_austerity.acceptance import BAD_BOUND, BAD_ROW, DECIDED, Conclude, Question
from pymc_austerity.acceptance.scalable_subsampling import thin
from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.by_group_bounds import bound_at, draw_of_group, draws_nothing, total_of_group
from pymc_austerity.groups.crossed_means import means_given_others, solve_transposed
from pymc_austerity.groups.group_bounds import (
    largest_beside,
    most_drawn,
    span,
    square_of_shared,
    squares_of_groups,
    squares_of_some,
)
from pymc_austerity.groups.group_density import group_terms_at
from pymc_austerity.groups.group_expansion import own_changes, pull_of_others, rate_of_rows
from pymc_austerity.groups.group_parts import (
    GroupParts,
    GroupPlace,
    RefreshOutcome,
    build_conclude,
    conditional_of,
    row_numbers,
)
from pymc_austerity.groups.group_tails import propose_across, propose_by_tails
from pymc_austerity.kernel import DECIDE, PROPOSE, ROWS
from pymc_austerity.likelihood import LinkedBothSides, Place

#: Rows of groups that are evaluated together.
TOGETHER = 8192
#: Share of the refreshed groups that walk in z, whose steps find back from tails heavier than normal ones.
_WALKS = 0.05
#: Degrees of freedom of the law that the others are reversible for, and two more for each parameter: of groups that are
#: normal few are refused.
_FREEDOM = 8.0
#: Instead of a number of rows that are drawn.
_ALL = -1


@njit
def next_groups(t, data, state):  # type: ignore[no-untyped-def]
    """Return the groups of turn t that come next."""
    first, n_groups = data.turns.start[t], data.turns.start[t + 1] - data.turns.start[t]
    groups = np.empty(min(data.n_refreshed[t], n_groups), np.int64)
    for i in range(groups.size):
        groups[i] = data.turns.groups[first + (state.next[t] + i) % n_groups]
    state.next[t] = (state.next[t] + groups.size) % n_groups
    return groups


@njit
def propose_groups(theta, groups, data, state, rng):  # type: ignore[no-untyped-def]
    """Return θ′ and, for each of the groups, log q(u|u′) − log q(u′|u)."""
    e = data.steering
    theta_new, log_q_ratio = theta.copy(), np.zeros(groups.size)
    walks = rng.random(groups.size)
    noise = rng.standard_normal((groups.size, e.own.shape[1]))
    pull = pull_of_others(theta, groups, e)
    means = means_given_others(groups, pull, rate_of_rows(theta, e.centre, e.scale), e, conditional_of(state))
    z = np.empty(e.own.shape[1])
    for i in range(groups.size):
        g = groups[i]
        size, bent = e.size[g], data.tails.number[g] >= 0
        if walks[i] < _WALKS and not bent:
            for k in range(size):
                noise[i, k] *= 2.38 / np.sqrt(size)
                means[i, k] = theta[e.own[g, k]]
        else:
            for k in range(size):
                z[k] = 0.0
                for j in range(k, size):
                    z[k] += state.factor[g, j, k] * (theta[e.own[g, j]] - means[i, j])
            if bent:
                log_q_ratio[i] = propose_by_tails(z, noise[i], size, data.tails.number[g], data.tails, rng)
            else:
                log_q_ratio[i] = propose_across(z, noise[i], size, _FREEDOM + 2.0 * size, rng)
        solve_transposed(state.factor, g, noise, i, size)
        for k in range(size):
            theta_new[e.own[g, k]] = means[i, k] + noise[i, k]
    return theta_new, log_q_ratio


@njit
def _draw_numbers(theta_new, theta, groups, data, rng):  # type: ignore[no-untyped-def]
    """Return how many rows each of the groups draws, and their M."""
    e, bounds = data.expansion, data.bounds
    if draws_nothing(bounds.table):
        return np.zeros(groups.size, np.int64), np.zeros(groups.size)
    shared, beside = square_of_shared(theta, e, bounds), np.zeros(groups.size)
    if e.cell_with.size > 0:
        beside = largest_beside(groups, squares_of_groups(theta, e, bounds), e)
    new, old = squares_of_some(theta_new, groups, e, bounds), squares_of_some(theta, groups, e, bounds)
    drawn, spans, table = np.zeros(groups.size, np.int64), np.empty(groups.size), bounds.table
    for i in range(groups.size):
        rest = shared + beside[i]
        spans[i] = span(new[i] + rest, old[i] + rest, bounds.outwards, bounds.radius)
        size = table.start[groups[i] + 1] - table.start[groups[i]]
        if size > 0:
            rate = total_of_group(table, groups[i]) * spans[i]
            drawn[i] = rng.poisson(rate) if rate < most_drawn(float(size)) else _ALL
    return drawn, spans


@njit
def _few_or_test(theta_new, theta, groups, data, rng):  # type: ignore[no-untyped-def]
    """Return that groups with few rows read all of them, and others none before the test asks; no M."""
    drawn = np.zeros(groups.size, np.int64)
    for i in range(groups.size):
        if data.start[groups[i] + 1] - data.start[groups[i]] <= data.few:
            drawn[i] = _ALL
    return drawn, np.zeros(groups.size)


@njit
def _rows_together(first, groups, drawn, data, rng):  # type: ignore[no-untyped-def]
    """Return places of rows of groups from a place in `groups` on, and the place behind them."""
    start, last, n = data.start, first, 0
    while last < groups.size and (n == 0 or n < TOGETHER):
        g = groups[last]
        n += drawn[last] if drawn[last] != _ALL else start[g + 1] - start[g]
        last += 1
    places, n = np.empty(n, np.int64), 0
    for i in range(first, last):
        g = groups[i]
        if drawn[i] == _ALL:
            for place in range(start[g], start[g + 1]):
                places[n] = place
                n += 1
        else:
            for _ in range(drawn[i]):
                places[n] = draw_of_group(rng, data.bounds.table, g)
                n += 1
    return places, last


@njit
def take_back(theta_new, theta, groups, accepted, e):  # type: ignore[no-untyped-def]
    """Give groups that did not move their parameters again, and return how many moved."""
    for i in range(groups.size):
        if not accepted[i]:
            for k in range(e.size[groups[i]]):
                theta_new[e.own[groups[i], k]] = theta[e.own[groups[i], k]]
    return accepted.sum()


@njit
def number_among_all(row, g, data):  # type: ignore[no-untyped-def]
    """Return the number among all rows of a row of group g; what is no row stays as it is."""
    if row < 0:
        return row
    number, n_rows = data.start[g] + row, n_rows_at(data.arrays)
    return np.int64(data.places[number - n_rows]) if number >= n_rows else number


#: ``refresh(theta, t, data, state, looks_of_large, generators)``: a `RefreshOutcome` of the next groups of turn t; the
#: φ in θ must be that of the state.  Looks at groups with many rows are a typed dict from their numbers.
Refresh = Callable[..., RefreshOutcome]


def build_refresh(parts: GroupParts, thin: Callable[..., tuple[float, int]] = thin) -> Refresh:
    """Compile the refresh of groups; `thin` keeps some of the rows that were drawn."""
    change = _change_of_rows(thin)
    if parts.bounded:
        return _refresh_by(parts.seen.both_sides, True, True, _draw_numbers, _by_drawn_rows, change)
    by_test = _by_test(parts.test.draw_noise, build_conclude(parts, parts.test, parts.test.rows))
    return _refresh_by(parts.density.both_sides, parts.seen.expands, False, _few_or_test, by_test, change)


@njit
def _by_drawn_rows(g, log_ratio, theta_new, theta, data, state, looks_of_large, generators):  # type: ignore[no-untyped-def]
    """Decide where no row was drawn, and say what was read."""
    return np.log1p(-generators[DECIDE].random()) < log_ratio, 0, 0, DECIDED, -1


@built_once
def _by_test(draw_noise: Callable[..., Any], conclude: Conclude) -> Callable[..., Any]:
    """Compile the decision of a group with many rows, which says what was read."""

    @njit
    def by_test(g, log_ratio, theta_new, theta, data, state, looks_of_large, generators):  # type: ignore[no-untyped-def]
        if not np.isfinite(log_ratio):
            return False, 0, 0, DECIDED, -1
        size, noise = data.start[g + 1] - data.start[g], draw_noise(generators[DECIDE])
        centre = data.expansion.centre
        proposed = Place(data.links.seen, theta_new, theta, data.others, centre, data.fixed, data.arrays)
        at = GroupPlace(proposed, data.places, data.start[g])
        asked = Question(at, size, np.inf, log_ratio, float(size), noise)
        d = conclude(generators[ROWS], state.order[:size], looks_of_large[g], asked)
        return d.accepted, d.n_rows, d.n_stages, d.status, d.row

    return by_test


@built_once
def _change_of_rows(thin: Callable[..., tuple[float, int]]) -> Callable[..., tuple[float, int, int]]:
    """Compile what the rows of a group that were read say of its move."""

    @njit
    def change_of_rows(g, drawn, reach, places, new, old, table, rng):  # type: ignore[no-untyped-def]
        """Return what the rows of a group add to its log ratio; what is wrong with one of them, and its place."""
        if drawn == _ALL:
            for k in range(places.size):
                if not np.isfinite(old[k]):
                    return 0.0, BAD_ROW, places[k]
            return new.sum() - old.sum(), DECIDED, -1
        limits = np.empty(drawn)
        for k in range(drawn):
            limits[k] = bound_at(table, g, places[k]) * reach
        estimate, broken = thin(rng, limits, new, old)
        if broken >= 0:
            return 0.0, BAD_BOUND if np.isfinite(old[broken]) else BAD_ROW, places[broken]
        return estimate, DECIDED, -1

    return change_of_rows


@built_once
def _refresh_by(
    both_sides: LinkedBothSides,
    expands: bool,
    bounded: bool,
    draw_numbers: Callable[..., tuple[np.ndarray, np.ndarray]],
    decide: Callable[..., Any],
    change_of_rows: Callable[..., tuple[float, int, int]],
) -> Refresh:
    """Compile the loop over groups."""

    @njit
    def refresh(theta, t, data, state, looks_of_large, generators):  # type: ignore[no-untyped-def]
        e, links = data.expansion, data.links
        groups = next_groups(t, data, state)
        n = groups.size
        theta_new, log_ratio = propose_groups(theta, groups, data, state, generators[PROPOSE])
        change = group_terms_at(links.prior.terms, theta_new, data.others, data.fixed)
        before = group_terms_at(links.prior.terms, theta, data.others, data.fixed)
        drawn, spans = draw_numbers(theta_new, theta, groups, data, generators[ROWS])
        known = own_changes(theta_new, theta, groups, e) if expands else np.zeros(n)
        accepted = np.zeros(n, np.bool_)
        n_rows, n_stages, status, bad_row = 0, 0, DECIDED, -1
        first = np.int64(0)  # a plain 0 is of a type of its own, compiled for too
        while first < n and status == DECIDED:
            places, last = _rows_together(first, groups, drawn, data, generators[ROWS])
            new, old = np.empty(0), np.empty(0)
            if places.size > 0:
                rows = row_numbers(np.int64(0), places, data.places, n_rows_at(data.arrays))
                of_model = links.seen if bounded else links.rows
                new, old = both_sides(of_model, theta_new, theta, data.others, e.centre, data.fixed, data.arrays, rows)
            n_rows += places.size
            stop = 0
            for i in range(first, last):
                g, start = groups[i], stop
                total = log_ratio[i] + (change[g] - before[g])
                if bounded or drawn[i] == 0:
                    total += known[i]
                if drawn[i] == 0:
                    accepted[i], of_group, looks, why, row = decide(
                        g, total, theta_new, theta, data, state, looks_of_large, generators
                    )
                    n_rows, n_stages = n_rows + of_group, n_stages + looks
                else:
                    stop += drawn[i] if drawn[i] != _ALL else data.start[g + 1] - data.start[g]
                    of_rows, why, place = change_of_rows(
                        g, drawn[i], spans[i], places[start:stop], new[start:stop], old[start:stop], data.bounds.table,
                        generators[DECIDE],
                    )  # fmt: skip
                    row = place - data.start[g]
                    accepted[i] = np.log1p(-generators[DECIDE].random()) < total + of_rows  # never for no number
                if why != DECIDED:
                    status, bad_row = why, number_among_all(row, g, data)
            first = last
        n_accepted = take_back(theta_new, theta, groups, accepted, e)
        return RefreshOutcome(
            theta_new if status == DECIDED else theta, status, bad_row, n, n_accepted, n_rows, n_stages, 0
        )

    return refresh
