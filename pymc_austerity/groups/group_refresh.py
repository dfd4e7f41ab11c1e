"""The refresh: each of a part of the groups of a factor, independent given the rest, draws a new z_g and decides.

It reads all of its rows where they are few, and otherwise as the test asks; of rows with bounds see `bounded_refresh`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_austerity.acceptance import BAD_ROW, DECIDED, Conclude, Question
from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.crossed_means import means_given_others, solve_transposed
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
def rows_together(first, groups, data):  # type: ignore[no-untyped-def]
    """Return the row numbers of groups with few rows, from a place in `groups` on, and the place behind them."""
    last, n = first, 0
    while last < groups.size and (n == 0 or n < TOGETHER):
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
    return row_numbers(numbers, data.places, n_rows_at(data.arrays)), last


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


def build_refresh(parts: GroupParts) -> Refresh:
    """Compile the refresh of groups."""
    conclude = build_conclude(parts, parts.test, parts.test.rows)
    return _refresh_by(parts.density.both_sides, parts.seen.expands, parts.test.draw_noise, conclude)


@built_once
def _refresh_by(
    both_sides: LinkedBothSides, expands: bool, draw_noise: Callable[..., Any], conclude: Conclude
) -> Refresh:

    @njit
    def refresh(theta, t, data, state, looks_of_large, generators):  # type: ignore[no-untyped-def]
        e, links = data.expansion, data.links
        groups = next_groups(t, data, state)
        n = groups.size
        theta_new, offset = propose_groups(theta, groups, data, state, generators[PROPOSE])
        change = group_terms_at(links.prior.terms, theta_new, data.others, data.fixed)
        before = group_terms_at(links.prior.terms, theta, data.others, data.fixed)
        n_rows, n_stages, status, bad_row = 0, 0, DECIDED, -1
        accepted = np.zeros(n, np.bool_)
        known = own_changes(theta_new, theta, groups, e) if expands else offset
        first = np.int64(0)  # a plain 0 is of a type of its own, compiled for too
        while first < n and status == DECIDED:
            numbers, last = rows_together(first, groups, data)
            new, old = np.empty(0), np.empty(0)
            if numbers.size > 0:
                new, old = both_sides(
                    links.rows, theta_new, theta, data.others, e.centre, data.fixed, data.arrays, numbers
                )
            n_rows += numbers.size
            row = 0
            for i in range(first, last):
                g = groups[i]
                size = data.start[g + 1] - data.start[g]
                log_ratio = offset[i] + (change[g] - before[g])
                if size <= data.few:
                    for _ in range(size):
                        if not np.isfinite(old[row]):
                            status, bad_row = BAD_ROW, numbers[row]
                        log_ratio += new[row] - old[row]
                        row += 1
                    accepted[i] = np.log1p(-generators[DECIDE].random()) < log_ratio  # never where it is no number
                elif np.isfinite(log_ratio):
                    if expands:
                        log_ratio += known[i]
                    noise = draw_noise(generators[DECIDE])
                    proposed = Place(links.seen, theta_new, theta, data.others, e.centre, data.fixed, data.arrays)
                    at = GroupPlace(proposed, data.places, data.start[g])
                    asked = Question(at, size, np.inf, log_ratio, float(size), noise)
                    d = conclude(generators[ROWS], state.order[:size], looks_of_large[g], asked)
                    accepted[i] = d.accepted
                    n_rows, n_stages = n_rows + d.n_rows, n_stages + d.n_stages
                    if d.status != DECIDED:
                        status, bad_row = d.status, number_among_all(d.row, g, data)
            first = last
        n_accepted = take_back(theta_new, theta, groups, accepted, e)
        return RefreshOutcome(
            theta_new if status == DECIDED else theta, status, bad_row, n, n_accepted, n_rows, n_stages, 0
        )

    return refresh
