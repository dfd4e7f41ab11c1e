"""How many rows the moves of groups have to read, and by which test a carried move reads them best.

The noise of n rows has a variance of V/n, which leaves 2Φ(−√(V/n)/2) of the acceptance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from pymc_austerity.acceptance import AcceptanceTest, NoisePenalty, ScalableSubsampling
from pymc_austerity.groups.by_group_bounds import limits_by_group
from pymc_austerity.groups.group_bounds import GroupBounds, rows_of_refresh, spans_of_move
from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.groups.group_search import GroupSearch
from pymc_austerity.interrupts import uninterrupted

#: Rows whose remainders are looked at.
_SAMPLED = 8192
#: Rows of the first look of a carried move that is decided by a penalty for its noise: at least, and at most.
_LEAST, _MOST = 500, 50_000
#: An exact decision may cost so many times one that is not, and read such a share of all rows.
_WORTH, _SHARE = 2.0, 0.25
#: A draw without its refresh takes as long as the refresh of so many rows, by itself, for each group and for each cell:
#: 2.4 ms with 150 groups, most of it PyMC's and ours in Python, against 95 ns a row.
_CARRIED_ROWS, _ROWS_PER_GROUP, _ROWS_PER_CELL = 15_000, 3, 0.25
#: Shares of the groups between which effects keep step with what they share: where a share r is refreshed a draw is
#: worth about r of an independent one of each effect, and half of one or more of what is shared.  More where it costs
#: no more than so many times the rest of the draw.
_LEAST_REFRESHED, _MOST_REFRESHED, _REFRESH_TO_CARRIED = 0.3, 1.0, 1.5


class GroupCosts(NamedTuple):
    """Rows that are read, and what they leave to chance."""

    refreshed: float  # rows that a refresh of all groups reads by their bounds; infinite without bounds
    drawn: float  # Σ c_i M_g: rows that a carried move draws by their bounds at least; infinite without bounds
    drawn_within: float  # the same of the moves that stay where the bounds hold; beyond it a move reads all rows
    #: Variance of the log ratio of a carried move that draws rows by their bounds, times their number.
    noise_of_drawn: float
    noise_of_weighted: float  # the same for rows that are drawn in proportion to their typical remainder


def estimate_costs(
    search: GroupSearch,
    moves: Sequence[tuple[np.ndarray, np.ndarray]],
    e: GroupExpansion,
    bounds: GroupBounds | None,
) -> GroupCosts:
    """Estimate what the moves of groups read, from θ′ and θ of typical carried moves."""
    rows = search.rows
    numbers = np.sort(np.random.default_rng(1974).choice(len(rows), min(_SAMPLED, len(rows)), replace=False))
    batch, n_each = rows.take(numbers).arrays, len(rows) / numbers.size
    changes = []
    for theta_new, theta in moves:
        new, old = search.remainders(theta_new, theta, e.centre, batch)
        with np.errstate(invalid="ignore"):  # a row that is impossible at both points
            changes.append(np.nan_to_num(new - old, nan=0.0, posinf=0.0, neginf=0.0))
    sizes = np.sqrt(np.mean(np.square(changes), axis=0))
    weighted = float((n_each * sizes.sum()) ** 2)
    if bounds is None:
        return GroupCosts(np.inf, np.inf, np.inf, np.inf, weighted)
    found = []
    for change, move in zip(changes, moves, strict=True):
        spans = spans_of_move(*move, e, bounds)
        with np.errstate(invalid="ignore"):  # no rows, and a distance beyond the radius
            drawn = np.nansum((bounds.table.totals() * spans)[: bounds.table.n_first])
        limits = uninterrupted(limits_by_group, bounds.table, spans, numbers)
        noise = n_each * (change**2 / np.nan_to_num(limits, nan=np.inf, posinf=np.inf)).sum()  # NaN: no bounds known
        # A move beyond the radius reads all rows, and where all groups make one what is drawn of each has no noise.
        found.append((rows_of_refresh(bounds, spans), drawn, drawn * noise if drawn < np.inf else np.inf))
    refreshed, drawn, noise_of_drawn = np.mean(found, axis=0)
    within = [float(of_move) for _, of_move, _ in found if of_move < np.inf]
    drawn_within = float(np.mean(within)) if within else np.inf
    return GroupCosts(float(refreshed), float(drawn), drawn_within, float(noise_of_drawn), weighted)


def cheapest(noise: float, least: float, most: float, rest: float) -> tuple[float, float]:
    """Return how many rows a carried move reads best, and the logarithm of what an accepted one costs in rows.

    `noise`: variance of the log ratio times the number of rows that are read; `least`, `most`: limits of that number;
    `rest`: rows that cost as much as all else of a draw.
    """
    numbers = np.geomspace(max(1.0, least), max(1.0, least, most), 64)
    costs = np.log(rest + numbers) - np.log(2) - log_ndtr(-np.sqrt(noise / numbers) / 2)
    best = int(np.argmin(costs))
    return float(numbers[best]), float(costs[best])


def choose_carried_rows(costs: GroupCosts, rest: float, n_rows: int) -> tuple[AcceptanceTest, float]:
    """Choose the test of the carried move, and by how much bounds are raised for more rows with less noise."""
    n, cost = cheapest(costs.noise_of_weighted, _LEAST, min(_MOST, max(_LEAST, n_rows / 2)), rest)
    penalty = NoisePenalty(round(n))
    if not costs.drawn < _SHARE * n_rows:
        return penalty, 1.0
    n, exact = cheapest(costs.noise_of_drawn, costs.drawn, _SHARE * n_rows, rest)
    return (ScalableSubsampling() if exact < np.log(_WORTH) + cost else penalty), n / costs.drawn


def rest_of_draw(e: GroupExpansion) -> float:
    """Return how many rows cost as much as a carried move does beside its own rows."""
    return _CARRIED_ROWS + _ROWS_PER_GROUP * e.own.shape[0] + _ROWS_PER_CELL * e.cell_with.size


def rows_by_test(test: AcceptanceTest, sizes: np.ndarray, few: int) -> float:
    """Return how many rows groups of some sizes read, which decide on all of them where these are few."""
    # Large groups read a batch, and few of them more than one.
    batches = {n: test.looks(n).sizes[0] for n in np.unique(sizes[sizes > few]).tolist()}
    return float(sum(batches.get(n, n) for n in sizes.tolist()))


def share_refreshed(n_rows: float, carried: float) -> float:
    """Return the share of the groups that is refreshed a draw, where a refresh of all would read so many rows."""
    return float(np.clip(_REFRESH_TO_CARRIED * carried / max(1, n_rows), _LEAST_REFRESHED, _MOST_REFRESHED))
