"""The refresh of groups whose rows have bounds: every group decides exactly, most of them without reading a row.

Of a group with Σ c_i M_g = λ rows Poisson(λ) are drawn and thinned, as by `ScalableSubsampling`; all of them are read
where that is no more, or more than a few: what they leave to chance would refuse most ways out of a tail.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pymc_austerity.acceptance import BAD_BOUND, BAD_ROW, DECIDED
from pymc_austerity.acceptance.scalable_subsampling import thin
from pymc_austerity.compile.addresses import n_rows_at
from pymc_austerity.compile.cache import built_once
from pymc_austerity.compile.lean_njit import njit
from pymc_austerity.groups.by_group_bounds import bound_at, draw_of_group, draws_nothing, total_of_group
from pymc_austerity.groups.group_bounds import (
    MOST_DRAWN,
    largest_beside,
    span,
    square_of_shared,
    squares_of_groups,
    squares_of_some,
)
from pymc_austerity.groups.group_density import group_terms_at
from pymc_austerity.groups.group_expansion import own_changes
from pymc_austerity.groups.group_parts import GroupParts, RefreshOutcome, row_numbers
from pymc_austerity.groups.group_refresh import (
    TOGETHER,
    Refresh,
    next_groups,
    number_among_all,
    propose_groups,
    take_back,
)
from pymc_austerity.kernel import DECIDE, PROPOSE, ROWS
from pymc_austerity.likelihood import LinkedBothSides

#: Instead of a number of rows that are drawn.
_ALL = -1


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
            drawn[i] = rng.poisson(rate) if rate < min(size, MOST_DRAWN) else _ALL
    return drawn, spans


@njit
def _rows_together(first, groups, drawn, data, rng):  # type: ignore[no-untyped-def]
    """Return places of rows of groups from a place in `groups` on, and the place behind them."""
    table, last, n = data.bounds.table, first, 0
    while last < groups.size and (n == 0 or n < TOGETHER):
        g = groups[last]
        n += drawn[last] if drawn[last] != _ALL else table.start[g + 1] - table.start[g]
        last += 1
    places, n = np.empty(n, np.int64), 0
    for i in range(first, last):
        g = groups[i]
        if drawn[i] == _ALL:
            for place in range(table.start[g], table.start[g + 1]):
                places[n] = place
                n += 1
        else:
            for _ in range(drawn[i]):
                places[n] = draw_of_group(rng, table, g)
                n += 1
    return places, last


def build_bounded_refresh(parts: GroupParts, thin: Callable[..., tuple[float, int]] = thin) -> Refresh:
    """Compile the refresh of groups; `thin` keeps some of the rows that were drawn."""
    return _refresh_by(parts.seen.both_sides, thin)


@built_once
def _refresh_by(both_sides: LinkedBothSides, thin: Callable[..., tuple[float, int]]) -> Refresh:

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

    @njit
    def refresh(theta, t, data, state, looks_of_large, generators):  # type: ignore[no-untyped-def]
        e, links, table = data.expansion, data.links, data.bounds.table
        groups = next_groups(t, data, state)
        n = groups.size
        theta_new, log_ratio = propose_groups(theta, groups, data, state, generators[PROPOSE])
        change = group_terms_at(links.prior.terms, theta_new, data.others, data.fixed)
        before = group_terms_at(links.prior.terms, theta, data.others, data.fixed)
        drawn, spans = _draw_numbers(theta_new, theta, groups, data, generators[ROWS])
        known = own_changes(theta_new, theta, groups, e)
        accepted = np.zeros(n, np.bool_)
        n_rows, status, bad_row = 0, DECIDED, -1
        first = np.int64(0)  # a plain 0 is of a type of its own, compiled for too
        while first < n and status == DECIDED:
            places, last = _rows_together(first, groups, drawn, data, generators[ROWS])
            new, old = np.empty(0), np.empty(0)
            if places.size > 0:
                rows = row_numbers(places, data.places, n_rows_at(data.arrays))
                new, old = both_sides(
                    links.seen, theta_new, theta, data.others, e.centre, data.fixed, data.arrays, rows
                )
            n_rows += places.size
            stop = 0
            for i in range(first, last):
                g, start = groups[i], stop
                total = log_ratio[i] + known[i] + (change[g] - before[g])
                if drawn[i] != 0:
                    stop += drawn[i] if drawn[i] != _ALL else table.start[g + 1] - table.start[g]
                    of_rows, why, place = change_of_rows(
                        g, drawn[i], spans[i], places[start:stop], new[start:stop], old[start:stop], table,
                        generators[DECIDE],
                    )  # fmt: skip
                    total += of_rows
                    if why != DECIDED:
                        status, bad_row = why, number_among_all(place - data.start[g], g, data)
                accepted[i] = np.log1p(-generators[DECIDE].random()) < total  # never where it is no number
            first = last
        n_accepted = take_back(theta_new, theta, groups, accepted, e)
        return RefreshOutcome(theta_new if status == DECIDED else theta, status, bad_row, n, n_accepted, n_rows, 0, 0)

    return refresh
