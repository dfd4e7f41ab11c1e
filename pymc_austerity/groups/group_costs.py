"""How many rows the moves of groups have to read, estimated from a few carried moves and some of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_austerity.groups.group_bounds import GroupBounds, rows_of_refresh, spans_of_move
from pymc_austerity.groups.group_expansion import GroupExpansion
from pymc_austerity.interrupts import uninterrupted
from pymc_austerity.likelihood import BothSides
from pymc_austerity.rows import Rows

#: Rows whose remainders are looked at.
_SAMPLED = 8192


class GroupCosts(NamedTuple):
    """Rows that are read, and what they leave to chance."""

    refreshed: float  # rows that a refresh of all groups reads by their bounds; infinite without bounds
    drawn: float  # Σ c_i M_g: rows that a carried move draws by their bounds at least; infinite without bounds
    #: Variance of the log ratio of a carried move that draws rows by their bounds, times their number.
    noise_of_drawn: float
    noise_of_weighted: float  # the same for rows that are drawn in proportion to their typical remainder


def estimate_costs(
    both_sides: BothSides,
    moves: Sequence[tuple[np.ndarray, np.ndarray]],
    others: np.ndarray,
    fixed: tuple[np.ndarray, ...],
    e: GroupExpansion,
    bounds: GroupBounds | None,
    rows: Rows,
) -> GroupCosts:
    """Estimate what the moves of groups read.

    `both_sides`: remainders of rows; `moves`: θ′ and θ of typical carried moves; `rows`: sorted by the groups of the
    first factor.
    """
    numbers = np.sort(np.random.default_rng(1974).choice(len(rows), min(_SAMPLED, len(rows)), replace=False))
    batch, n_each = rows.take(numbers).arrays, len(rows) / numbers.size
    changes = []
    for theta_new, theta in moves:
        new, old = uninterrupted(both_sides, theta_new, theta, others, e.centre, *fixed, *batch)
        with np.errstate(invalid="ignore"):  # a row that is impossible at both points
            changes.append(np.nan_to_num(new - old, nan=0.0, posinf=0.0, neginf=0.0))
    sizes = np.sqrt(np.mean(np.square(changes), axis=0))
    weighted = float((n_each * sizes.sum()) ** 2)
    if bounds is None:
        return GroupCosts(np.inf, np.inf, np.inf, weighted)
    limits = _bounds_of(numbers, bounds)
    of_rows = np.searchsorted(bounds.table.start, numbers, side="right") - 1
    found = []
    for change, move in zip(changes, moves, strict=True):
        spans = spans_of_move(*move, e, bounds)
        with np.errstate(invalid="ignore"):  # no rows, and a distance beyond the radius
            drawn = np.nansum((bounds.table.totals() * spans)[: bounds.table.n_first])
        noise = n_each * (change**2 / (limits * spans[of_rows])).sum()
        # A move beyond the radius reads all rows, and where all groups make one what is drawn of each has no noise.
        found.append((rows_of_refresh(bounds, spans), drawn, drawn * noise if drawn < np.inf else np.inf))
    refreshed, drawn, noise_of_drawn = np.mean(found, axis=0)
    return GroupCosts(float(refreshed), float(drawn), float(noise_of_drawn), weighted)


def _bounds_of(numbers: np.ndarray, bounds: GroupBounds) -> np.ndarray:
    """Return c_i of some rows."""
    table = bounds.table
    first = np.isin(numbers, table.start)
    with np.errstate(invalid="ignore"):  # of groups of which no bounds are known
        differences = table.sums[numbers] - table.sums[np.maximum(numbers - 1, 0)]
    return np.where(first, table.sums[numbers], np.nan_to_num(differences, nan=np.inf))
